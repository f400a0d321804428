"""A decoder body whose layers over words come first, and whose last layers read characters. Ours, not the paper's.

n-gram inputs tell what has been read inside a word, so that no layer over characters has to put letters together
before the layers over words can begin. A word is the sum of the inputs of its characters (a bag of its n-grams); the
layers over words attend to the words before it and to the source, and what they make of it is the context of the
characters that follow, up to the next blank. To a character are given, besides its own input and that context, its
place in the word and the sum of the inputs since the word began.

    characters   u m f u n d i _ u y a f u n d a _        inputs, summed up from blank to blank
    words        .             ^                 ^        layers over words, one state a word
    context      0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 2        which word's state each character is given, then their layers

With that, the layers over characters need not attend to other characters: `character_attention: false` leaves it out.
They look at the source once a character; where to look is planned once a word: the attention of the last layer over
words is a prior of theirs, so that what a character learns to look for teaches the words to plan.

Shapes: B sentences, N rows of a search, T characters, C alphabet, W words, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.body import Cache, Memory, Planned
from ssmt.model.dropout import Dropout
from ssmt.model.layers import Embedding, linear
from ssmt.model.transformer import Decoder, DecoderCache, DecoderLayer, LayerCache, in_logarithms
from ssmt.model.words import WordCache, words_of

PLACES = 32  # in a word; later ones are one


class WordsFirstDecoder(Decoder):
    def __init__(self, embedding: Embedding, closes: Tensor, config: NetworkConfig) -> None:
        """closes (C,): the symbols that close a word."""
        super().__init__(embedding, config)
        self.word_layers, self.attends = config.word_layers, config.character_attention
        self.places = nn.Embedding(PLACES, config.width)
        nn.init.normal_(self.places.weight, std=config.width**-0.5)
        # An input is the sum of up to L embeddings, a word that of many inputs: without norms positions would drown.
        self.input_norm, self.sum_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.word_norm, self.context_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.sum = linear(config.width, config.width)
        self.context = linear(config.width, config.width)
        self.word_dropout, self.dropout = Dropout(config.dropout), Dropout(config.dropout)
        self.register_buffer("closes", closes, persistent=False)

    @staticmethod
    def layers_that_cover(config: NetworkConfig) -> int:
        return config.word_layers

    @staticmethod
    def build_layers(config: NetworkConfig) -> list[DecoderLayer]:
        over_words = [DecoderLayer(config) for _ in range(config.word_layers)]
        over_characters = range(config.decoder_layers - config.word_layers)
        narrow = config.character_feedforward, config.character_attention
        return over_words + [DecoderLayer(config, *narrow, follows_plan=True) for _ in over_characters]

    def layers_by_place(self) -> tuple[list[DecoderLayer], list[DecoderLayer]]:
        """Over words, over characters."""
        layers = self.decoder_layers()
        return layers[: self.word_layers], layers[self.word_layers :]

    def word_inputs(self, sums: Tensor, positions: Tensor) -> Tensor:
        """(..., D)"""
        embedded: Tensor = self.word_dropout(self.word_norm(sums) + positions)
        return embedded

    def character_inputs(
        self, inputs: Tensor, sums: Tensor, place: Tensor, context: Tensor, positions: Tensor | None
    ) -> Tensor:
        """(..., D)"""
        of_place = self.places(place.clamp(max=PLACES - 1))
        x = torch.add(self.input_norm(inputs), of_place, alpha=self.embedding.scale)
        x = x + self.sum(self.sum_norm(sums)) + context
        dropped: Tensor = self.dropout(x if positions is None else x + positions)
        return dropped

    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        x, plan, _, _ = self._before_characters(previous, memory)
        for layer in self.layers_by_place()[1]:
            x = layer(x, memory, plan)
        states: Tensor = self.norm(x)
        return states

    def planned_states(self, previous: Tensor, memory: Memory | None) -> Planned:
        """The plans are that of words and those of the layers that follow it."""
        x, plan, looked, word = self._before_characters(previous, memory)
        plans = [plan]
        for layer in self.layers_by_place()[1]:
            x, followed = layer.looking(x, memory, plan)
            plans.append(None if followed is None else in_logarithms(followed))
        read = None
        if looked is not None:  # of the word that a character is in, once it is closed
            is_last = (word == word[:, -1:]).unsqueeze(-1)
            read = _of_characters(in_logarithms(looked).roll(-1, dims=1), word).masked_fill(is_last, 0.0)
        return Planned(self.norm(x), [plan for plan in plans if plan is not None], read)

    def _before_characters(
        self, previous: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
        """What comes to the layers over characters; the words' plan at each of them; where the first layer over words
        looks, if account is kept of what is said; and how many words are closed where a character is written. (B, T,
        D), (B, T, S), (B, W, S), (B, T)"""
        over_words, _ = self.layers_by_place()
        T = previous.shape[1]
        inputs = self.embedding.unscaled(previous) * self.embedding.scale  # (B, T, D)
        closes, word, places = words_of(previous, self.get_buffer("closes"))
        time = torch.arange(T, device=previous.device)
        closed = torch.where(closes, time, -1).cummax(dim=1).values  # the last place, up to here, where a word closes
        opened = F.pad(closed[:, :-1], (1, 0), value=-1)  # the same before here
        summed = F.pad(inputs.cumsum(dim=1), (0, 0, 1, 0))  # (B, T+1, D)
        before = summed.gather(1, (opened + 1).unsqueeze(-1).expand_as(inputs))
        sums = (summed[:, 1:] - before) * (time - opened).to(inputs.dtype).rsqrt().unsqueeze(-1)  # since the word began

        words = sums.gather(1, places.unsqueeze(-1).expand(-1, -1, sums.shape[-1]))  # (B, W, D)
        words = self.word_inputs(words, self.embedding.positions(words.shape[1]))
        words, looked, coverage = self.telling(over_words[:-1], words, memory)
        words, planned = over_words[-1].looking(words, memory, coverage=coverage)
        plan = None if planned is None else _of_characters(in_logarithms(planned), word)
        context = _of_characters(self.context(self.context_norm(words)), word)
        positions = self.embedding.positions(T) if self.attends else None
        return self.character_inputs(inputs, sums, time - closed, context, positions), plan, looked, word

    def start(self, memory: Memory | None, sentences: int, hypotheses: int, in_step: bool = True) -> Cache:
        rows = sentences * hypotheses
        over_words, over_characters = (
            [LayerCache(layer.source(memory), rows) for layer in layers] for layers in self.layers_by_place()
        )
        weight = self.embedding.tokens.weight
        return WordsFirstCache(
            DecoderCache(over_characters, 0 if in_step else self._positions(rows), self.embedding.start(rows)),
            DecoderCache(over_words, self._positions(rows)),
            torch.zeros(rows, weight.shape[1], device=weight.device),
        )

    def step(self, symbols: Tensor, cache: Cache, reading: Tensor | None = None) -> Tensor:
        assert isinstance(cache, WordsFirstCache)
        over_words, over_characters = self.layers_by_place()
        position = cache.characters.position
        inputs = self.embedding.unscaled_step(symbols, cache.characters.suffixes, reading) * self.embedding.scale
        summed, count = cache.sum + inputs, cache.count + 1
        sums = summed * count.to(inputs.dtype).rsqrt().unsqueeze(-1)
        closes = cache.closes(symbols, self.get_buffer("closes"))
        rows = (closes if reading is None else closes & reading).nonzero().squeeze(-1)  # a synchronisation
        if len(rows):  # most steps of most rows are inside a word
            of_words = cache.words_in_order()
            assert isinstance(of_words.position, Tensor)
            at = of_words.position[rows]
            words = self.word_inputs(sums[rows], self.embedding.position_of_each(at))
            words, looked = self.looking_through_step(over_words, words, of_words, at, rows)
            of_words.position[rows] = at + 1
            cache.put_plan(rows, None if looked is None else in_logarithms(looked))
            cache.context[rows] = self.context(self.context_norm(words)).to(cache.context.dtype)
        positions = self.embedding.position_of_each(position) if self.attends else None
        x = self.character_inputs(inputs, sums, count.masked_fill(closes, 0), cache.context, positions)
        for layer, layer_cache in zip(over_characters, cache.characters.layers, strict=True):
            x = layer.step(x, layer_cache, position, plan=cache.plan)
        summed, count = summed.masked_fill(closes.unsqueeze(1), 0.0), count.masked_fill(closes, 0)
        if reading is not None:
            summed, count = summed.where(reading.unsqueeze(1), cache.sum), count.where(reading, cache.count)
        cache.sum, cache.count = summed, count
        cache.characters.position = position + (1 if reading is None else reading.long())
        state: Tensor = self.norm(x)
        return state


def _of_characters(by_word: Tensor, word: Tensor) -> Tensor:
    """What each character has of the words: by_word (B, W, ...), word (B, T) which it has -> (B, T, ...)"""
    return by_word.gather(1, word.unsqueeze(-1).expand(-1, -1, by_word.shape[-1]))


class WordsFirstCache(WordCache):
    """Besides, the sum of the inputs since the word began, how many they are, and where in the source to look."""

    def __init__(self, characters: DecoderCache, words: DecoderCache, context: Tensor) -> None:
        super().__init__(characters, words, context)
        self.sum = torch.zeros_like(context)  # (N, D)
        self.count = torch.zeros(len(context), dtype=torch.int64, device=context.device)  # (N,)
        self.plan: Tensor | None = None  # (N, S)

    def put_plan(self, rows: Tensor, plan: Tensor | None) -> None:
        """rows (n,), plan (n, S); at the first step, all rows"""
        if plan is None:
            return
        if self.plan is None:
            self.plan = plan.new_zeros(len(self.count), plan.shape[1])
        self.plan[rows] = plan

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self.sum, self.count = self.sum.index_select(0, rows), self.count.index_select(0, rows)
        self.plan = None if self.plan is None else self.plan.index_select(0, rows)
