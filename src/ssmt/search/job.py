"""What a search is given and what it gives back.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, W symbols, P characters of the longest prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from ssmt.model.body import Memory
from ssmt.model.translation import TranslationModel
from ssmt.search.options import SearchOptions


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    symbols: list[int]  # without `</s>`
    score: float  # natural log-probability; of what, the search says
    rank: float  # what it was ranked by
    ends: list[int] | None = None  # after how many characters each segment ends, where the search decides that


@dataclass(frozen=True)
class Request:
    """What is asked for of each sentence of a batch: its first symbol, and what its output must keep to (lengths are in
    characters)."""

    start_symbols: Tensor  # (B,) what the decoder reads before the first symbol
    max_length: Tensor  # (B,) without `</s>`
    min_length: int
    prefix: Tensor  # (B, P) what the output must begin with, padded
    prefix_length: Tensor  # (B,)

    @classmethod
    def of_lengths(cls, start: int, max_length: Tensor, min_length: int = 0) -> Request:
        """The same first symbol for all, no prefix. max_length (B,)"""
        none = torch.zeros_like(max_length)
        return cls(torch.full_like(max_length, start), max_length, min_length, none.new_zeros(len(none), 0), none)

    @property
    def sentences(self) -> int:
        return len(self.max_length)

    def first_symbols(self, hypotheses: int) -> Tensor:
        """What each row reads first. (N,)"""
        return self.start_symbols.repeat_interleave(hypotheses)

    def select(self, sentences: Tensor) -> Request:
        return Request(
            self.start_symbols[sentences],
            self.max_length[sentences],
            self.min_length,
            self.prefix[sentences],
            self.prefix_length[sentences],
        )

    @cached_property
    def first_end(self) -> int:
        """The position at which the first sentence must end."""
        return int(torch.maximum(self.max_length, self.prefix_length).min())

    def allowed(self, position: int, possible: Tensor, eos: int, rows: int) -> Tensor:
        """Which characters may come at a position, of those possible at all (W,), with so many rows a sentence.
        (N, W), or (1, W) where all rows agree"""
        if self.min_length <= position < self.first_end and position >= self.prefix.shape[1]:
            return possible.unsqueeze(0)  # nearly always: no limit is near
        return self._allowed(position, possible, eos).repeat_interleave(rows, dim=0)

    def _allowed(self, position: int, possible: Tensor, eos: int) -> Tensor:
        allowed = possible.repeat(len(self.max_length), 1)
        if position < self.min_length:
            allowed[:, eos] = False
        only_end = position >= torch.maximum(self.max_length, self.prefix_length)
        allowed &= ~only_end.unsqueeze(1)
        allowed[:, eos] |= only_end
        if position < self.prefix.shape[1]:
            forced = torch.zeros_like(allowed).scatter_(1, self.prefix[:, position : position + 1], True)
            allowed = torch.where((position < self.prefix_length).unsqueeze(1), forced, allowed)
        return allowed


class WritingRequest:
    """The same for symbols that write several characters each (none, for some)."""

    def __init__(self, request: Request, written: Tensor, written_length: Tensor, beam: int, eos: int) -> None:
        """written (W, widest): the characters of each symbol, padded; written_length (W,)."""
        self.request, self.written, self.written_length, self.beam, self.eos = (
            request,
            written,
            written_length,
            beam,
            eos,
        )

    def select(self, sentences: Tensor) -> WritingRequest:
        return WritingRequest(self.request.select(sentences), self.written, self.written_length, self.beam, self.eos)

    def allowed(self, length: Tensor) -> Tensor:
        """Which symbols keep to the limits after `length` (N,) characters. (N, W), or (1, W) where all rows agree"""
        W, width = self.written.shape
        prefix_length = self.request.prefix_length.repeat_interleave(self.beam)
        most = torch.maximum(self.request.max_length.repeat_interleave(self.beam), prefix_length)
        finishes = (length >= prefix_length) & ((length >= self.request.min_length) | (length >= most))
        if finishes.all() and (length + width <= most).all():  # nearly always: no limit is near
            return torch.ones(1, W, dtype=torch.bool, device=length.device)
        after = length.unsqueeze(1) + self.written_length  # (N, W) characters once the symbol is written
        allowed = after <= most.unsqueeze(1)
        if (length < prefix_length).any():
            place = length.unsqueeze(1) + torch.arange(width, device=length.device)  # (N, width)
            prefix = self.request.prefix.repeat_interleave(self.beam, dim=0)
            wanted = prefix.gather(1, place.clamp(max=prefix.shape[1] - 1))
            bound = place < prefix_length.unsqueeze(1)
            for column in range(width):  # (N, W) a column: no (N, W, width) tensor
                writes = column < self.written_length
                differs = self.written[:, column].expand(len(place), W) != wanted[:, column : column + 1]
                allowed &= ~(differs & writes & bound[:, column : column + 1])
        allowed[:, self.eos] = finishes
        return allowed


class Scorer(Protocol):
    """A model as beam search sees it: N rows, each a prefix that can be extended by one of W symbols."""

    eos: int

    def extensions(self) -> Tensor:
        """The score of every row's prefix with every symbol, NEG_INF for what may not follow it; exact for `eos`,
        which finishes it. (N, W)"""

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        """The new row i is the old `rows[i]` with one more symbol."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Go on with these sentences only; called just before `advance`, whose rows still count the old ones."""


NewScorer = Callable[[Any, Memory | None, int, Request], Scorer]  # network, source, rows a sentence, what is asked for


@dataclass(frozen=True)
class Job:
    """One batch to search."""

    model: TranslationModel
    memory: Memory | None
    request: Request
    options: SearchOptions
    scorer: NewScorer  # of the strings that the model writes, symbol by symbol
    seeds: Sequence[int] = ()  # a sentence's own, for samples

    def new_scorer(self, hypotheses: int) -> Scorer:
        return self.scorer(self.model, self.memory, hypotheses, self.request)
