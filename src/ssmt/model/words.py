"""A decoder body with deep layers over words and shallow layers over characters.

Most of a character decoder's cost is its depth, paid once a character. Here the layers in the middle run once a word
instead. The lower layers read characters; where a blank closes a word, their state goes up and is a word to the middle
layers, which attend to the words before it and to the source; and what they make of it is added to the states of the
characters that follow, up to the next blank. The upper layers read those.

    characters   u m f u n d i _ u y a f u n d a _        lower layers, one state a character
    words        .             ^                 ^        middle layers, one state a word
    context      0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 2        which word's state each character is given

No state sees more than the characters before it, as in the plain body, and nothing outside notices the difference.

Shapes: B sentences, N rows of a search, T characters, C alphabet, W words, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.body import Cache, Memory, Planned
from ssmt.model.dropout import Dropout
from ssmt.model.layers import Embedding, linear
from ssmt.model.transformer import Decoder, DecoderCache, DecoderLayer, LayerCache, in_logarithms


def words_of(previous: Tensor, closing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where words close (B, T); how many have been closed before and at each place, less one (B, T); and the places
    where they close (B, W). previous (B, T) the symbols read, closing (C,) those that close a word."""
    closes = closing[previous]
    closes[:, 0] = True  # what stands in front of a target closes the empty word before it
    word = closes.cumsum(dim=1) - 1
    W = int(word[:, -1].max()) + 1  # a synchronisation
    # The places where words close come first; those that fill up a row with fewer of them are after its last word, so
    # that nothing sees them.
    return closes, word, torch.sort((~closes).byte(), dim=1, stable=True).indices[:, :W]


class WordDecoder(Decoder):
    def __init__(self, embedding: Embedding, closes: Tensor, config: NetworkConfig) -> None:
        """closes (C,): the symbols that close a word."""
        super().__init__(embedding, config)
        below = (config.decoder_layers - config.word_layers) // 2
        self.middle = slice(below, below + config.word_layers)
        self.context_norm = nn.LayerNorm(config.width)
        self.context = linear(config.width, config.width)
        self.context_dropout = Dropout(config.dropout)
        self.register_buffer("closes", closes, persistent=False)

    @staticmethod
    def layers_that_cover(config: NetworkConfig) -> int:
        return 0

    def layers_by_place(self) -> tuple[list[DecoderLayer], list[DecoderLayer], list[DecoderLayer]]:
        """Lower, middle, upper."""
        layers = self.decoder_layers()
        return layers[: self.middle.start], layers[self.middle], layers[self.middle.stop :]

    def contexts(self, words: Tensor) -> Tensor:
        """What the middle layers' states add to those of characters. (..., D)"""
        contexts: Tensor = self.context_dropout(self.context(self.context_norm(words)))
        return contexts

    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        x = self._before_last(previous, memory)
        states: Tensor = self.norm(self.decoder_layers()[-1](x, memory))
        return states

    def planned_states(self, previous: Tensor, memory: Memory | None) -> Planned:
        x, looked = self.decoder_layers()[-1].looking(self._before_last(previous, memory), memory)
        return Planned(self.norm(x), [] if looked is None else [in_logarithms(looked)])

    def _before_last(self, previous: Tensor, memory: Memory | None) -> Tensor:
        """What comes to the last layer, which is over characters. (B, T, D)"""
        lower, middle, upper = self.layers_by_place()
        x = self.embedding(previous)
        for layer in lower:
            x = layer(x, memory)
        _, word, places = words_of(previous, self.get_buffer("closes"))
        words = x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # (B, W, D)
        for layer in middle:
            words = layer(words, memory)
        x = x + self.contexts(words).gather(1, word.unsqueeze(-1).expand_as(x))
        for layer in upper[:-1]:
            x = layer(x, memory)
        last: Tensor = x
        return last

    def start(self, memory: Memory | None, sentences: int, hypotheses: int, in_step: bool = True) -> Cache:
        rows = sentences * hypotheses
        lower, middle, upper = (
            [LayerCache(layer.source(memory), rows) for layer in layers] for layers in self.layers_by_place()
        )
        weight = self.embedding.tokens.weight
        return WordCache(
            DecoderCache([*lower, *upper], 0 if in_step else self._positions(rows), self.embedding.start(rows)),
            DecoderCache(middle, self._positions(rows)),
            torch.zeros(rows, weight.shape[1], device=weight.device),
        )

    def step(self, symbols: Tensor, cache: Cache, reading: Tensor | None = None) -> Tensor:
        assert isinstance(cache, WordCache)
        lower, middle, upper = self.layers_by_place()
        position = cache.characters.position
        x = self.embedding.step(symbols, position, cache.characters.suffixes, reading)
        for layer, layer_cache in zip(lower, cache.characters.layers, strict=False):
            x = layer.step(x, layer_cache, position)
        closes = cache.closes(symbols, self.get_buffer("closes"))
        rows = (closes if reading is None else closes & reading).nonzero().squeeze(-1)  # a synchronisation
        if len(rows):  # most steps of most rows are inside a word
            words, of_words = x[rows], cache.words_in_order()
            assert isinstance(of_words.position, Tensor)
            at = of_words.position[rows]
            for layer, layer_cache in zip(middle, of_words.layers, strict=True):
                words = layer.step(words, layer_cache, at, rows)
            of_words.position[rows] = at + 1
            cache.context[rows] = self.contexts(words).to(cache.context.dtype)
        x = x + cache.context
        for layer, layer_cache in zip(upper, cache.characters.layers[len(lower) :], strict=True):
            x = layer.step(x, layer_cache, position)
        cache.characters.position = position + (1 if reading is None else reading.long())
        state: Tensor = self.norm(x)
        return state


class WordCache(Cache):
    """The cache of the layers over characters, that of the layers over words, and what these said last."""

    def __init__(self, characters: DecoderCache, words: DecoderCache, context: Tensor) -> None:
        self.characters = characters
        self.words = words  # with a position for each row: they close their words at different steps
        self.context = context  # (N, D)
        self.begun = False  # whether the symbol in front of the target has been read
        self.order: Tensor | None = None  # the rows of `words` that ours are, if they are not the same

    def reorder(self, rows: Tensor) -> None:
        self.characters.reorder(rows)
        self.context = self.context.index_select(0, rows)
        self.order = rows if self.order is None else self.order[rows]

    def closes(self, symbols: Tensor, closing: Tensor) -> Tensor:
        """Which rows close a word by what they read now: the first symbol always does. (N,)"""
        closes = closing[symbols] if self.begun else torch.ones_like(symbols, dtype=torch.bool)
        self.begun = True
        return closes

    def words_in_order(self) -> DecoderCache:
        """The words' cache is reordered only when a word closes: between two of those a beam moves many times."""
        if self.order is not None:
            self.words.reorder(self.order)
            self.order = None
        return self.words

    def select_sentences(self, sentences: Tensor) -> None:
        self.characters.select_sentences(sentences)
        self.words.select_sentences(sentences)
