"""Segments under way: what a search over segmented strings has to know of a segment that has begun and may go on.

Dynamic decoding generates character by character, but the model scores whole segments. An open segment is the bridge:
its character-model state, its place in the lexicon's trie, the lexicon's distribution at its start, and what of the
source it can be a copy of.

Shapes: n open segments, C alphabet, V lexicon entries, H width of the character LSTM, L longest segment, B sentences, U
units that can be copied from a source.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.characters import Spelling
from ssmt.model.ssmt import SSMT
from ssmt.search.lexicon_rows import LexiconRows
from ssmt.text.alphabet import EOS, Alphabet
from ssmt.text.lexicon import ABSENT


@dataclass(frozen=True)
class OpenSegments:
    """n open segments, one a row."""

    log_gate: Tensor  # (n,) share of the character model, at the segment's start
    log_not_gate: Tensor  # (n,) share of the lexicon
    slot: Tensor  # (n,) where LexiconRows keeps what the lexicon says at the segment's start
    node: Tensor  # (n,) the trie node of the characters so far
    length: Tensor  # (n,) characters so far
    spelt: Tensor  # (n,) log-probability of these characters by the character model, not yet ended
    hidden: Tensor  # (n, H) the character model's state
    cell: Tensor  # (n, H)
    next: Tensor  # (n, C) its log-probabilities of the next character, `<eom>` included
    sentence: Tensor  # (n,) to which the segment belongs
    copied: Tensor  # (n, U) the probability of each unit of its source that begins with the characters so far

    def select(self, rows: Tensor) -> OpenSegments:
        return OpenSegments(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))

    @staticmethod
    def cat(*parts: OpenSegments) -> OpenSegments:
        return OpenSegments(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(OpenSegments)))


class SegmentSearch:
    """The moves of open segments, for the searches over one batch."""

    def __init__(self, model: SSMT, rows: int, memory: Memory | None = None) -> None:
        """`rows`: how many segments can be open at one time."""
        self.model, self.segments, self.characters = model, model.segments, model.segments.characters
        self.trie = model.segments.trie
        alphabet = model.vocabulary.alphabet
        self.eom, self.longest = alphabet.eom, model.segments.longest
        self.is_word = model.segments.get_buffer("is_word")
        self.proper = self.characters is None or self.characters.proper
        device = model.device
        has_entries = model.segments.entries is not None
        self.lexicon = LexiconRows(model.segments, rows, device) if has_entries else None
        self.input_table = self.characters.input_table(model.character_embedding) if self.characters else None
        self.units = model.units(memory)
        if self.units is not None:
            assert self.segments.copies is not None
            self.unit_characters = self.segments.copies.get_buffer("characters")[self.units.ids]  # (B, U, L)
            self.unit_lengths = self.segments.copies.get_buffer("lengths")[self.units.ids]  # (B, U)

    def begin(
        self, states: Tensor, recent: Tensor, sentences: Tensor, beside: OpenSegments | None = None
    ) -> OpenSegments:
        """Segments that begin now, beside others that go on: states (n, D), recent (n, M) the characters before them,
        the last first; as many for each of the sentences, one after the other."""
        n, previous = len(states), recent[:, 0]
        log_gate, log_not_gate = self.segments.log_gates(states)
        sentence, copied = sentences.repeat_interleave(n // len(sentences)), states.new_zeros(n, 0)
        if self.units is not None:
            assert self.segments.copies is not None
            by_sentence = (part.view(len(sentences), -1, part.shape[1]) for part in (states, recent))
            pointed = self.segments.copies.pointer(*by_sentence, self.units.select(sentences))
            copied = (pointed.weights * pointed.log_share.exp().unsqueeze(-1)).flatten(0, 1)
            log_rest = pointed.log_rest.flatten()
            log_gate, log_not_gate = log_gate + log_rest, log_not_gate + log_rest
        nothing = states.new_zeros(n, 0)
        spelling, following = Spelling(nothing, nothing), nothing
        if self.characters is not None:
            assert self.input_table is not None
            spelling = self.characters.advance(self.characters.begin(states), self.input_table[previous])
            following = self.characters.log_probs(spelling, first=True)
        zeros = previous.new_zeros(n)
        slot = zeros
        if self.lexicon is not None:
            slot = self.lexicon.begin(states, zeros[:0] if beside is None else beside.slot)
        spelt = torch.zeros_like(log_gate)
        return OpenSegments(log_gate, log_not_gate, slot, zeros, zeros, spelt, *spelling, following, sentence, copied)

    def read(self, open: OpenSegments, characters: Tensor) -> OpenSegments:
        """Every segment goes on with one more character. (n,)"""
        spelt, spelling, following = open.spelt, Spelling(open.hidden, open.cell), open.next
        if self.characters is not None:
            assert self.input_table is not None
            spelt = spelt + following.gather(1, characters.unsqueeze(1)).squeeze(1)
            spelling = self.characters.advance(spelling, self.input_table[characters])
            following = self.characters.log_probs(spelling, first=False)
        node = self.trie.child(open.node, characters)
        copied = open.copied
        if self.units is not None:
            copied = copied * (self._next_of_units(open) == characters.unsqueeze(1))
        fixed = open.log_gate, open.log_not_gate, open.slot
        return OpenSegments(*fixed, node, open.length + 1, spelt, *spelling, following, open.sentence, copied)

    def log_prob_if_ended(self, open: OpenSegments, last: Tensor) -> Tensor:
        """log p of the segments as they stand, `last` being their last character: Eq. 3. (n,)"""
        spelt = torch.full_like(open.spelt, NEG_INF)
        if self.characters is not None:
            ending = open.next[:, self.eom]
            if self.proper:  # `<eom>` is certain after a character that is no letter, and at length L
                certain = ~self.is_word[last] | (open.length >= self.longest)
                ending = torch.where(certain, 0.0, ending)
            spelt = open.spelt + ending
        copied = None
        if self.units is not None:
            copied = _log((open.copied * (self.unit_lengths[open.sentence] == open.length.unsqueeze(1))).sum(dim=1))
        return self._mix(open, spelt, self._entry_log_prob(open.slot, open.node), copied)

    def extended(self, open: OpenSegments) -> tuple[Tensor, Tensor]:
        """For every next character y, in logarithms: (n, C) both

        the probability that the segment goes on with y and beyond, the paper's `con` cases, Eq. 8 and 9 (of the lexicon
        these are the entries that go on after y; the character part still holds the mass of ending at y, as in the
        paper); and the most that the segment which y ends can have: that with a certain `<eom>`."""
        spelt = open.spelt.unsqueeze(1) + open.next if self.characters is not None else None
        longer = ended = None
        if self.lexicon is not None:
            children = self.trie.children_of(open.node)
            mass = self._entry_mass(open.slot, children)
            longer = _log(self.lexicon.mass(open.slot, *self.trie.ranges_below(children)).sub_(mass))
            ended = _log(mass)
        copied_longer, copied = (None, None) if self.units is None else self._copied(open)
        return self._mix(open, spelt, longer, copied_longer), self._mix(open, spelt, ended, copied)

    def endings(self, open: OpenSegments, segments: Tensor, characters: Tensor) -> Tensor:
        """log p of some of the segments, each ended by a character: the paper's `end` cases, Eq. 6 and 7. (m,)

        Needs the character model's next state for each."""
        return self.log_prob_if_ended(self.read(open.select(segments), characters), characters)

    def _next_of_units(self, open: OpenSegments) -> Tensor:
        """What comes in each unit after as many characters as the segment has. (n, U)"""
        return self.unit_characters[open.sentence, :, open.length.clamp(max=self.longest - 1)]

    def _copied(self, open: OpenSegments) -> tuple[Tensor, Tensor]:
        """log of the probability that the segment is a copy that goes on with y and after y, and that y ends it.
        (n, C) both"""
        is_last = self.unit_lengths[open.sentence] == (open.length + 1).unsqueeze(1)
        ended = open.copied * is_last
        next = self._next_of_units(open).clamp_(min=0)
        longer, ended = (
            part.new_zeros(len(part), len(self.is_word)).scatter_add_(1, next, part)
            for part in (open.copied - ended, ended)
        )
        return _log(longer), _log(ended)

    def _entry_mass(self, slot: Tensor, node: Tensor) -> Tensor:
        assert self.lexicon is not None
        entry = torch.where(node == ABSENT, ABSENT, self.trie.entry_of_node[node.clamp(min=0)])
        present = entry.clamp(min=0)
        return self.lexicon.mass(slot, present, present + 1).masked_fill(entry == ABSENT, 0.0)

    def _entry_log_prob(self, slot: Tensor, node: Tensor) -> Tensor | None:
        return _log(self._entry_mass(slot, node)) if self.lexicon is not None else None

    def _mix(self, open: OpenSegments, spelt: Tensor | None, entry: Tensor | None, copied: Tensor | None) -> Tensor:
        """log (g p_char + (1 - g) p_lex), and what is copied                                                   Eq. 3"""
        parts = [] if copied is None else [copied]
        for share, part in ((open.log_gate, spelt), (open.log_not_gate, entry)):
            if part is not None:
                parts.append(share.view(-1, *([1] * (part.dim() - 1))) + part)
        return reduce(torch.logaddexp, parts)


def generable(alphabet: Alphabet) -> Tensor:
    """Which symbols a search may generate: characters and `</s>`; never `<unk>`. (C,) bool"""
    return torch.tensor([len(symbol) == 1 or symbol == EOS for symbol in alphabet.symbols])


def _log(probability: Tensor) -> Tensor:
    """Logarithm in float32, NEG_INF for zero (or what rounding leaves of it)."""
    return probability.float().clamp_(min=0).log_().clamp_(min=NEG_INF)
