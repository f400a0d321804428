"""A plain Transformer: encoder, and a decoder that can run over whole sequences or one step at a time.

Pre-norm by default; post-norm and a position offset are options, so that models of the original implementation fit in.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source tokens, T target positions, D width, H heads.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.dropout import Dropout


class Memory(NamedTuple):
    """The encoded source."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S) True at real tokens


class Embedding(nn.Module):
    """Token embedding times sqrt(D), plus sinusoidal positions.

    The positions' first half are sines and the second cosines, with frequencies from 1 to 1/10000.
    """

    def __init__(self, size: int, config: NetworkConfig, padding: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, config.width, padding_idx=padding)
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5)
        nn.init.zeros_(self.tokens.weight[padding])
        self.scale = math.sqrt(config.width)
        self.offset = config.position_offset
        self.dropout = Dropout(config.dropout)
        self.width = config.width
        self.register_buffer("table", self._positions(1024), persistent=False)

    def _positions(self, count: int) -> Tensor:
        """(count, D)"""
        half = self.width // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000.0) / max(half - 1, 1)))
        angles = torch.arange(count).unsqueeze(-1) * frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    def forward(self, tokens: Tensor, first: int | Tensor = 0) -> Tensor:
        """(N, T) -> (N, T, D); `first` is the position of the first token, one for all or one a row (N, 1)."""
        T, begin = tokens.shape[-1], first + self.offset
        last = int(begin.max()) if isinstance(begin, Tensor) else begin
        table = self.get_buffer("table")
        if last + T > len(table):  # there is no longest sentence
            table = self.table = self._positions(2 * (last + T)).to(table.device)
        if isinstance(begin, Tensor):
            positions = table[begin + torch.arange(T, device=tokens.device)]  # (N, T, D)
        else:
            positions = table[begin : begin + T]
        embedded: Tensor = self.dropout(torch.add(positions, self.tokens(tokens), alpha=self.scale))
        return embedded


