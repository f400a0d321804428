"""Marginal decoding: beam search over strings, scored by the exact sum over all their segmentations. Ours, not the
paper's.

The decoder's state depends on the characters only, never on how they were segmented. So a hypothesis is a string,
and what has to be kept for a prefix of length j is, for each of the last L places k where a segment may have begun,

    a_k   the probability of the first k characters with a boundary after them (Eq. 5), and
    the open segment y_k..j-1 with its state in the character model and in the lexicon's trie.

    mass of prefix + y = sum over k of a_k [ g_k p_char,k(y_k..j-1 y ...) + (1 - g_k) p_lex,k(y_k..j-1 y ...) ]

Whether y ends its segment need not be known to rank it: the mass covers both. Only for the strings that the beam has
chosen is the mass split, into a_{j+1} and what goes on. The mass of `prefix + </s>` is the probability of the
finished string.

Shapes: N rows (hypotheses), n open segments of all of them, L longest segment, C alphabet.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.ssmt import SSMT
from ssmt.search.job import Request
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.open_segments import SegmentSearch, generable


class MarginalScorer:
    """Prefixes with the mass of all their segmentations."""

    def __init__(self, model: SSMT, memory: Memory | None, beam: int, request: Request) -> None:
        self.model, self.beam, self.request = model, beam, request
        alphabet = model.vocabulary.alphabet
        self.eos, self.L, self.C = alphabet.eos, model.segments.longest, len(alphabet)
        self.length = 0  # characters of every prefix
        rows = request.sentences * beam
        self.search = SegmentSearch(model, rows, class_by_class=True)
        self.is_word = model.segments.get_buffer("is_word")
        self.cache = model.decoder.start(memory, request.sentences, beam)
        self.can_begin = generable(alphabet).to(model.device)

        previous = request.first_symbols(beam)
        # The open segments of all hypotheses: which hypothesis each belongs to, log a_k of its start, the segment.
        self.rows = rows
        self.row = torch.arange(rows, device=model.device)
        self.log_a = torch.zeros(rows, dtype=sum_precision(model.device), device=model.device)
        self.open = self.search.begin(model.decoder.step(previous, self.cache), previous)

    def extensions(self) -> Tensor:
        """The mass of every prefix with every next character. (N, C)"""
        onward = self.search.continuations(self.open)  # (n, C)
        if not self.search.proper:
            inside = (self.open.length > 0).unsqueeze(1)  # only word characters go on with a segment
            onward.masked_fill_(inside & ~self.is_word, NEG_INF)
            self._pay_for_the_end_of_eos(onward)
        weighted = self.log_a.new_full((self.L, self.rows, self.C), NEG_INF)
        weighted[self.open.length, self.row] = self.log_a.unsqueeze(1) + onward
        mass = torch.logsumexp(weighted, dim=0)
        return mass.masked_fill_(~self.request.allowed(self.length, self.can_begin, self.eos, self.beam), NEG_INF)

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        N, L, n = len(rows), self.L, len(self.row)
        self.length += 1
        # The open segments of the new rows, by age; a character that is no letter goes on with none but the newest.
        place = torch.full((L, self.rows), -1, device=rows.device)
        place[self.open.length, self.row] = torch.arange(n, device=rows.device)
        place = place[:, rows]  # (L, N)
        place[1:] = place[1:].where(self.is_word[symbols], -1)
        age, row = (place >= 0).nonzero(as_tuple=True)  # a synchronisation: how many are open
        origin = place[age, row]
        log_a = self.log_a[origin]
        self.cache.reorder(rows)
        states = self.model.decoder.step(symbols, self.cache)
        ended, self.open, going_on = self.search.advance(self.open.select(origin), symbols[row], states, symbols)
        # a_{j+1} = sum over k of a_k p(y_k..j)                                                               Eq. 5
        weighted = log_a.new_full((L, N), NEG_INF)
        weighted[age, row] = log_a + ended
        new_a = torch.logsumexp(weighted, dim=0)

        self.rows = N
        self.row = torch.cat([torch.arange(N, device=rows.device), row[going_on]])
        self.log_a = torch.cat([new_a, log_a[going_on]])

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.request = self.request.select(sentences)

    def _pay_for_the_end_of_eos(self, onward: Tensor) -> None:
        """With `proper: false` a finished string pays for the `<eom>` after `</s>` too, as its lattice does."""
        N = self.rows
        new = self.open.select(torch.arange(N, device=onward.device))  # the segments that begin now come first
        eos = torch.full((N,), self.eos, device=onward.device)
        onward[:N, self.eos] = self.search.log_prob_if_ended(self.search.read(new, eos), eos)
