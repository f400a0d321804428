"""A plain Transformer: encoder, and a decoder that can run over whole sequences or one step at a time.

Pre-norm by default; post-norm and a position offset are options, so that models of the original implementation fit in.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source tokens, T target positions, D width, H heads.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.body import Body, Cache, Memory
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

    def forward(self, x: Tensor, memory: Memory | None, plan: Tensor | None = None) -> Tensor:
        """x (B, T, D), plan (B, T, S)"""
        return self._after_self_attention(self._after_looking_back(x), self.source(memory), plan)

    def planning(self, x: Tensor, memory: Memory | None, plan: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The same, with the plan that this layer's attention makes; none without a source. (B, T, D), (B, T, S)"""
        return self._planning_after_self_attention(self._after_looking_back(x), self.source(memory), plan)

    def _after_looking_back(self, x: Tensor) -> Tensor:
        if not self.has_self_attention:
            return x
        inner = self.attention_residual.enter(x)
        attended = self.attention.attend(inner, *self.attention.keys_values(inner), causal=True)
        return self.attention_residual.leave(x, attended)

    def _after_self_attention(self, x: Tensor, source: Source | None, plan: Tensor | None = None) -> Tensor:
        """The other branches: x (B, T, D), or hypotheses in the place of positions; without a source, one less."""
        if source is not None:
            inner, mask = self.cross_residual.enter(x), self._where_to_look(source, plan)
            x = self.cross_residual.leave(x, self.cross_attention.attend(inner, source.keys, source.values, mask=mask))
        return self._after_source(x)

    def _planning_after_self_attention(
        self, x: Tensor, source: Source | None, plan: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if source is None:
            return self._after_source(x), None
        inner, mask = self.cross_residual.enter(x), self._where_to_look(source, plan)
        crossed, weights = self.cross_attention.attend_openly(inner, source.keys, source.values, mask)
        return self._after_source(self.cross_residual.leave(x, crossed)), (weights + LEAST).log()

    def _where_to_look(self, source: Source, plan: Tensor | None) -> Tensor | None:
        """As a mask of attention; plan (B, T, S)"""
        if plan is None:
            return source.mask
        assert self.plan_weight is not None
        return masked(self.plan_weight.view(-1, 1, 1) * plan.unsqueeze(1), source.mask)  # (B, H, T, S)

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

    def planning_step(
        self, x: Tensor, cache: LayerCache, position: int | Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The same, with the plan that this layer's attention makes. (N, D), (N, S)"""
        x = self._after_looking_back_a_step(x, cache, position, rows)
        stepped, plan = self._planning_after_self_attention(*self._facing_source(x, cache, rows))
        return stepped.flatten(0, 1), None if plan is None else plan.flatten(0, 1)

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

    def reorder(self, rows: Tensor) -> None:
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
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()

    @staticmethod
    def build_layers(config: NetworkConfig) -> list[DecoderLayer]:
        return [DecoderLayer(config) for _ in range(config.decoder_layers)]

    def decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.layers))

    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        x = self.embedding(previous)
        for layer in self.layers:
            x = layer(x, memory)
        states: Tensor = self.norm(x)
        return states

    def planned_states(self, previous: Tensor, memory: Memory | None) -> tuple[Tensor, list[Tensor]]:
        """A plan of each layer."""
        x, plans = self.embedding(previous), list[Tensor | None]()
        for layer in self.decoder_layers():
            x, plan = layer.planning(x, memory)
            plans.append(plan)
        return self.norm(x), [plan for plan in plans if plan is not None]

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
        for layer, layer_cache in zip(self.decoder_layers(), cache.layers, strict=True):
            x = layer.step(x, layer_cache, position)
        cache.position = position + (1 if reading is None else reading.long())
        state: Tensor = self.norm(x)
        return state