class Attention(nn.Module):
    """Multi-head attention. Keys and values can be computed once and kept."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = linear(config.width, config.width)
        self.key_value = linear(config.width, 2 * config.width)
        self.output = linear(config.width, config.width)

    def split(self, x: Tensor) -> Tensor:
        """(N, T, D) -> (N, H, T, D/H)"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return self.split(keys), self.split(values)

    def attend(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """x (N, T, D), keys and values (N, H, S, D/H), mask broadcastable to (N, H, T, S), True = visible."""
        attended = F.scaled_dot_product_attention(
            self.split(self.query(x)), keys, values, attn_mask=mask, is_causal=causal
        )
        result: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result


class FeedForward(nn.Sequential):
    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(
            linear(config.width, config.feedforward),
            nn.ReLU(),
            Dropout(config.dropout),
            linear(config.feedforward, config.width),
        )


class Residual(nn.Module):
    """x + branch(norm(x)), or norm(x + branch(x)) for post-norm."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.pre = config.norm == "pre"
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def leave(self, x: Tensor, branch: Tensor) -> Tensor:
        summed: Tensor = x + self.dropout(branch)
        return summed if self.pre else self.norm(summed)


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
    def __init__(self, vocabulary: int, config: NetworkConfig, padding: int) -> None:
        super().__init__()
        self.padding = padding
        self.embedding = Embedding(vocabulary, config, padding)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()

    def forward(self, source: Tensor) -> Memory:
        """source (B, S), padded on the right."""
        mask = source != self.padding
        x = self.embedding(source)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return Memory(self.norm(x), mask)


class DecoderLayer(nn.Module):
    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = Attention(config), Residual(config)
        self.cross_attention, self.cross_residual = Attention(config), Residual(config)
        self.feedforward, self.feedforward_residual = FeedForward(config), Residual(config)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        inner = self.attention_residual.enter(x)
        own = self.attention.attend(inner, *self.attention.keys_values(inner), causal=True)
        x = self.attention_residual.leave(x, own)
        keys, values = self.cross_attention.keys_values(memory.states)
        return self.after_own_attention(x, keys, values, memory.mask[:, None, None, :])

    def after_own_attention(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        crossed = self.cross_attention.attend(self.cross_residual.enter(x), keys, values, mask=mask)
        x = self.cross_residual.leave(x, crossed)
        return self.feedforward_residual.leave(x, self.feedforward(self.feedforward_residual.enter(x)))

    def step(
        self, x: Tensor, cache: LayerCache, position: int | Tensor, mask: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """x (N, D) at one position; the keys and values of the positions before it are in the cache.

        With `rows` (n,), only these of the cache's take the step: x (n, D), position (n,)."""
        inner = self.attention_residual.enter(x).unsqueeze(1)  # (N, 1, D)
        keys, values, visible = cache.append(*self.attention.keys_values(inner), position, rows)
        x = self.attention_residual.leave(x, self.attention.attend(inner, keys, values, mask=visible).squeeze(1))
        if rows is not None:
            sentences = rows // (len(cache.keys) // len(mask))
            source = cache.source_keys[sentences], cache.source_values[sentences], mask[sentences]
            return self.after_own_attention(x.unsqueeze(1), *source).squeeze(1)
        # The source's keys are held once a sentence: its hypotheses are the query positions of one attention.
        grouped = x.view(mask.shape[0], -1, x.shape[-1])  # (B, K, D)
        return self.after_own_attention(grouped, cache.source_keys, cache.source_values, mask).flatten(0, 1)


class LayerCache:
    """Keys and values of one decoder layer: its own by position, in room allotted ahead, and the source's."""

    def __init__(self, source_keys: Tensor, source_values: Tensor, rows: int) -> None:
        self.source_keys, self.source_values = source_keys, source_values  # (B, H, S, D/H)
        _, heads, _, size = source_keys.shape
        self.keys = source_keys.new_empty(rows, heads, 0, size)  # (N, H, room, D/H)
        self.values = self.keys

    def append(
        self, key: Tensor, value: Tensor, position: int | Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """All keys and values up to the new ones, and which of them each row may see (none: all). Of all rows, or of
        some `rows` (n,) with a position for each."""
        last = position if isinstance(position, int) else int(position.max())  # a synchronisation
        room = self.keys.shape[2]
        if last >= room:
            N, heads, _, size = self.keys.shape
            more = self.keys.new_zeros(N, heads, max(32, room // 2), size)
            self.keys = torch.cat([self.keys, more], dim=2)
            self.values = torch.cat([self.values, more], dim=2)
        keys, values = self.keys[:, :, : last + 1], self.values[:, :, : last + 1]
        if isinstance(position, int):
            keys[:, :, position], values[:, :, position] = key[:, :, 0], value[:, :, 0]
            return keys, values, None
        written = torch.arange(len(position), device=position.device) if rows is None else rows
        keys[written, :, position], values[written, :, position] = key[:, :, 0], value[:, :, 0]
        if rows is not None:
            keys, values = keys.index_select(0, rows), values.index_select(0, rows)
        visible = torch.arange(last + 1, device=position.device) <= position.unsqueeze(1)  # (N, T)
        return keys, values, visible[:, None, None, :]


class DecoderCache:
    """What one decoding step leaves for the next. A search reorders it as its beam does.

    `position` is where the next symbol goes: the same for all rows, or one a row (N,) for searches whose hypotheses
    differ in length.
    """

    def __init__(self, layers: list[LayerCache], mask: Tensor) -> None:
        self.layers = layers
        self.mask = mask  # (B, 1, 1, S)
        self.position: int | Tensor = 0

    def reorder(self, rows: Tensor) -> None:
        """Row i of the next step continues row `rows[i]` of this one, within the same sentence."""
        if isinstance(self.position, Tensor):
            self.position = self.position[rows]
            used = self.layers[0].keys.shape[2]
        else:
            used = self.position
        if len(rows) < len(self.layers[0].keys):
            for layer in self.layers:
                layer.keys, layer.values = (x.index_select(0, rows) for x in (layer.keys, layer.values))
            return
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(-1)
        if len(moved):  # rows that stay in place are not copied, nor room that is not used yet
            origin = rows[moved]
            for layer in self.layers:
                for x in (layer.keys, layer.values):
                    x[moved, :, :used] = x[origin, :, :used]

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep the source of some sentences only; the rows are reordered separately."""
        self.mask = self.mask.index_select(0, sentences)
        for layer in self.layers:
            layer.source_keys = layer.source_keys.index_select(0, sentences)
            layer.source_values = layer.source_values.index_select(0, sentences)


class Decoder(nn.Module):
    """The body of a decoder: `states` over whole targets for training, `step` for decoding. Nothing outside it
    notices how a state is computed from the symbols before it."""

    def __init__(self, vocabulary: int, config: NetworkConfig, padding: int, eos: int) -> None:
        super().__init__()
        self.eos = eos  # `</s>` also stands in front of the first symbol
        self.embedding = Embedding(vocabulary, config, padding)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()

    def decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.layers))

    def previous(self, target: Tensor) -> Tensor:
        """The symbol before each position. (B, T) -> (B, T)"""
        return F.pad(target[:, :-1], (1, 0), value=self.eos)

    def states(self, target: Tensor, memory: Memory) -> Tensor:
        """h_j has read the symbols before j. target (B, T), padded on the right -> (B, T, D)"""
        x = self.embedding(self.previous(target))
        for layer in self.layers:
            x = layer(x, memory)
        states: Tensor = self.norm(x)
        return states

    def start(self, memory: Memory, hypotheses: int) -> DecoderCache:
        """An empty cache for `hypotheses` rows a sentence."""
        rows = memory.mask.shape[0] * hypotheses
        layers = [
            LayerCache(*layer.cross_attention.keys_values(memory.states), rows) for layer in self.decoder_layers()
        ]
        return DecoderCache(layers, memory.mask[:, None, None, :])

    def embed_one(self, symbols: Tensor, position: int | Tensor) -> Tensor:
        """One symbol a row, at one position for all or one a row. (N,) -> (N, D)"""
        first = position if isinstance(position, int) else position.unsqueeze(1)
        embedded: Tensor = self.embedding(symbols.unsqueeze(1), first=first)
        return embedded.squeeze(1)

    def step(self, symbols: Tensor, cache: DecoderCache, reading: Tensor | None = None) -> Tensor:
        """The next state of each row after reading one more symbol. (N,) -> (N, D)

        Where the cache has a position for each row, only the rows marked as `reading` (N,) take the symbol in; what
        comes back for the others means nothing.
        """
        position = cache.position
        x = self.embed_one(symbols, position)
        for layer, layer_cache in zip(self.decoder_layers(), cache.layers, strict=True):
            x = layer.step(x, layer_cache, position, cache.mask)
        cache.position = position + (1 if reading is None else reading.long())
        state: Tensor = self.norm(x)
        return state


def linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
