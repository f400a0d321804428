"""Open segments as copies of the source, in marginal search: of each hypothesis, one for each of the last L places
where a segment may have begun, with a weight for every unit of the source that it can still become.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, U units of a source, L longest segment, C alphabet, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ssmt.model.copies import NO_CHARACTER, SegmentCopies, Units
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.recent import Recent


class OpenCopies:
    def __init__(self, copies: SegmentCopies, units: Units, previous: Tensor, alphabet_size: int) -> None:
        """previous (N,): the first symbol that each row has read."""
        self.copies, self.K, self.C = copies, len(previous) // len(units.ids), alphabet_size
        self.recent = Recent(previous)
        self._lay_out(units)
        _, L, U = self.next.shape
        # By how many characters a segment has read; weights are probabilities relative to the hypothesis' own.
        dtype, device = sum_precision(units.keys.device), units.keys.device
        self.weight = torch.zeros(len(previous), L, U, dtype=dtype, device=device)  # (N, L, U)

    def _lay_out(self, units: Units) -> None:
        self.units = units
        characters = self.copies.get_buffer("characters")[units.ids].transpose(1, 2)  # (B, L, U)
        after = F.pad(characters[:, 1:], (0, 0, 0, 1), value=NO_CHARACTER)
        self.next = characters.contiguous()  # of each unit, by how many of its characters are read
        self.is_last = (after == NO_CHARACTER) & (characters != NO_CHARACTER)  # (B, L, U)
        self.column = self.next.clamp(min=0).repeat_interleave(self.K, dim=0)  # (N, L, U) what is none has no weight

    def begin(self, states: Tensor, boundary: Tensor) -> Tensor:
        """A segment begins in each row: states (N, D), boundary (N,) the probability that one ends there. Returns the
        share of those that are no copies. (N,)"""
        by_sentence = states.view(-1, self.K, states.shape[1])
        pointed = self.copies.pointer(by_sentence, self.recent.by_sentence(self.K), self.units)
        weight = boundary * pointed.log_share.flatten().to(boundary.dtype).exp()
        self.weight[:, 0] = pointed.weights.flatten(0, 1) * weight.unsqueeze(1)
        rest: Tensor = pointed.log_rest.flatten().to(boundary.dtype).exp()
        return rest

    def masses(self) -> Tensor:
        """The mass of every next character. (N, C)"""
        mass = self.weight.new_zeros(len(self.weight), self.C)
        return mass.scatter_add_(1, self.column.flatten(1), self.weight.flatten(1))

    def masses_by_length(self) -> Tensor:
        """The same by how many characters the segment has read. (L, N, C)"""
        N, L, _ = self.weight.shape
        return self.weight.new_zeros(N, L, self.C).scatter_add_(2, self.column, self.weight).transpose(0, 1)

    def advance(self, rows: Tensor, symbols: Tensor, scale: Tensor) -> Tensor:
        """The new row i is the old `rows[i]` with one more character, and its weights are to be multiplied by a scale.
        Returns the probability that a segment ends there. (N,)"""
        B, L, U = self.next.shape
        self.recent.reorder(rows)
        self.recent.read(symbols)
        weight = self.weight.index_select(0, rows).mul_(scale.view(-1, 1, 1)).view(B, self.K, L, U)
        weight.mul_(self.next.unsqueeze(1) == symbols.view(B, self.K, 1, 1))
        ended = weight * self.is_last.unsqueeze(1)
        self.weight = F.pad(weight.sub_(ended).view(-1, L, U)[:, :-1], (0, 0, 1, 0))
        return ended.sum(dim=(2, 3)).view(-1)

    def select_sentences(self, sentences: Tensor) -> None:
        """The units of some sentences only; the rows are reordered by the next `advance`."""
        self._lay_out(self.units.select(sentences))
