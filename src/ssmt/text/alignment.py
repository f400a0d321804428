"""Which source subwords the parts of a target translate, learnt from the pairs alone. Ours, not the paper's.

A decoder has to find out where in the source to look, and of few pairs it takes many epochs to. Counting finds out most
of it in seconds: the first model of Brown et al. (1993), in which each unit of a target is a translation of one source
subword or of none, and then the same with a preference for subwords at a like place in their sentence (Dyer et al.
2013), whose strength is fixed here. Both are trained by expectation maximisation. What comes of it is no part of a
model: training compares the decoder's attention with it (`TranslationModel.guidance`).

Shapes: B sentences, S source subwords, T target symbols, N units of a target, V source vocabulary, U units there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ssmt.text.vocabulary import NO_UNIT, BothSides

ROUNDS, ROUNDS_BY_PLACE = 5, 5  # of expectation maximisation, before and after place matters
TENSION = 4.0  # how much place matters
OF_NONE = 0.08  # prior probability that a unit translates nothing
UNSEEN = 1e-3  # added to a subword's counts, shared among all units
MOST_PAIRS = 50_000  # that are learnt from: half a minute
MOST_CELLS = 1 << 26  # of the table: 256 MiB; where units are too many, some share a column


class Alignment:
    def __init__(self, vocabulary: BothSides) -> None:
        self.vocabulary = vocabulary
        self.nothing = vocabulary.sizes[0]  # the subword that stands for none
        self.U = max(1, min(vocabulary.unit_count, MOST_CELLS // (self.nothing + 1)))
        self.table = torch.full(((self.nothing + 1) * self.U,), 1 / self.U)  # (V+1)*U: p(unit | subword)

    def learn(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """From padded sources (B, S) and targets (B, T), batch by batch."""
        batches = [(source, self._units(target)[0]) for source, target in pairs]
        for number in range(ROUNDS + ROUNDS_BY_PLACE):
            counts = torch.full_like(self.table, UNSEEN / self.U)
            for source, units in batches:
                cells, probability = self._expected(source, units, by_place=number >= ROUNDS)
                counts.index_add_(0, cells.view(-1), probability.view(-1))
            rows = counts.view(-1, self.U)
            self.table = (rows / rows.sum(dim=1, keepdim=True)).view(-1)

    def of(self, source: Tensor, target: Tensor) -> Tensor:
        """The probability that each target symbol, with the unit that it is in, translates each subword of its source;
        zeros on padding. (B, S), (B, T) -> (B, T, S)"""
        units, number = self._units(target)
        _, probability = self._expected(source, units, by_place=True)
        of_symbols = probability[:, :, :-1].gather(1, number.unsqueeze(-1).expand(-1, -1, source.shape[1]))
        return of_symbols.masked_fill_((target == self.vocabulary.target_pad).unsqueeze(-1), 0.0)

    def _units(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """The units of each target, NO_UNIT after its last (B, N); and which of them each symbol is in, or comes after
        (B, T)."""
        begins = self.vocabulary.units(target)  # (B, T)
        is_unit = begins != NO_UNIT
        number = (is_unit.cumsum(dim=1) - 1).clamp_(min=0)
        N = max(1, int(is_unit.sum(dim=1).max()))
        place = torch.sort((~is_unit).byte(), dim=1, stable=True).indices[:, :N]
        return begins.gather(1, place), number

    def _expected(self, source: Tensor, units: Tensor, by_place: bool) -> tuple[Tensor, Tensor]:
        """For each unit and each subword of its source, and none as the last: where the table has them, and the
        probability that the one translates the other. (B, S), (B, N) -> (B, N, S+1) both"""
        is_real, is_unit = source != self.vocabulary.source_pad, units != NO_UNIT
        prior = is_real.unsqueeze(1).float()  # (B, 1, S)
        if by_place:
            prior = prior * torch.exp(
                -TENSION * (_places(is_unit).unsqueeze(2) - _places(is_real).unsqueeze(1)).abs_()
            )  # (B, N, S)
        prior = prior * ((1 - OF_NONE) / prior.sum(dim=2, keepdim=True).clamp_(min=1e-30))
        with_none = torch.cat([source, torch.full_like(source[:, :1], self.nothing)], dim=1)
        cells = with_none.unsqueeze(1) * self.U + units.clamp(min=0).remainder_(self.U).unsqueeze(2)
        joint = self.table[cells]
        joint[:, :, :-1] *= prior
        joint[:, :, -1] *= OF_NONE
        joint *= is_unit.unsqueeze(2) / joint.sum(dim=2, keepdim=True)
        return cells, joint


def _places(is_real: Tensor) -> Tensor:
    """Where in its sentence each is, from 0 to 1. (B, n) -> (B, n)"""
    count = is_real.sum(dim=1, keepdim=True).clamp(min=1)
    return (torch.arange(is_real.shape[1], device=is_real.device) + 0.5) / count


def evenly(count: int, most: int = MOST_PAIRS) -> Sequence[int]:
    """As many of the numbers below `count` as are learnt from, from all of its parts."""
    return range(0, count, -(-count // most))
