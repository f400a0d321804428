"""Copying from the source. Ours, not the paper's.

Names, numbers and borrowed words stand in a target as they stand in its source, alone or inside a word of the target's
own: `kwe-Eskom`, `eUpington`. A pointer chooses among what the source has, as in See et al. (2017), and is mixed with
what else could be written:

    p(s | h) = c p_copy(s | h, x) + (1 - c) p_other(s | h)        p_copy(s | h, x) = sum over i with u_i = s of a_i(h)

For a model on subwords, u_i are the subwords of the source. A model that learns to segment copies whole segments: u_i
are the source's subwords in characters, cut where segments must be. The sum over segmentations then cuts a target word
so that what can be copied is a segment of it, which subwords that were cut before cannot do.

A copy mostly goes on where it has come to. So the pointer is told, of each unit, how many of the symbols written last
stand before it in the source: a function of what is written, like the state, and not of how it was segmented.

Shapes: B sentences, S source subwords, U units of a source, T target positions, L longest segment, D width, V source
vocabulary, Q different units, M symbols that are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.layers import linear
from ssmt.model.tries import TrieBuffers
from ssmt.text.alphabet import Alphabet
from ssmt.text.batch import padded
from ssmt.text.lexicon import Lexicon, single_entries
from ssmt.text.subwords import text_of_piece
from ssmt.text.vocabulary import SourceSubwords, SubwordVocabulary, Vocabulary

NEVER = -1e4  # the bias of what is not copied: its probability is exactly zero
NO_CHARACTER = -1  # after the last one of a unit
NOTHING_READ = -2  # before the first symbol of a target
MATCHED = 6  # symbols before a unit that are compared with those read last
PLACES = 8  # of units in a subword; later ones are one
COPIED_AT_FIRST = -3.0  # logit of c in a new network


class Units(NamedTuple):
    """What can be copied from each source, and what a pointer needs to choose."""

    keys: Tensor  # (B, U, D)
    bias: Tensor  # (B, U)
    real: Tensor  # (B, U) false: nothing stands there
    ids: Tensor  # (B, U) what each is: a row of `SegmentCopies.characters`, or a subword of the target
    before: Tensor  # (B, U, M) the symbols that stand before it in the source, the nearest first

    def select(self, sentences: Tensor) -> Units:
        return Units(*(part.index_select(0, sentences) for part in self))


class Pointed(NamedTuple):
    """What a pointer says at each position."""

    log_share: Tensor  # (B, T) log c
    log_rest: Tensor  # (B, T) log (1 - c)
    weights: Tensor  # (B, T, U) a, which sum to one where there is anything to copy


class Pointer(nn.Module):
    """Whether to copy, and what."""

    def __init__(self, config: NetworkConfig, is_copied: Sequence[bool]) -> None:
        """is_copied: of each subword of the source's vocabulary."""
        super().__init__()
        self.key = linear(config.width, config.width)  # states need no projection: both would be one matrix
        self.scale = config.width**-0.5
        self.bias = nn.Parameter(torch.tensor([0.0 if copied else NEVER for copied in is_copied]))  # (V,)
        self.gate = nn.Linear(config.width, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, COPIED_AT_FIRST)
        self.goes_on, self.gate_goes_on = (nn.Parameter(torch.zeros(MATCHED + 1)) for _ in range(2))

    def forward(self, states: Tensor, recent: Tensor, units: Units) -> Pointed:
        """states (B, T, D), recent (B, T, M) the symbols read last, the last first"""
        can_copy = (units.real & (units.bias > NEVER / 2)).unsqueeze(1)  # (B, 1, U)
        matched = _matched(recent, units.before)
        logits = (states @ units.keys.transpose(1, 2)).float() * self.scale + units.bias.unsqueeze(1)
        logits = logits + _looked_up(self.goes_on, matched)
        weights = logits.masked_fill(~can_copy, NEG_INF).softmax(dim=-1).masked_fill(~can_copy, 0.0)
        best = matched.masked_fill(~can_copy, 0).amax(dim=-1)  # (B, T)
        gate = self.gate(states).squeeze(-1).float() + _looked_up(self.gate_goes_on, best)
        nothing = ~can_copy.any(dim=-1)  # (B, 1)
        return Pointed(
            F.logsigmoid(gate).masked_fill(nothing, NEG_INF), F.logsigmoid(-gate).masked_fill(nothing, 0.0), weights
        )


