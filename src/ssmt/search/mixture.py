"""Mixture beam search: ordinary beam search over characters and lexicon entries, the paper's weak baseline (Table 7).

A hypothesis is a derivation: at a segment's start either one lexicon entry, with probability (1 - g) p_lex, or the
first of the character model's characters, with g p_char, or (of models that copy) a unit of the source; inside a spelt
segment the next character or `<eom>`. Nothing is summed: not over segmentations, not over the ways to make a segment.
The one exception is `</s>`, which is the same symbol for characters and entries. Hypotheses of a beam have equally many
symbols, and so different lengths.

Shapes: B sentences, K beam, N = B*K rows, C alphabet, V lexicon, Q units that any source can have, symbols
W = C + V + Q: characters, then entries, then units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.characters import Spelling
from ssmt.model.copies import NO_CHARACTER, Units
from ssmt.model.ssmt import SSMT
from ssmt.search.beam import beam_search
from ssmt.search.job import Hypothesis, Job, Request, WritingRequest
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.open_segments import generable
from ssmt.search.recent import Recent


def mixture_search(job: Job) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence, best first."""
    assert isinstance(job.model, SSMT)
    scorer = MixtureScorer(job.model, job.memory, job.options.beam, job.request)
    hypotheses = beam_search(scorer, job.request.sentences, job.options)
    return [[scorer.decode(derivation) for derivation in derivations] for derivations in hypotheses]


