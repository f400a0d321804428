"""The paper's formulas, written down literally: no batches, no caches, no shared states, plain Python sums.

Slow, and independent of the package's own scoring and searching beyond the network's weights.
"""

from __future__ import annotations

import itertools
import math
import re
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn

from ssmt.model.ssmt import SSMT

Ids = tuple[int, ...]


class LiteralModel:
    """One model with one source sentence."""

    def __init__(self, model: SSMT, source: str) -> None:
        self.model = model
        self.alphabet = model.vocabulary.alphabet
        self.longest = model.segments.longest
        self.source = torch.tensor(model.vocabulary.encode_sources([source]))
        self.memory = model.encode(self.source)
        self.entries: list[Ids] = model.segments.lexicon.entries
        for name in ("state", "share", "lexicon", "next_character", "copies"):
            setattr(self, name, lru_cache(maxsize=None)(getattr(self, name)))

    def is_word(self, id: int) -> bool:
        return bool(self.alphabet.is_word[id])

    def generable(self) -> list[int]:
        eos = self.alphabet.eos
        return [id for id, symbol in enumerate(self.alphabet.symbols) if len(symbol) == 1 or id == eos]

    def state(self, prefix: Ids) -> Tensor:
        read = torch.tensor([[self.model.vocabulary.start, *prefix]])
        return self.model.decoder.states(read, self.memory)[0, -1]

    def share(self, prefix: Ids) -> float:
        """g_j: the character model's share."""
        segments = self.model.segments
        if segments.gate is None:
            return 1.0 if segments.entries is None else 0.0
        return torch.sigmoid(segments.gate(self.state(prefix))).item()

    def lexicon(self, prefix: Ids) -> dict[Ids, float]:
        """p_lex of every entry."""
        if self.model.segments.entries is None:
            return {}
        logits = self.model.segments.entries(self.state(prefix)).double()
        classes = self.model.segments.classes
        if classes is None:
            return dict(zip(self.entries, torch.softmax(logits, dim=-1).tolist(), strict=True))
        # p(first character) p(entry | first character), both over what the lexicon has
        weight_of_class = classes.logits(self.state(prefix)).double().exp().tolist()
        total = sum(weight_of_class[first] for first in {entry[0] for entry in self.entries})
        weight = dict(zip(self.entries, logits.exp().tolist(), strict=True))
        of_class = {
            first: sum(weight[entry] for entry in self.entries if entry[0] == first)
            for first in {entry[0] for entry in self.entries}
        }
        return {entry: weight_of_class[entry[0]] / total * weight[entry] / of_class[entry[0]] for entry in self.entries}

    def copies(self, prefix: Ids) -> dict[Ids, float]:
        """c p_copy of every unit of the source: c = 1 - the sum of what is left for the others."""
        copies = self.model.segments.copies
        if copies is None:
            return {}
        pointer, state, memory = copies.pointer, self.state(prefix), self.memory.states[0]
        units, weights = list[Ids](), list[float]()
        # What cannot be written is a space here that nobody writes.
        known, written, read = set(self.alphabet.symbols), self.alphabet.decode(prefix), ""
        matched_most = 0
        for place, token in enumerate(self.source[0].tolist()):
            spelt = self.model.vocabulary.source.pieces[token].replace("▁", " ") if token >= 3 else ""
            piece = spelt.strip()
            before = read + " " * (spelt != piece)
            read += "".join(character if character in known else "\0" for character in spelt)
            if token < 3 or not set(piece) <= set(self.alphabet.symbols):
                continue
            of_piece = [text for run in re.findall(r"[a-z]+|[^a-z]", piece) for text in self._chunks(run)]
            for number, text in enumerate(of_piece):
                key = pointer.key(memory[place]) + copies.places.weight[number]
                text_before = before + "".join(of_piece[:number])
                matched = common_suffix(text_before, written)
                matched_most = max(matched_most, matched)
                logit = state @ key / math.sqrt(len(key)) + pointer.bias[token] + pointer.goes_on[matched]
                units.append(tuple(self.alphabet.encode(text).tolist()))
                weights.append(math.exp(logit.item()))
        c = torch.sigmoid(pointer.gate(state) + pointer.gate_goes_on[matched_most]).item()
        return {
            unit: c * sum(w for u, w in zip(units, weights, strict=True) if u == unit) / sum(weights) for unit in units
        }

    def _chunks(self, run: str) -> list[str]:
        return [run[start : start + self.longest] for start in range(0, len(run), self.longest)]

    def rest(self, prefix: Ids) -> float:
        """1 - c: what is left for character model and lexicon."""
        return 1 - sum(self.copies(prefix).values())

    def next_character(self, prefix: Ids, open: Ids) -> list[float]:
        """p_char of every symbol after the open part of a segment that starts after the prefix."""
        alphabet, spelling = self.alphabet, self.model.segments.characters
        size = len(alphabet)
        if spelling is None:
            return [0.0] * size
        if spelling.proper and open and (len(open) == self.longest or not self.is_word(open[-1])):
            return [float(id == alphabet.eom) for id in range(size)]
        embedding = self.model.character_embedding
        cell = nn.LSTMCell(embedding.shape[1], spelling.start.out_features)
        cell.weight_ih.data, cell.bias_ih.data = spelling.input.weight.data, spelling.input.bias.data
        cell.weight_hh.data, cell.bias_hh.data = spelling.recurrent.weight.data, torch.zeros_like(cell.bias_hh)
        hidden = spelling.start(self.state(prefix))[None]
        memory = torch.zeros_like(hidden)
        for read in [prefix[-1] if prefix else alphabet.eos, *open]:
            hidden, memory = cell(embedding[read][None], (hidden, memory))
        logits = spelling.output(hidden)[0].double().tolist()
        possible = range(size)
        if spelling.proper:
            possible = [
                id
                for id in range(size)
                if (self.is_word(id) or id == alphabet.eom if open else id not in (alphabet.pad, alphabet.eom))
            ]
        total = sum(math.exp(logits[id]) for id in possible)
        return [math.exp(logits[id]) / total if id in possible else 0.0 for id in range(size)]

    def spelt(self, prefix: Ids, segment: Ids) -> float:
        """p_char of a segment's characters, without `<eom>`."""
        return math.prod(self.next_character(prefix, segment[:k])[segment[k]] for k in range(len(segment)))

    def end(self, prefix: Ids, segment: Ids) -> float:
        """Eq. 6 and 7 (and 3): the segment, ended."""
        g = self.share(prefix)
        spelt = self.spelt(prefix, segment) * self.next_character(prefix, segment)[self.alphabet.eom]
        written = g * spelt + (1 - g) * self.lexicon(prefix).get(segment, 0.0)
        return self.rest(prefix) * written + self.copies(prefix).get(segment, 0.0)

    def con(self, prefix: Ids, segment: Ids) -> float:
        """Eq. 8 and 9: the segment, to be continued."""
        g = self.share(prefix)
        longer, copied = (
            sum(p for entry, p in of.items() if entry != segment and entry[: len(segment)] == segment)
            for of in (self.lexicon(prefix), self.copies(prefix))
        )
        return self.rest(prefix) * (g * self.spelt(prefix, segment) + (1 - g) * longer) + copied

    def begins_with(self, prefix: Ids, segment: Ids) -> float:
        """The probability that the next segment begins with these characters."""
        g = self.share(prefix)
        below, copied = (
            sum(p for entry, p in of.items() if entry[: len(segment)] == segment)
            for of in (self.lexicon(prefix), self.copies(prefix))
        )
        return self.rest(prefix) * (g * self.spelt(prefix, segment) + (1 - g) * below) + copied

    def legal(self, segment: Ids) -> bool:
        return len(segment) == 1 or (len(segment) <= self.longest and all(map(self.is_word, segment)))

    def alpha(self, prefix: Ids) -> list[float]:
        """Eq. 5: alpha_k for every k up to the prefix's length."""
        alpha = [1.0]
        for k in range(1, len(prefix) + 1):
            starts = [j for j in range(max(0, k - self.longest), k) if self.legal(prefix[j:k])]
            alpha.append(sum(alpha[j] * self.end(prefix[:j], prefix[j:k]) for j in starts))
        return alpha

    def prefix_mass(self, prefix: Ids) -> float:
        """The probability that the target begins with these characters."""
        n = len(prefix)
        alpha = self.alpha(prefix)
        starts = [j for j in range(max(0, n - self.longest), n) if self.legal(prefix[j:])]
        return sum(alpha[j] * self.begins_with(prefix[:j], prefix[j:]) for j in starts)