def _looked_up(values: Tensor, places: Tensor) -> Tensor:
    """`values[places]`, whose gradient would be slow on a CPU."""
    return values.index_select(0, places.view(-1)).view(places.shape)


def _matched(recent: Tensor, before: Tensor) -> Tensor:
    """How many of the symbols read last, up to M, stand before each unit in the source too. recent (B, T, M), before
    (B, U, M) -> (B, T, U)"""
    matched = is_same = recent[:, :, None, 0] == before[:, None, :, 0]
    matched = matched.long()
    for place in range(1, recent.shape[-1]):
        is_same = is_same & (recent[:, :, None, place] == before[:, None, :, place])
        matched += is_same
    return matched


def _one_by_one(counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of things that subwords have several of: for each, the subword that it is of, its place there, and whether there
    is such a one at all. counts (B, S) -> (B, U) each"""
    after = counts.cumsum(dim=1)
    most = max(1, int(after[:, -1].max()))  # a synchronisation
    number = torch.arange(most, device=counts.device).repeat(len(counts), 1)
    subword = torch.searchsorted(after, number, right=True).clamp_(max=counts.shape[1] - 1)
    place = (number - (after - counts).gather(1, subword)).clamp_(min=0)
    return subword, place, number < after[:, -1:]


def recent_symbols(previous: Tensor) -> Tensor:
    """The symbols read last at each position of whole targets, the last first. previous (B, T) -> (B, T, M)"""
    return F.pad(previous, (MATCHED - 1, 0), value=NOTHING_READ).unfold(1, MATCHED, 1).flip(-1)


class SegmentCopies(nn.Module):
    """Segments that are copied: of a subword, its runs of word characters, up to L together, and every other character
    for itself."""

    def __init__(self, vocabulary: Vocabulary, config: NetworkConfig, longest: int) -> None:
        super().__init__()
        self.longest = longest
        cut = [cut_into_units(text, vocabulary.alphabet, longest) for text in texts_of(vocabulary.source)]
        self.pointer = Pointer(config, [bool(units) for units in cut])
        self.places = nn.Embedding(PLACES, config.width)  # of a unit in its subword
        nn.init.zeros_(self.places.weight)
        # Units are a lexicon of their own, by which they are found in targets; single characters are always there.
        singles = single_entries(vocabulary.alphabet)
        lexicon = Lexicon(vocabulary.alphabet, [*singles, *(unit for units in cut for unit in units)])
        id_of = {unit: id for id, unit in enumerate(lexicon.entries)}
        characters = padded([*lexicon.entries, [NO_CHARACTER] * longest], NO_CHARACTER)
        counts = torch.tensor([len(units) for units in cut])
        self.tries = TrieBuffers(lexicon.trie)
        self.register_buffer("characters", characters, persistent=False)  # (Q+1, L) the last is none
        ids = [id_of[unit] for units in cut for unit in units] or [0]
        lengths = torch.tensor([len(unit) for unit in [*lexicon.entries, ()]])
        self.register_buffer("lengths", lengths, persistent=False)  # (Q+1,)
        self.register_buffer("ids", torch.tensor(ids), persistent=False)  # of all subwords, one after the other
        self.register_buffer("counts", counts, persistent=False)  # (V,) how many a subword has
        self.register_buffer("first", counts.cumsum(0) - counts, persistent=False)  # (V,) where they are in `ids`
        # The text of subwords, for what stands before a unit.
        spelt = [vocabulary.alphabet.encode(text).tolist() for text in texts_of(vocabulary.source, blanks=True)]
        spelt = [[NO_CHARACTER if id == vocabulary.alphabet.unk else id for id in ids] for ids in spelt]
        self.register_buffer("spelt", padded(spelt, NO_CHARACTER), persistent=False)  # (V, characters of the longest)
        self.register_buffer("spelt_lengths", torch.tensor([len(ids) for ids in spelt]), persistent=False)  # (V,)
        # Where each of `ids` begins in its subword: what comes after it, subtracted from the whole.
        of_subwords = zip(spelt, cut, strict=True)
        offsets = [len(text) - sum(map(len, units[n:])) for text, units in of_subwords for n in range(len(units))]
        self.register_buffer("offsets", torch.tensor(offsets or [0]), persistent=False)

    def units(self, memory: Memory) -> Units:
        source = memory.tokens
        subword, place, real = _one_by_one(self.get_buffer("counts")[source])  # (B, U)
        token = source.gather(1, subword)
        ids, first = self.get_buffer("ids"), self.get_buffer("first")
        of_all = (first[token] + place).clamp_(max=len(ids) - 1)
        keys = self.pointer.key(memory.states)
        keys = keys.gather(1, subword.unsqueeze(-1).expand(-1, -1, keys.shape[-1]))
        keys = keys + self.places(place.clamp_(max=PLACES - 1))
        none = len(self.get_buffer("characters")) - 1
        before = self._before(source, subword, self.get_buffer("offsets")[of_all])
        return Units(keys, self.pointer.bias[token], real, torch.where(real, ids[of_all], none), before)

    def _before(self, source: Tensor, subword: Tensor, offset: Tensor) -> Tensor:
        """What stands before units: source (B, S), subword (B, U) that each is of, offset (B, U) in it -> (B, U, M)"""
        spelt, lengths = self.get_buffer("spelt"), self.get_buffer("spelt_lengths")[source]
        of, place, _ = _one_by_one(lengths)
        text = spelt[source.gather(1, of), place.clamp_(max=spelt.shape[1] - 1)]  # (B, characters)
        text = F.pad(text, (MATCHED, 0), value=NO_CHARACTER)
        begin = lengths.cumsum(dim=1) - lengths
        start = (begin.gather(1, subword) + offset).clamp_(max=text.shape[1] - MATCHED)
        back = torch.arange(1, MATCHED + 1, device=source.device)
        where = start.unsqueeze(-1) + MATCHED - back  # (B, U, M)
        return text.gather(1, where.flatten(1)).view(where.shape)

    def forward(
        self, target: Tensor, legal: Tensor, previous: Tensor, states: Tensor, units: Units
    ) -> tuple[Tensor, Tensor]:
        """log (c p_copy) of all segments of each target, and log (1 - c). target (B, T), legal (B, T) lengths, previous
        (B, T), states (B, T, D) -> (B, T, L), (B, T)"""
        L = self.longest
        pointed = self.pointer(states, recent_symbols(previous), units)
        lengths = self.get_buffer("lengths")[units.ids]  # (B, U)
        ids = self.tries.trie().ids_of_segments(target, legal, L)  # (B, T, L)
        column = (lengths - 1).clamp_(min=0).unsqueeze(1).expand(pointed.weights.shape)  # (B, T, U) among the lengths
        is_copy = ids.gather(2, column) == units.ids.unsqueeze(1)  # (B, T, U) the target goes on with the unit
        by_length = F.one_hot(lengths, L + 1)[:, :, 1:].to(pointed.weights.dtype)  # (B, U, L)
        with torch.autocast(target.device.type, enabled=False):  # the lattice is always in float32
            copied = (pointed.weights * is_copy) @ by_length  # (B, T, L)
        return pointed.log_share.unsqueeze(-1) + _log(copied), pointed.log_rest


class SubwordCopies(nn.Module):
    """Subwords that are copied: those of the source that the target's vocabulary has too."""

    def __init__(self, vocabulary: SubwordVocabulary, config: NetworkConfig) -> None:
        super().__init__()
        target = vocabulary.target
        specials = {target.unk, target.eos, target.pad, *target.tags.values()}
        id_of = {piece: id for id, piece in enumerate(target.pieces) if id not in specials}
        of_source = _specials_of(vocabulary.source)
        pieces = [None if id in of_source else id_of.get(piece) for id, piece in enumerate(vocabulary.source.pieces)]
        self.pointer = Pointer(config, [piece is not None for piece in pieces])
        self.nothing = target.pad
        copied = torch.tensor([self.nothing if piece is None else piece for piece in pieces])
        self.register_buffer("copied", copied, persistent=False)  # (V,) what each becomes

    def units(self, memory: Memory) -> Units:
        copied = self.get_buffer("copied")[memory.tokens]
        real = copied != self.nothing
        named = copied.where(real, NO_CHARACTER)
        before = F.pad(named, (MATCHED, 0), value=NO_CHARACTER).unfold(1, MATCHED, 1)[:, :-1].flip(-1)
        return Units(self.pointer.key(memory.states), self.pointer.bias[memory.tokens], real, copied, before)

    def mixed(self, log_probs: Tensor, states: Tensor, recent: Tensor, units: Units) -> Tensor:
        """log p of every subword. log_probs (B, T, W) without copies, states (B, T, D), recent (B, T, M) -> (B, T,
        W)"""
        pointed = self.pointer(states, recent, units)
        copied = torch.zeros_like(log_probs)
        copied.scatter_add_(2, units.ids.unsqueeze(1).expand(pointed.weights.shape), pointed.weights.to(copied.dtype))
        return _mixed(log_probs, copied, pointed.log_share.unsqueeze(-1), pointed.log_rest.unsqueeze(-1))

    def mixed_of(self, log_prob: Tensor, target: Tensor, states: Tensor, previous: Tensor, units: Units) -> Tensor:
        """log p of the subwords that the targets have. log_prob (B, T) without copies, target (B, T) -> (B, T)"""
        pointed = self.pointer(states, recent_symbols(previous), units)
        copied = (pointed.weights * (units.ids.unsqueeze(1) == target.unsqueeze(-1))).sum(dim=-1)
        return _mixed(log_prob, copied, pointed.log_share, pointed.log_rest)


def _mixed(log_prob: Tensor, copied: Tensor, log_share: Tensor, log_rest: Tensor) -> Tensor:
    """log ((1 - c) p + c p_copy)"""
    return torch.logaddexp(log_rest + log_prob, log_share + _log(copied))


def _log(probability: Tensor) -> Tensor:
    """NEG_INF for zero, with a gradient that is a number there too."""
    is_possible = probability > 0
    return torch.where(is_possible, probability, 1.0).log().masked_fill(~is_possible, NEG_INF)


def cut_into_units(text: str, alphabet: Alphabet, longest: int) -> list[tuple[int, ...]]:
    """A text as segments in the alphabet's ids; nothing where it has a character that the alphabet lacks, or a blank
    (which is as easily written)."""
    units: list[tuple[int, ...]] = []
    goes_on = False
    for id in alphabet.encode(text).tolist():
        if id == alphabet.unk or alphabet.is_blank[id]:
            return []
        is_word = bool(alphabet.is_word[id])
        if goes_on and is_word and len(units[-1]) < longest:
            units[-1] = (*units[-1], id)
        else:
            units.append((id,))
        goes_on = is_word
    return units


def texts_of(source: SourceSubwords, blanks: bool = False) -> list[str]:
    """What each subword writes, with or without the blank before a word; symbols that stand for no text write
    nothing."""
    specials = _specials_of(source)
    return ["" if id in specials else text_of_piece(piece, blanks) for id, piece in enumerate(source.pieces)]


def _specials_of(source: SourceSubwords) -> set[int]:
    return {source.unk, source.eos, source.pad, *source.tags.values()}
