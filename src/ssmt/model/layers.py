"""What encoder and decoder layers are made of: embeddings with positions, attention, feed-forward, residual branches.

Shapes: N rows, S attended positions, T positions, D width, H heads.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.model.dropout import Dropout
from ssmt.model.nested import NestedSubwords
from ssmt.model.ngrams import NgramInputs, Suffixes


class Embedding(nn.Module):
    """Token embedding times sqrt(D), plus sinusoidal positions; with n-gram inputs or nested subwords, plus those.

    The positions' first half are sines and the second cosines, with frequencies from 1 to 1/10000.
    """

    def __init__(
        self,
        size: int,
        config: NetworkConfig,
        padding: int,
        ngrams: NgramInputs | None = None,
        nested: NestedSubwords | None = None,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, config.width, padding_idx=padding)
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5)
        nn.init.zeros_(self.tokens.weight[padding])
        self.ngrams, self.nested = ngrams, nested
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

    def positions(self, T: int, first: int | Tensor = 0) -> Tensor:
        """Of T tokens; `first` is the position of the first, one for all or one a row (N, 1). (T, D) or (N, T, D)"""
        begin = first + self.offset
        last = int(begin.max()) if isinstance(begin, Tensor) else begin
        table = self.get_buffer("table")
        if last + T > len(table):  # there is no longest sentence
            table = self.table = self._positions(2 * (last + T)).to(table.device)
        if isinstance(begin, Tensor):
            return table[begin + torch.arange(T, device=begin.device)]
        return table[begin : begin + T]

    def position_of_each(self, position: int | Tensor) -> Tensor:
        """One token a row, at one position for all or one a row (N,). (1, D) or (N, D)"""
        first = position if isinstance(position, int) else position.unsqueeze(1)
        return self.positions(1, first).flatten(0, -2)

    def unscaled(self, tokens: Tensor) -> Tensor:
        """Without positions. (N, T) -> (N, T, D)"""
        embedded = self._alone(tokens)
        return embedded if self.ngrams is None else embedded + self.ngrams(tokens)

    def _alone(self, tokens: Tensor) -> Tensor:
        """Whatever stands before them."""
        embedded: Tensor = self.tokens(tokens)
        return embedded if self.nested is None else embedded + self.nested(tokens)

    def unscaled_step(self, symbols: Tensor, suffixes: Suffixes | None, reading: Tensor | None = None) -> Tensor:
        """The same for one more symbol a row. (N,) -> (N, D)"""
        embedded = self._alone(symbols)
        if self.ngrams is None or suffixes is None:
            return embedded
        return embedded + self.ngrams.step(symbols, suffixes, reading)

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, T) -> (N, T, D)"""
        positions = self.positions(tokens.shape[-1])
        embedded: Tensor = self.dropout(torch.add(positions, self.unscaled(tokens), alpha=self.scale))
        return embedded

    def start(self, rows: int) -> Suffixes | None:
        """What the first step of a search needs to know."""
        return None if self.ngrams is None else self.ngrams.start(rows)

    def step(
        self, symbols: Tensor, position: int | Tensor, suffixes: Suffixes | None, reading: Tensor | None = None
    ) -> Tensor:
        """One more symbol a row, at one position for all or one a row (N,). (N,) -> (N, D)"""
        unscaled = self.unscaled_step(symbols, suffixes, reading)
        embedded: Tensor = self.dropout(torch.add(self.position_of_each(position), unscaled, alpha=self.scale))
        return embedded

    def vectors(self) -> Tensor:
        """The embedding of every token, alone and without a position. (C, D)"""
        return self.tokens.weight * self.scale


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
        """x (N, T, D), keys and values (N, H, S, D/H), mask broadcastable to (N, H, T, S): True = visible, or numbers
        that are added to the logits."""
        queries = self.split(self.query(x))
        if mask is not None and mask.is_floating_point():
            mask = mask.to(queries.dtype)
        return self._joined(F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal))

    def attend_openly(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, with how much each position attends to each, the mean of the heads. (N, T, D), (N, T, S)"""
        logits = self.split(self.query(x)) @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])
        weights = masked(logits, mask).softmax(dim=-1)
        return self._joined(weights.to(values.dtype) @ values), weights.mean(dim=1)

    def _joined(self, of_heads: Tensor) -> Tensor:
        """(N, H, T, D/H) -> (N, T, D)"""
        joined: Tensor = self.output(of_heads.transpose(1, 2).flatten(2))
        return joined


class FeedForward(nn.Sequential):
    def __init__(self, config: NetworkConfig, inner: int | None = None) -> None:
        inner = inner or config.feedforward
        super().__init__(linear(config.width, inner), nn.ReLU(), Dropout(config.dropout), linear(inner, config.width))


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


def masked(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Logits of attention with a mask as `Attention.attend` takes it."""
    if mask is None:
        return logits
    return logits + mask if mask.is_floating_point() else logits.masked_fill(~mask, -math.inf)


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