def common_suffix(one: str, other: str) -> int:
    """How many characters two texts end with in common, up to six."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in itertools.islice(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs), 6))


def log(p: float) -> float:
    return math.log(p) if p > 0 else -math.inf


def dynamic_decoding(
    model: LiteralModel, beam: int, max_length: int, normalise: str = "segments", stop: str = "safe"
) -> list[tuple[float, Ids, Ids]]:
    """Algorithm 1 with beams: finished (rank, characters, segment ends), best first."""
    eos = model.alphabet.eos
    # A hypothesis: characters, ends of closed segments (0 first), their log-probability.
    con: list[tuple[Ids, Ids, float]] = []
    end: list[tuple[Ids, Ids, float]] = [((), (0,), 0.0)]
    finished: list[tuple[float, Ids, Ids]] = []
    for step in range(max_length + 1):
        con_pool, end_pool = [], []
        for characters, ends, closed in [*con, *end]:
            prefix, open = characters[: ends[-1]], characters[ends[-1] :]
            for y in model.generable():
                if step == max_length and y != eos:
                    continue
                if step == 0 and stop == "paper" and y == eos:
                    continue
                segment = (*open, y)
                in_word = all(map(model.is_word, segment))
                counts = {"segments": len(ends), "none": 1}
                if in_word and len(segment) < model.longest:
                    score = log(model.con(prefix, segment))
                    rank = (closed + score) / counts.get(normalise, step + len(ends))
                    con_pool.append((rank, (*characters, y), ends, closed, score))
                if len(segment) == 1 or in_word:
                    score = log(model.end(prefix, segment))
                    rank = (closed + score) / counts.get(normalise, step + 1 + len(ends))
                    end_pool.append((rank, (*characters, y), ends, closed, score))
        con_pool = sorted((c for c in con_pool if c[0] > -math.inf), key=lambda c: -c[0])
        end_pool = sorted((c for c in end_pool if c[0] > -math.inf), key=lambda c: -c[0])
        for rank, characters, ends, _closed, score in end_pool[:beam]:
            if characters[-1] == eos:
                if stop == "paper":
                    if len(finished) == beam:
                        break
                    rank = score / {"segments": len(ends), "characters": len(ends) + 1, "none": 1}[normalise]
                finished.append((rank, characters[:-1], ends[1:]))
        finished = sorted(finished, key=lambda f: -f[0])[:beam]
        onward = [c for c in end_pool[: 2 * beam] if c[1][-1] != eos][:beam]
        con = [(characters, ends, closed) for _, characters, ends, closed, _ in con_pool[:beam]]
        end = [(characters, (*ends, len(characters)), closed + score) for _, characters, ends, closed, score in onward]
        best_open = max([c[0] for c in [*con_pool[:beam], *onward]], default=-math.inf)
        if best_open == -math.inf:
            break
        if stop == "paper" and len(finished) >= beam:
            break
        if stop == "safe" and finished and finished[0][0] >= best_open:
            break
    return finished


def mixture_beam_search(model: LiteralModel, beam: int, max_length: int) -> list[tuple[float, Ids, Ids]]:
    """Beam search over characters and lexicon entries: finished (score, characters, segment ends), best first."""
    alphabet = model.alphabet
    # A hypothesis: score, characters, how many of them are spelt in an open segment, ends of segments.
    beams: list[tuple[float, Ids, int, Ids]] = [(0.0, (), 0, ())]
    finished: list[tuple[float, Ids, Ids]] = []
    while beams:
        pool: list[tuple[float, Ids, int | None, Ids]] = []
        for score, characters, spelt, ends in beams:
            start = len(characters) - spelt
            prefix, open = characters[:start], characters[start:]
            following = model.next_character(prefix, open)
            if spelt == 0:
                g, rest = model.share(prefix), model.rest(prefix)
                last = model.end(prefix, (alphabet.eos,))
                pool.append((score + log(last), characters, None, ends))
                for y in model.generable():
                    if y != alphabet.eos:
                        pool.append((score + log(rest * g * following[y]), (*characters, y), 1, ends))
                for entry, p in model.lexicon(prefix).items():
                    if entry[0] in model.generable() and entry[0] != alphabet.eos:
                        written = (*characters, *entry)
                        pool.append((score + log(rest * (1 - g) * p), written, 0, (*ends, len(written))))
                for unit, p in model.copies(prefix).items():
                    written = (*characters, *unit)
                    pool.append((score + log(p), written, 0, (*ends, len(written))))
            else:
                closed = (*ends, len(characters))
                pool.append((score + log(following[alphabet.eom]), characters, 0, closed))
                if spelt < model.longest and model.is_word(open[-1]):
                    for y in model.generable():
                        if model.is_word(y):
                            pool.append((score + log(following[y]), (*characters, y), spelt + 1, ends))
        pool = [c for c in pool if c[0] > -math.inf and len(c[1]) <= max_length]
        pool.sort(key=lambda c: -c[0])
        for score, characters, spelt, ends in pool[:beam]:
            if spelt is None:
                finished.append((score, characters, ends))
        finished = sorted(finished, key=lambda f: -f[0])[:beam]
        beams = [(s, c, n, e) for s, c, n, e in pool[: 2 * beam] if n is not None][:beam]
        if finished and beams and finished[0][0] >= beams[0][0]:
            break
    return finished


def segments_of(characters: Ids, ends: Ids) -> list[Ids]:
    return [characters[a:b] for a, b in pairwise((0, *ends))]