class MixtureScorer:
    def __init__(self, model: SSMT, memory: Memory | None, beam: int, request: Request) -> None:
        self.model, self.beam = model, beam
        self.segments, self.characters = model.segments, model.segments.characters
        alphabet, lexicon = model.vocabulary.alphabet, model.segments.lexicon
        self.eos, self.eom, self.C, self.L = alphabet.eos, alphabet.eom, len(alphabet), model.segments.longest
        device = model.device
        self.is_word = model.segments.get_buffer("is_word")
        self.possible = generable(alphabet).to(device)
        # What each symbol writes: characters themselves, `<eom>` nothing, entries their characters.
        written = [[id] for id in range(self.C)] + [list(entry) for entry in lexicon.entries]
        written[self.eom] = []
        self.units = model.units(memory)
        self.unit_symbols = self.C + len(lexicon)  # the first of them
        if self.units is not None:
            assert model.segments.copies is not None
            units = model.segments.copies.get_buffer("characters").tolist()
            written += [[id for id in unit if id != NO_CHARACTER] for unit in units]
        widest = max(map(len, written))
        padded = [ids + [alphabet.pad] * (widest - len(ids)) for ids in written]
        self.written = torch.tensor(padded, device=device)  # (W, widest)
        self.written_length = torch.tensor([len(ids) for ids in written], device=device)
        self.request = WritingRequest(request, self.written, self.written_length, beam, self.eos)
        entries = self.written[self.C : self.unit_symbols]
        self.eos_entry = int((entries[:, 0] == self.eos).nonzero()[0])
        usable = self.possible[entries[:, 0]].clone()
        usable[self.eos_entry] = False  # `</s>` has one symbol
        self.usable_entry = usable

        rows = request.sentences * beam
        self.cache = model.decoder.start(memory, request.sentences, beam, in_step=False)
        self.length = torch.zeros(rows, dtype=torch.int64, device=device)  # characters of each row so far
        self.total = torch.zeros(rows, dtype=sum_precision(device), device=device)
        self.spelt = torch.zeros(rows, dtype=torch.int64, device=device)  # characters of a spelt segment; 0 at a start
        self.last = request.first_symbols(beam)
        self.recent = Recent(self.last)
        self.spelling: Spelling
        self.next: Tensor  # (N, C) the character model's log-probabilities of the next symbol
        self.input_table = self.characters.input_table(model.character_embedding) if self.characters else None
        reading = torch.ones(rows, dtype=torch.bool, device=device)
        self.states = model.decoder.step(self.last, self.cache, reading)
        self._begin_segments(None)

    def extensions(self) -> Tensor:
        log_gate, log_not_gate = self.segments.log_gates(self.states)
        at_start = (self.spelt == 0).unsqueeze(1)
        scores = self.total.new_full((len(self.total), len(self.written)), NEG_INF)
        if self.units is not None:
            log_rest, units = self._copied(self.units)
            log_gate, log_not_gate = log_gate + log_rest, log_not_gate + log_rest
            scores[:, self.unit_symbols :] = torch.where(at_start, units, NEG_INF)
        ends = torch.full_like(log_gate, NEG_INF)
        if self.characters is not None:
            following = self.next.to(self.total.dtype)
            start = (log_gate.unsqueeze(1) + following).masked_fill(~self.possible, NEG_INF)
            inside = following.masked_fill(~self.is_word, NEG_INF)
            must_end = (self.spelt == self.L) | ((self.spelt > 0) & ~self.is_word[self.last])
            inside = inside.masked_fill(must_end.unsqueeze(1), NEG_INF)
            ending = following[:, self.eom]
            inside[:, self.eom] = torch.where(must_end, 0.0, ending) if self.characters.proper else ending
            scores[:, : self.C] = torch.where(at_start, start, inside)
            ends = log_gate + self._log_eos()
        if self.segments.entries is not None:
            entries = scores[:, self.C : self.unit_symbols].copy_(self.entries).add_(log_not_gate.unsqueeze(1))
            entries.masked_fill_(~(at_start & self.usable_entry), NEG_INF)
            ends = torch.logaddexp(ends, log_not_gate + self.entries[:, self.eos_entry])
        scores[:, self.eos] = torch.where(at_start.squeeze(1), ends.to(scores.dtype), NEG_INF)
        scores.add_(self.total.unsqueeze(1)).masked_fill_(~self.request.allowed(self.length), NEG_INF)
        self.extended = scores
        return scores

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.total = self.extended[rows, symbols]
        self.cache.reorder(rows)
        self.states, self.last, self.spelt = self.states[rows], self.last[rows], self.spelt[rows]
        self.recent.reorder(rows)
        written, count = self.written[symbols], self.written_length[symbols]
        self.length = self.length[rows] + count
        for place in range(written.shape[1]):  # rows whose symbol writes less idle
            reading = place < count
            if not reading.any():
                break
            states = self.model.decoder.step(written[:, place], self.cache, reading)
            self.states = torch.where(reading.unsqueeze(1), states, self.states)
            self.last = torch.where(reading, written[:, place], self.last)
            self.recent.read(written[:, place], reading)
        spells = (symbols < self.C) & (symbols != self.eom)
        self.spelt = torch.where(spells, self.spelt + 1, 0)
        self._begin_segments(rows)

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.request = self.request.select(sentences)
        self.units = None if self.units is None else self.units.select(sentences)

    def decode(self, hypothesis: Hypothesis) -> Hypothesis:
        """From symbols to characters, with the ends of the segments."""
        characters: list[int] = []
        ends: list[int] = []
        for symbol in hypothesis.symbols:
            characters += self.written[symbol, : self.written_length[symbol]].tolist()
            if symbol >= self.C or symbol == self.eom:
                ends.append(len(characters))
        return Hypothesis(characters, hypothesis.score, hypothesis.rank, ends)

    def _begin_segments(self, rows: Tensor | None) -> None:
        """The distributions of the next symbol: fresh at a segment's start, an LSTM step further inside a spelt one."""
        if self.segments.entries is not None:
            self.entries = self.segments.entry_log_probs(self.states)
        if self.characters is not None:
            assert self.input_table is not None
            inside = (self.spelt > 0).unsqueeze(1)
            fresh = self.characters.begin(self.states)
            if rows is not None:
                fresh = Spelling(
                    torch.where(inside, self.spelling.hidden[rows], fresh.hidden),
                    torch.where(inside, self.spelling.cell[rows], fresh.cell),
                )
            self.spelling = self.characters.advance(fresh, self.input_table[self.last])
            first = self.characters.log_probs(self.spelling, first=True)
            self.next = torch.where(inside, self.characters.log_probs(self.spelling, first=False), first)

    def _copied(self, units: Units) -> tuple[Tensor, Tensor]:
        """log (1 - c) at each row's state, and log (c p_copy) of all units. (N,), (N, Q)"""
        assert self.segments.copies is not None
        by_sentence = self.states.view(-1, self.beam, self.states.shape[1])
        pointed = self.segments.copies.pointer(by_sentence, self.recent.by_sentence(self.beam), units)
        weights = pointed.weights.to(self.total.dtype)
        mass = weights.new_zeros(*weights.shape[:2], len(self.written) - self.unit_symbols)
        mass.scatter_add_(2, units.ids.unsqueeze(1).expand(weights.shape), weights)
        log_copied = pointed.log_share.unsqueeze(-1) + mass.log().clamp_(min=NEG_INF)
        return pointed.log_rest.flatten(), log_copied.flatten(0, 1)

    def _log_eos(self) -> Tensor:
        """log p_char of the segment `</s>`. (N,)"""
        assert self.characters is not None
        assert self.input_table is not None
        log_eos = self.next[:, self.eos]
        if self.characters.proper:
            return log_eos
        after = self.characters.advance(self.spelling, self.input_table[torch.full_like(self.last, self.eos)])
        return log_eos + self.characters.log_probs(after, first=False)[:, self.eom]
