"""Which source subwords the parts of a target translate, learnt from the pairs alone. Ours, not the paper's.

A decoder has to find out where in the source to look, and of few pairs it takes many epochs to. Counting finds out most
of it in seconds: the first model of Brown et al. (1993), in which each unit of a target is a translation of one source
subword or of none, and then the same with a preference for subwords at a like place in their sentence (Dyer et al.
2013), whose strength is fixed here. All are trained by expectation maximisation, in both directions: of what one of
them believes, only what the other believes too is counted from then on (Liang et al. 2006). What comes of it is no part
of a model: training compares the decoder's attention with it (`TranslationModel.decoded`).

Shapes: B sentences, S source subwords, T target symbols, N units of a target; of one direction, n given, m written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ssmt.text.vocabulary import NO_UNIT, BothSides

ROUNDS, ROUNDS_TOGETHER = 5, 5  # of expectation maximisation, before and after place and the other direction matter
TENSION = 4.0  # how much place matters
OF_NONE = 0.08  # prior probability that a unit translates nothing
UNSEEN = 1e-3  # added to what is counted of each that is given, shared among all that can be written
MOST_PAIRS = 50_000  # that are learnt from: a minute
MOST_CELLS = 1 << 26  # of a table: 256 MiB; where there is too much to write, some share a column


class Direction:
    """How probably each symbol of one side is written for each of the other, or for none."""

    def __init__(self, given: int, written: int) -> None:
        """How many symbols there are of each side."""
        self.none = given
        self.columns = max(1, min(written, MOST_CELLS // (given + 1)))
        self.table = torch.full(((given + 1) * self.columns,), 1 / self.columns)
        self.counts = torch.empty(0)

    def cells(self, given: Tensor, written: Tensor) -> Tensor:
        """Where the table has them. (B, n), (B, m) -> (B, m, n+1)"""
        with_none = torch.cat([given, torch.full_like(given[:, :1], self.none)], dim=1)
        return with_none.unsqueeze(1) * self.columns + written.remainder(self.columns).unsqueeze(2)

    def expected(self, cells: Tensor, prior: Tensor, is_written: Tensor) -> Tensor:
        """The probability that each that is written translates each that is given, and none as the last. cells (B, m,
        n+1), prior (B, m or 1, n) in any scale, is_written (B, m) -> (B, m, n+1)"""
        joint = self.table[cells]
        joint[:, :, :-1] *= prior * ((1 - OF_NONE) / prior.sum(dim=2, keepdim=True).clamp(min=1e-30))
        joint[:, :, -1] *= OF_NONE
        joint *= is_written.unsqueeze(2) / joint.sum(dim=2, keepdim=True)
        return joint

    def start_counting(self) -> None:
        self.counts = torch.full_like(self.table, UNSEEN / self.columns)

    def count(self, cells: Tensor, probability: Tensor) -> None:
        self.counts.index_add_(0, cells.view(-1), probability.reshape(-1))

    def learn_from_counts(self) -> None:
        rows = self.counts.view(-1, self.columns)
        self.table = (rows / rows.sum(dim=1, keepdim=True)).view(-1)


class Alignment:
    def __init__(self, vocabulary: BothSides) -> None:
        self.vocabulary = vocabulary
        sides = vocabulary.sizes[0], vocabulary.unit_count
        self.forth, self.back = Direction(*sides), Direction(*reversed(sides))

    def learn(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """From padded sources (B, S) and targets (B, T), batch by batch."""
        batches = [(source, self._units(target)[0]) for source, target in pairs]
        for number in range(ROUNDS + ROUNDS_TOGETHER):
            self.forth.start_counting()
            self.back.start_counting()
            for source, units in batches:
                self._count(source, units, together=number >= ROUNDS)
            self.forth.learn_from_counts()
            self.back.learn_from_counts()

    def _count(self, source: Tensor, units: Tensor, together: bool) -> None:
        (cells, forth), (cells_back, back) = self._expected(source, units, by_place=together)
        if together:
            agreed = forth[:, :, :-1] * back[:, :, :-1].transpose(1, 2)  # (B, N, S)
            for direction, both in ((forth, agreed), (back, agreed.transpose(1, 2))):
                rest = direction.sum(dim=2) - both.sum(dim=2)  # what is written is of none where they disagree
                direction[:, :, :-1], direction[:, :, -1] = both, rest
        self.forth.count(cells, forth)
        self.back.count(cells_back, back)

    def of(self, source: Tensor, target: Tensor) -> Tensor:
        """The probability that each target symbol, with the unit that it is in, translates each subword of its source;
        zeros on padding. (B, S), (B, T) -> (B, T, S)"""
        units, number = self._units(target)
        (_, forth), (_, back) = self._expected(source, units, by_place=True)
        agreed = forth[:, :, :-1] * back[:, :, :-1].transpose(1, 2)  # (B, N, S)
        agreed *= (1 - forth[:, :, -1:]) / agreed.sum(dim=2, keepdim=True).clamp(min=1e-30)
        of_symbols = agreed.gather(1, number.unsqueeze(-1).expand(-1, -1, source.shape[1]))
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

    def _expected(
        self, source: Tensor, units: Tensor, by_place: bool
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Forth and back: cells of the table, and the probability that what is written translates what is given, or
        none. (B, S), (B, N) -> (B, N, S+1) twice, (B, S, N+1) twice"""
        is_real, is_unit = source != self.vocabulary.source_pad, units != NO_UNIT
        prior, prior_back = is_real.unsqueeze(1).float(), is_unit.unsqueeze(1).float()
        if by_place:
            far = (_places(is_unit).unsqueeze(2) - _places(is_real).unsqueeze(1)).abs_()  # (B, N, S)
            near = far.mul_(-TENSION).exp_()
            prior, prior_back = prior * near, prior_back * near.transpose(1, 2)
        named = units.clamp(min=0)
        cells, cells_back = self.forth.cells(source, named), self.back.cells(named, source)
        forth = self.forth.expected(cells, prior, is_unit)
        return (cells, forth), (cells_back, self.back.expected(cells_back, prior_back, is_real))


def _places(is_real: Tensor) -> Tensor:
    """Where in its sentence each is, from 0 to 1. (B, n) -> (B, n)"""
    count = is_real.sum(dim=1, keepdim=True).clamp(min=1)
    return (torch.arange(is_real.shape[1], device=is_real.device) + 0.5) / count


def evenly(count: int, most: int = MOST_PAIRS) -> Sequence[int]:
    """As many of the numbers below `count` as are learnt from, from all of its parts."""
    return range(0, count, -(-count // most))
