"""A plain Transformer: encoder, and a decoder that can run over whole sequences or one step at a time.

Pre-norm by default; post-norm and a position offset are options, so that models of the original implementation fit in.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source tokens, T target positions, D width, H heads.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.body import Body, Cache, Memory, Planned
from ssmt.model.coverage import Coverage
from ssmt.model.layers import Attention, Embedding, FeedForward, Residual, masked
from ssmt.model.nested import NestedSubwords
from ssmt.model.ngrams import Suffixes
from ssmt.text.vocabulary import SourceSubwords

LEAST_ROOM = 8  # positions that a cache grows by at first: of words, a sentence often has no more than some ten
LEAST = 1e-3  # added to the probabilities of a plan, so that nothing is out of the question


class EncoderLayer(nn.Module):
    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = Attention(config), Residual(config)
        self.feedforward, self.feedforward_residual = FeedForward(config), Residual(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        inner = self.attention_residual.enter(x)
        x = self.attention_residual.leave(
            x, self.attention.attend(inner, *self.attention.keys_values(inner), mask=mask)
        )
        return self.feedforward_residual.leave(x, self.feedforward(self.feedforward_residual.enter(x)))


class Encoder(nn.Module):
    def __init__(self, subwords: SourceSubwords, config: NetworkConfig) -> None:
        super().__init__()
        self.padding = subwords.pad
        nested = NestedSubwords.of(subwords, config)
        self.embedding = Embedding(len(subwords), config, subwords.pad, nested=nested)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()

    def forward(self, source: Tensor) -> Memory:
        """source (B, S), padded on the right."""
        mask = source != self.padding
        x = self.embedding(source)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return Memory(self.norm(x), mask, source)


class Source(NamedTuple):
    """The encoded source as one decoder layer attends to it."""

    keys: Tensor  # (B, H, S, D/H)
    values: Tensor  # (B, H, S, D/H)
    mask: Tensor | None  # (B, 1, 1, S) True at real tokens, or what to add to the scores; none: all are real

    def select(self, sentences: Tensor) -> Source:
        return Source(*(None if x is None else x.index_select(0, sentences) for x in self))  # type: ignore[arg-type]

    def for_many_steps(self) -> Source:
        """The same, laid out so that each step has the least to do."""
        keys, values, mask = self.keys.contiguous(), self.values.contiguous(), self.mask
        if mask is not None:
            all_real = bool(mask.all())  # a synchronisation, once a search
            mask = None if all_real else torch.where(mask, 0.0, -torch.inf).to(keys.dtype)
        return Source(keys, values, mask)


class DecoderLayer(nn.Module):
    """A layer can be told where in the source to look: a plan (..., S) in logarithms, which each head adds to its own
    logits with a weight of its own. Another layer's attention makes such a plan."""

    def __init__(
        self,
        config: NetworkConfig,
        inner: int | None = None,
        self_attention: bool = True,
        follows_plan: bool = False,
    ) -> None:
        """`inner`: the width of its feed-forward layer, if not the usual one. Without self-attention a position sees
        the source, and of the target what comes in at that position."""
        super().__init__()
        self.plan_weight = nn.Parameter(torch.ones(config.heads)) if follows_plan else None
        self.has_self_attention = self_attention
        if self_attention:
            self.attention, self.attention_residual = Attention(config), Residual(config)
        self.cross_attention, self.cross_residual = Attention(config), Residual(config)
        self.feedforward, self.feedforward_residual = FeedForward(config, inner), Residual(config)

    def source(self, memory: Memory | None) -> Source | None:
        if memory is None:
            return None
        return Source(*self.cross_attention.keys_values(memory.states), memory.mask[:, None, None, :])

    def forward(
        self, x: Tensor, memory: Memory | None, plan: Tensor | None = None, coverage: Tensor | None = None
    ) -> Tensor:
        """x (B, T, D), plan (B, T, S), coverage (B, H, T, S)"""
        return self._after_self_attention(self._after_looking_back(x), self.source(memory), plan, coverage)

    def looking(
        self, x: Tensor, memory: Memory | None, plan: Tensor | None = None, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The same, with where this layer looks, its attention; none without a source. (B, T, D), (B, T, S)"""
        return self._looking_after_self_attention(self._after_looking_back(x), self.source(memory), plan, coverage)

    def _after_looking_back(self, x: Tensor) -> Tensor:
        if not self.has_self_attention:
            return x
        inner = self.attention_residual.enter(x)
        attended = self.attention.attend(inner, *self.attention.keys_values(inner), causal=True)
        return self.attention_residual.leave(x, attended)

    def _after_self_attention(
        self, x: Tensor, source: Source | None, plan: Tensor | None = None, coverage: Tensor | None = None
    ) -> Tensor:
        """The other branches: x (B, T, D), or hypotheses in the place of positions; without a source, one less."""
        if source is not None:
            inner, mask = self.cross_residual.enter(x), self._where_to_look(source, plan, coverage)
            x = self.cross_residual.leave(x, self.cross_attention.attend(inner, source.keys, source.values, mask=mask))
        return self._after_source(x)

    def _looking_after_self_attention(
        self, x: Tensor, source: Source | None, plan: Tensor | None = None, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if source is None:
            return self._after_source(x), None
        inner, mask = self.cross_residual.enter(x), self._where_to_look(source, plan, coverage)
        crossed, weights = self.cross_attention.attend_openly(inner, source.keys, source.values, mask)
        return self._after_source(self.cross_residual.leave(x, crossed)), weights

    def _where_to_look(self, source: Source, plan: Tensor | None, coverage: Tensor | None = None) -> Tensor | None:
        """As a mask of attention; plan (B, T, S), coverage (B, H, T, S)"""
        mask = source.mask
        if plan is not None:
            assert self.plan_weight is not None
            mask = masked(self.plan_weight.view(-1, 1, 1) * plan.unsqueeze(1), mask)  # (B, H, T, S)
        return mask if coverage is None else masked(coverage, mask)

    def _after_source(self, x: Tensor) -> Tensor:
        return self.feedforward_residual.leave(x, self.feedforward(self.feedforward_residual.enter(x)))

    def step(
        self,
        x: Tensor,
        cache: LayerCache,
        position: int | Tensor,
        rows: Tensor | None = None,
        plan: Tensor | None = None,
    ) -> Tensor:
        """x (N, D) at one position; the keys and values of the positions before it are in the cache. plan (N, S)

        With `rows` (n,), only these of the cache's take the step: x (n, D), position (n,)."""
        x = self._after_looking_back_a_step(x, cache, position, rows)
        grouped, source = self._facing_source(x, cache, rows)
        if plan is not None:
            plan = plan.view(*grouped.shape[:2], -1)
        return self._after_self_attention(grouped, source, plan).flatten(0, 1)

    def looking_step(
        self,
        x: Tensor,
        cache: LayerCache,
        position: int | Tensor,
        rows: Tensor | None = None,
        coverage: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The same, with where this layer looks. (N, D), (N, S); coverage (N, H, 1, S)"""
        x = self._after_looking_back_a_step(x, cache, position, rows)
        grouped, source = self._facing_source(x, cache, rows)
        if coverage is not None:
            coverage = coverage.view(*grouped.shape[:2], -1, coverage.shape[-1]).transpose(1, 2)
        stepped, weights = self._looking_after_self_attention(grouped, source, coverage=coverage)
        return stepped.flatten(0, 1), None if weights is None else weights.flatten(0, 1)

    def _after_looking_back_a_step(
        self, x: Tensor, cache: LayerCache, position: int | Tensor, rows: Tensor | None
    ) -> Tensor:
        if not self.has_self_attention:
            return x
        inner = self.attention_residual.enter(x).unsqueeze(1)  # (N, 1, D)
        keys, values, visible = cache.append(*self.attention.keys_values(inner), position, rows)
        return self.attention_residual.leave(x, self.attention.attend(inner, keys, values, mask=visible).squeeze(1))

    def _facing_source(self, x: Tensor, cache: LayerCache, rows: Tensor | None) -> tuple[Tensor, Source | None]:
        """Rows and their source with the same first dimension. The source's keys are held once a sentence: its
        hypotheses are the query positions of one attention (B, K, D)."""
        source = cache.source
        sentences = 0 if source is None else len(source.keys)
        if source is not None and (rows is None or sentences == 1):
            return x.view(sentences, -1, x.shape[-1]), source
        if source is not None and rows is not None:
            source = source.select(rows // (cache.rows // sentences))
        return x.unsqueeze(1), source


def in_logarithms(looked: Tensor) -> Tensor:
    """A layer's attention as a plan."""
    return (looked + LEAST).log()


class LayerCache:
    """Keys and values of one decoder layer: its own by position, in room allotted ahead, and the source's."""

    def __init__(self, source: Source | None, rows: int) -> None:
        self.source, self.rows = None if source is None else source.for_many_steps(), rows
        self.keys: Tensor | None = None  # (N, H, room, D/H)
        self.values: Tensor | None = None

    def append(
        self, key: Tensor, value: Tensor, position: int | Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """All keys and values up to the new ones, and which of them each row may see (none: all). Of all rows, or of
        some `rows` (n,) with a position for each."""
        last = position if isinstance(position, int) else int(position.max())  # a synchronisation
        all_keys, all_values = self._with_room(key, last)
        keys, values = all_keys[:, :, : last + 1], all_values[:, :, : last + 1]
        if isinstance(position, int):
            keys[:, :, position], values[:, :, position] = key[:, :, 0], value[:, :, 0]
            return keys, values, None
        written = torch.arange(len(position), device=position.device) if rows is None else rows
        keys[written, :, position], values[written, :, position] = key[:, :, 0], value[:, :, 0]
        if rows is not None:
            keys, values = keys.index_select(0, rows), values.index_select(0, rows)
        visible = torch.arange(last + 1, device=position.device) <= position.unsqueeze(1)  # (N, T)
        return keys, values, visible[:, None, None, :]

    def _with_room(self, like: Tensor, last: int) -> tuple[Tensor, Tensor]:
        """The keys and values, with room for the position `last`."""
        if self.keys is None or self.values is None:
            self.keys, self.values = (like.new_zeros(self.rows, like.shape[1], 0, like.shape[3]) for _ in range(2))
        room = self.keys.shape[2]
        if last >= room:
            more = self.keys.new_zeros(*self.keys.shape[:2], max(LEAST_ROOM, room // 2), self.keys.shape[3])
            self.keys, self.values = torch.cat([self.keys, more], dim=2), torch.cat([self.values, more], dim=2)
        return self.keys, self.values

    def reorder(self, rows: Tensor, moved: Tensor | None, used: int | None) -> None:
        """`moved` (m,): the rows that do not stay in place, none where rows are dropped; `used`: how many positions
        hold anything, none for as many as there is room for."""
        self.rows = len(rows)
        if self.keys is None or self.values is None:
            return
        if moved is None:
            self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        elif len(moved):  # what stays is not copied, nor room that is not used yet
            origin = rows[moved]
            for x in (self.keys, self.values):
                x[moved, :, :used] = x[origin, :, :used]


class DecoderCache(Cache):
    """The caches of some layers. `position` is where the next symbol goes: the same for all rows, or one a row (N,)
    for searches whose hypotheses differ in length."""

    def __init__(self, layers: list[LayerCache], position: int | Tensor = 0, suffixes: Suffixes | None = None) -> None:
        self.layers, self.position, self.suffixes = layers, position, suffixes
        self.said: Tensor | None = None  # (N, S) of the source, by each row, where a decoder keeps account of it

    def say(self, looked: Tensor, rows: Tensor | None = None) -> Tensor:
        """Add to what is said, of all rows or of some `rows` (n,): where they look. Returns what they have said until
        now. (N, S)"""
        if self.said is None:
            self.said = looked.new_zeros(self.layers[0].rows, looked.shape[1])
        if rows is None:
            self.said = self.said + looked
            return self.said
        self.said[rows] += looked
        return self.said[rows]

    def reorder(self, rows: Tensor) -> None:
        self.said = None if self.said is None else self.said.index_select(0, rows)
        if self.suffixes is not None:
            self.suffixes.reorder(rows)
        moved = None
        if any(layer.keys is not None for layer in self.layers) and len(rows) == self.layers[0].rows:
            moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(-1)
        used = None
        if isinstance(self.position, Tensor):
            self.position = self.position[rows]
        else:
            used = self.position
        for layer in self.layers:
            layer.reorder(rows, moved, used)

    def select_sentences(self, sentences: Tensor) -> None:
        for layer in self.layers:
            layer.source = None if layer.source is None else layer.source.select(sentences)


class Decoder(Body):
    """All layers run once a symbol."""

    def __init__(self, embedding: Embedding, config: NetworkConfig) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(self.build_layers(config))
        has_coverage = config.coverage and self.layers_that_cover(config) > 1
        self.coverage = Coverage(config.heads) if has_coverage else None
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()

    @staticmethod
    def build_layers(config: NetworkConfig) -> list[DecoderLayer]:
        return [DecoderLayer(config) for _ in range(config.decoder_layers)]

    @staticmethod
    def layers_that_cover(config: NetworkConfig) -> int:
        """How many layers there are of which the first can tell the others what of the source is said."""
        return config.decoder_layers

    def decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.layers))

    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        states: Tensor = self.norm(self.telling(self.decoder_layers(), self.embedding(previous), memory)[0])
        return states

    def telling(
        self, layers: list[DecoderLayer], x: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Through some layers; if account is kept of what is said, also where the first of them looks, and what it
        tells all that come later. (B, T, D), (B, T, S), (B, H, T, S)"""
        looked = coverage = None
        for number, layer in enumerate(layers):
            if number == 0 and self.coverage is not None:
                x, looked = layer.looking(x, memory)
                coverage = self.told(looked)
            else:
                x = layer(x, memory, coverage=coverage)
        return x, looked, coverage

    def told(self, looked: Tensor | None) -> Tensor | None:
        """What later layers are told, if account is kept of what is said: looked (B, T, S) where the first one looks,
        none without a source. (B, H, T, S)"""
        if self.coverage is None or looked is None:
            return None
        told: Tensor = self.coverage(looked, looked.cumsum(dim=1))
        return told

    def planned_states(self, previous: Tensor, memory: Memory | None) -> Planned:
        """A plan of each layer."""
        x, coverage, all_looked = self.embedding(previous), None, list[Tensor]()
        for layer in self.decoder_layers():
            x, looked = layer.looking(x, memory, coverage=coverage)
            if looked is not None:
                coverage = coverage if all_looked else self.told(looked)
                all_looked.append(looked)
        plans = [in_logarithms(looked) for looked in all_looked]
        read = plans.pop(0).roll(-1, dims=1) if coverage is not None else None
        return Planned(self.norm(x), plans, read)

    def start(self, memory: Memory | None, sentences: int, hypotheses: int, in_step: bool = True) -> Cache:
        rows = sentences * hypotheses
        layers = [LayerCache(layer.source(memory), rows) for layer in self.decoder_layers()]
        return DecoderCache(layers, 0 if in_step else self._positions(rows), self.embedding.start(rows))

    def _positions(self, rows: int) -> Tensor:
        return torch.zeros(rows, dtype=torch.int64, device=self.embedding.tokens.weight.device)

    def step(self, symbols: Tensor, cache: Cache, reading: Tensor | None = None) -> Tensor:
        assert isinstance(cache, DecoderCache)
        position = cache.position
        x = self.embedding.step(symbols, position, cache.suffixes, reading)
        if self.coverage is None:
            for layer, layer_cache in zip(self.decoder_layers(), cache.layers, strict=True):
                x = layer.step(x, layer_cache, position)
        else:
            x, _ = self.looking_through_step(self.decoder_layers(), x, cache, position, reading=reading)
        cache.position = position + (1 if reading is None else reading.long())
        state: Tensor = self.norm(x)
        return state

    def looking_through_step(
        self,
        layers: list[DecoderLayer],
        x: Tensor,
        cache: DecoderCache,
        position: int | Tensor,
        rows: Tensor | None = None,
        reading: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """One step of some layers, the cache's; with `rows` (n,), of these alone. Also where the last of them looks.
        (N, D), (N, S)"""
        coverage = last = None
        for number, (layer, layer_cache) in enumerate(zip(layers, cache.layers, strict=True)):
            x, last = layer.looking_step(x, layer_cache, position, rows, coverage)
            if number == 0 and self.coverage is not None and last is not None:
                said = cache.say(last if reading is None else last * reading.unsqueeze(1), rows)
                coverage = self.coverage(last.unsqueeze(1), said.unsqueeze(1))
        return x, last
