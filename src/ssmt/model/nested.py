"""Nested subwords: what a network is told of the subwords within a subword. Ours, not the paper's.

A large vocabulary gives whole words a vector each, and most of them come too seldom to learn it; a small one has them
learn from many words, and leaves it to the layers to put words together. So the vocabulary can be large, and to the
vector of each subword are added those of all shorter subwords that it contains: `▁ministers` has those of `▁minister`,
`minister`, `ters` and others, which it shares with `▁minister` and `▁ministerial`.

Shapes: V vocabulary, n subwords within one, D width.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig

SHORTEST = 2  # characters of what is within, a blank included: single letters say little
LONGEST = 32  # characters of what contains others: no subword of words is longer
MOST = 64  # within one: of more, the longest


class Subwords(Protocol):
    @property
    def pieces(self) -> Sequence[str]:
        """In the order of their ids."""

    @property
    def no_text(self) -> Collection[int]:
        """The ids of what stands for something else, such as `</s>`."""


class NestedSubwords(nn.Module):
    def __init__(self, subwords: Subwords, width: int) -> None:
        super().__init__()
        none = len(subwords.pieces)
        within = subwords_within(subwords.pieces, subwords.no_text)
        most = max(1, *map(len, within))
        filled = [[*nested, *[none] * (most - len(nested))] for nested in within]
        self.register_buffer("within", torch.tensor(filled), persistent=False)  # (V, n)
        # By the subword's length: by how many it contains, a new subword within it would change what is known of it.
        shares = torch.tensor([len(subword) ** -0.5 if subword else 1.0 for subword in subwords.pieces])
        self.register_buffer("share", shares, persistent=False)  # (V,)
        self.vectors = nn.Embedding(none + 1, width, padding_idx=none)  # the last: nothing
        nn.init.normal_(self.vectors.weight, std=width**-0.5)
        nn.init.zeros_(self.vectors.weight[none])

    @classmethod
    def of(cls, subwords: Subwords, config: NetworkConfig) -> NestedSubwords | None:
        return cls(subwords, config.width) if config.nested_subwords else None

    def forward(self, subwords: Tensor) -> Tensor:
        """What is added to the vector of each. (...) -> (..., D)"""
        within = self.get_buffer("within")[subwords]
        none = self.vectors.num_embeddings - 1
        flat = within.view(-1, within.shape[-1])
        summed = F.embedding_bag(flat, self.vectors.weight, mode="sum", padding_idx=none)
        return summed.view(*subwords.shape, -1) * self.get_buffer("share")[subwords].unsqueeze(-1)


def subwords_within(subwords: Sequence[str], no_text: Collection[int]) -> list[list[int]]:
    """For each subword, those shorter ones that it contains, longest first."""
    id_of = {subword: id for id, subword in enumerate(subwords) if id not in no_text and len(subword) >= SHORTEST}

    def of(subword: str) -> list[int]:
        parts = {
            subword[start : start + length]
            for length in range(SHORTEST, len(subword))
            for start in range(len(subword) - length + 1)
        }
        found = sorted(parts & id_of.keys(), key=lambda part: (-len(part), part))
        return [id_of[part] for part in found[:MOST]]

    return [of(subword) if id not in no_text and len(subword) <= LONGEST else [] for id, subword in enumerate(subwords)]
