"""Marginal decoding: beam search over strings, scored by the exact sum over all their segmentations. Ours, not the
paper's.

The decoder's state depends on the characters only, never on how they were segmented. So a hypothesis is a string,
and what has to be kept for a prefix of length j is, for each of the last L places k where a segment may have begun,

    a_k   the probability of the first k characters with a boundary after them (Eq. 5), and
    the open segment y_k..j-1 with its state in the character model and in the lexicon's trie.

    mass of prefix + y = sum over k of a_k [ g_k p_char,k(y_k..j-1 y ...) + (1 - g_k) p_lex,k(y_k..j-1 y ...) ]

(and, where segments can be copied, the same with a third part).
Whether y ends its segment need not be known to rank it: the mass covers both. Only for the strings that the beam has
chosen is the mass split, into a_{j+1} and what goes on. The mass of `prefix + </s>` is the probability of the
finished string.

Shapes: N rows (hypotheses), C alphabet, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.ssmt import SSMT
from ssmt.search.job import Request
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.open_copies import OpenCopies
from ssmt.search.open_entries import OpenEntries
from ssmt.search.open_segments import generable
from ssmt.search.open_spellings import OpenSpellings


class MarginalScorer:
    """Prefixes with the mass of all their segmentations.

    All probabilities inside are relative to the mass of the hypothesis that they belong to, and not logarithms: sums
    over open segments are sums.
    """

    def __init__(self, model: SSMT, memory: Memory | None, beam: int, request: Request) -> None:
        self.model, self.beam, self.request = model, beam, request
        alphabet = model.vocabulary.alphabet
        self.eos, self.C = alphabet.eos, len(alphabet)
        self.length = 0  # characters of every prefix
        rows = request.sentences * beam
        self.cache = model.decoder.start(memory, request.sentences, beam)
        self.can_begin = generable(alphabet).to(model.device)
        dtype = sum_precision(model.device)
        self.least = torch.finfo(dtype).tiny  # what is not resolved stays possible

        previous = request.first_symbols(beam)
        states = model.decoder.step(previous, self.cache)
        segments = model.segments
        self.entries = None if segments.entries is None else OpenEntries(segments, rows)
        self.spellings = None
        if segments.characters is not None:
            self.spellings = OpenSpellings(model, segments.characters, rows, previous, states)
        self.copies = None
        if (units := model.units(memory)) is not None:
            assert segments.copies is not None
            self.copies = OpenCopies(segments.copies, units, previous, self.C)
        self.mass: Tensor  # (N, C) of every next character, relative to the prefix
        self.total = torch.zeros(rows, dtype=dtype, device=model.device)  # (N,) log-probability of the prefixes
        self._begin(states, torch.ones_like(self.total))

    def extensions(self) -> Tensor:
        """The mass of every prefix with every next character. (N, C)"""
        first, *others = (part.masses() for part in self._parts())
        for other in others:
            first += other
        self.mass = first.clamp_(min=self.least)
        scores = self.mass.log().add_(self.total.unsqueeze(1))
        return scores.masked_fill_(~self.request.allowed(self.length, self.can_begin, self.eos, self.beam), NEG_INF)

    def masses_by_length(self) -> Tensor:
        """The mass of every next character, by how many characters its segment has before it. (L, N, C)"""
        return torch.stack([part.masses_by_length() for part in self._parts()]).sum(dim=0)

    def _parts(self) -> list[OpenEntries | OpenSpellings | OpenCopies]:
        """Open segments, by what can write them."""
        return [part for part in (self.entries, self.spellings, self.copies) if part is not None]

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.length += 1
        chosen = self.mass.view(-1).index_select(0, rows * self.C + symbols)
        self.total = self.total.index_select(0, rows).add_(chosen.log())
        scale = chosen.reciprocal_()
        self.cache.reorder(rows)
        states = self.model.decoder.step(symbols, self.cache)
        # a_{j+1} = sum over k of a_k p(y_k..j)                                                               Eq. 5
        boundary = torch.zeros_like(self.total)
        if self.entries is not None:
            boundary += self.entries.advance(rows, symbols, scale)
        if self.spellings is not None:
            boundary += self.spellings.advance(rows, symbols, scale, states)
        if self.copies is not None:
            boundary += self.copies.advance(rows, symbols, scale)
        self._begin(states, boundary.clamp_(min=self.least))

    def _begin(self, states: Tensor, boundary: Tensor) -> None:
        """Segments begin: states (N, D), boundary (N,) the probability that one ends where they begin."""
        if self.copies is not None:
            boundary = boundary * self.copies.begin(states, boundary)
        of_spellings = of_entries = boundary
        if self.entries is not None and self.spellings is not None:
            log_gate, log_not_gate = self.model.segments.log_gates(states)
            of_spellings, of_entries = boundary * log_gate.exp(), boundary * log_not_gate.exp()
        if self.entries is not None:
            self.entries.begin(states, of_entries)
        if self.spellings is not None:
            self.spellings.begin(of_spellings)

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.request = self.request.select(sentences)
        if self.copies is not None:
            self.copies.select_sentences(sentences)
