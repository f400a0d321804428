"""Open segments as the character model sees them, in marginal search: of each hypothesis, one for each of the last L
places where a segment may have begun.

Shapes: N hypotheses, n segments of all of them that can still go on, L longest segment, C alphabet, H width of the
LSTM, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ssmt.model.characters import CharacterModel, Spelling
from ssmt.model.ssmt import SSMT
from ssmt.search.lexicon_rows import sum_precision


class OpenSpellings:
    """The LSTM's states are of the segments that can go on alone; tables of all places say where each one's is.

    The first N of them are those that begin now. Weights are probabilities relative to the hypothesis' own.
    """

    def __init__(self, model: SSMT, characters: CharacterModel, rows: int, previous: Tensor, states: Tensor) -> None:
        """A segment begins in each row: previous (N,) the character before it, states (N, D)."""
        alphabet = model.vocabulary.alphabet
        self.model, self.characters, self.proper = model, characters, characters.proper
        self.eom, self.eos, self.C, self.L = alphabet.eom, alphabet.eos, len(alphabet), characters.longest
        self.is_word = model.segments.get_buffer("is_word")
        self.input_table = characters.input_table(model.character_embedding)
        self.dtype = sum_precision(states.device)
        self.weight = torch.zeros(rows, self.L, dtype=self.dtype, device=states.device)  # by characters read
        self.place = torch.zeros(rows, self.L, dtype=torch.int64, device=states.device)  # among the LSTM's states
        self.row: Tensor  # (n,) whose each is
        self.spelling: Spelling  # (n, H)
        self.next: Tensor  # (n, C) the probability of the next character, `<eom>` included
        none = torch.empty(0, dtype=torch.int64, device=states.device)
        self._spell(Spelling(*states.new_zeros(2, 0, self.input_table.shape[1] // 4)), none, states, previous)
        self._lay_out(rows, none, none)

    def begin(self, weight: Tensor) -> None:
        """The weight of the segment that begins now. (N,)"""
        self.weight[:, 0] = weight

    def masses(self) -> Tensor:
        """The mass of every next character. (N, C)"""
        weighted = self.next.mul(self.weight.view(-1).index_select(0, self.cell).unsqueeze(1))
        return weighted.new_zeros(len(self.weight), self.C).index_add_(0, self.row, weighted)

    def masses_by_length(self) -> Tensor:
        """The same by how many characters the segment has read. (L, N, C)"""
        by_length = self.next.new_zeros(self.L, len(self.weight), self.C, dtype=self.dtype)
        weighted = self.next * self.weight.view(-1).index_select(0, self.cell).unsqueeze(1)
        by_length[self.cell % self.L, self.row] = weighted
        return by_length

    def advance(self, rows: Tensor, characters: Tensor, scale: Tensor, states: Tensor) -> Tensor:
        """The new row i is the old `rows[i]` with one more character, and its weights are to be multiplied by a scale;
        states (N, D) are where new segments begin. Returns the probability that a segment ends there. (N,)"""
        N, L = len(rows), self.L
        place = self.place.index_select(0, rows)
        read = self.next.view(-1).index_select(0, (place * self.C).add_(characters.unsqueeze(1)).view(-1))
        weight = self.weight.index_select(0, rows).mul_(scale.unsqueeze(1)).mul_(read.view(N, L))
        is_word = self.is_word.index_select(0, characters).unsqueeze(1)
        goes_on = (weight > 0) & is_word
        goes_on[:, -1] = False
        # `<eom>` is certain where a segment cannot go on; what is improper pays for it all the same.
        spelt = (goes_on if self.proper else weight > 0).view(-1).nonzero().squeeze(-1)  # a synchronisation
        origin = place.view(-1).index_select(0, spelt)
        old = Spelling(*(part.index_select(0, origin) for part in self.spelling))
        ends = self._spell(old, characters.index_select(0, spelt // L), states, characters)
        ended = weight.view(-1).index_copy(0, spelt, weight.view(-1).index_select(0, spelt).mul_(ends))
        if not self.proper:
            onward = goes_on.view(-1).index_select(0, spelt).nonzero().squeeze(-1)
            kept = torch.cat([torch.arange(N, device=rows.device), onward + N])
            self.spelling = Spelling(*(part.index_select(0, kept) for part in self.spelling))
            self.next, spelt = self.next.index_select(0, kept), spelt.index_select(0, onward)
        self.weight = F.pad(weight.mul_(goes_on)[:, :-1], (1, 0))
        self._lay_out(N, spelt // L, spelt % L + 1)
        return ended.view(N, L).sum(dim=1)

    def _spell(self, old: Spelling, read: Tensor, states: Tensor, previous: Tensor) -> Tensor:
        """One step of the LSTM, of the segments that begin and of the old ones at once: read (m,), previous (N,).
        Returns the probability that each of the old ones ends. (m,)"""
        N, characters = len(states), self.characters
        hidden = torch.cat([characters.start(states), old.hidden])
        cell = torch.cat([old.cell.new_zeros(N, old.cell.shape[1]), old.cell])
        inputs = self.input_table.index_select(0, torch.cat([previous, read]))
        self.spelling = characters.advance(Spelling(hidden, cell), inputs)
        # What is hardly possible stays more than nothing: a user's prefix may ask for it.
        self.next = characters.log_probs_of_both(self.spelling, N).to(self.dtype).exp_()
        ends = self.next[N:, self.eom]
        if (
            not self.proper
        ):  # nothing but letters goes on inside, and `</s>` pays for its `<eom>` too, as in the lattice
            ends = ends.clone()
            self.next[N:].mul_(self.is_word)
            new = Spelling(self.spelling.hidden[:N], self.spelling.cell[:N])
            after = characters.advance(new, self.input_table[self.eos].expand(N, -1))
            self.next[:N, self.eos] *= characters.log_probs(after, first=False)[:, self.eom].to(self.dtype).exp()
        return ends

    def _lay_out(self, rows: int, row: Tensor, length: Tensor) -> None:
        """Say where the states are: the first N at length 0, the others (m,) in `row` at `length`."""
        every = torch.arange(rows, device=row.device)
        self.row = torch.cat([every, row])
        self.cell = torch.cat([every * self.L, row * self.L + length])
        self.place = torch.zeros(rows, self.L, dtype=torch.int64, device=row.device)
        self.place.view(-1)[self.cell] = torch.arange(len(self.row), device=row.device)
