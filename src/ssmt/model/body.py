"""What segment models and searches need of a decoder, and nothing else.

A body turns the symbols read so far into states: over whole targets for training, step by step for decoding. How a
state comes about is its own affair; that h_j depends on the symbols before j (and the source) alone is the one thing
that everything else relies on.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source tokens, T target positions, D width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from ssmt.model.layers import Embedding


class Memory(NamedTuple):
    """The encoded source."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S) True at real tokens
    tokens: Tensor  # (B, S)


class Planned(NamedTuple):
    """The states of whole targets, and where in the source the symbol at each position was looked for."""

    states: Tensor  # (B, T, D)
    plans: list[Tensor]  # (B, T, S) in logarithms, of each layer that decides on it before the symbol is written
    # The same of a layer that keeps account of what is said, once the symbol is read; zeros where that layer never
    # reads it. Of a target's last symbol it means nothing.
    read: Tensor | None = None


class Cache(ABC):
    """What one decoding step leaves for the next. A search moves its rows as its beam does."""

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Row i of the next step continues row `rows[i]` of this one, within the same sentence."""

    @abstractmethod
    def select_sentences(self, sentences: Tensor) -> None:
        """Keep the source of some sentences only; the rows are reordered separately."""


class Body(nn.Module, ABC):
    """The model gives it the embedding of its symbols, and the symbols that it reads, the first included."""

    embedding: Embedding

    @abstractmethod
    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        """The states of whole targets: h_j has read the symbols up to `previous[:, j]`, the one before position j.
        previous (B, T), padded on the right; without memory, targets stand alone. (B, T, D)"""

    def planned_states(self, previous: Tensor, memory: Memory | None) -> Planned:
        """The same, with where layers look; nothing of that without a source, or where a body has no such thing."""
        return Planned(self.states(previous, memory), [])

    @abstractmethod
    def start(self, memory: Memory | None, sentences: int, hypotheses: int, in_step: bool = True) -> Cache:
        """An empty cache for `hypotheses` rows a sentence. `in_step`: every row reads a symbol at every step."""

    @abstractmethod
    def step(self, symbols: Tensor, cache: Cache, reading: Tensor | None = None) -> Tensor:
        """The next state of each row after reading one more symbol. (N,) -> (N, D)

        Where rows are not in step, only those marked as `reading` (N,) take the symbol in; what comes back for the
        others means nothing.
        """
