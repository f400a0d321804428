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
from ssmt.model.ssmt import SSMT
from ssmt.model.transformer import Memory
from ssmt.search.beam import IMPOSSIBLE, Hypothesis, Limits, Scorer
from ssmt.search.open_segments import SegmentSearch, generable, sum_precision


class MarginalScorer:
    """Prefixes with the mass of all their segmentations."""

    def __init__(self, model: SSMT, memory: Memory, beam: int, limits: Limits) -> None:
        self.model, self.beam, self.limits = model, beam, limits
        alphabet = model.vocabulary.alphabet
        self.eos, self.L, self.C = alphabet.eos, model.segments.longest, len(alphabet)
        self.length = 0  # characters of every prefix
        rows = memory.mask.shape[0] * beam
        self.search = SegmentSearch(model, rows)
        self.is_word = model.segments.get_buffer("is_word")
        self.cache = model.decoder.start(memory, beam)
        self.can_begin = generable(alphabet).to(model.device)

        previous = torch.full((rows,), self.eos, device=model.device)
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
        return mass.masked_fill_(~self.limits.allowed(self.length, self.can_begin, self.eos, self.beam), NEG_INF)

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
        self.limits = self.limits.select(sentences)

    def _pay_for_the_end_of_eos(self, onward: Tensor) -> None:
        """With `proper: false` a finished string pays for the `<eom>` after `</s>` too, as its lattice does."""
        N = self.rows
        new = self.open.select(torch.arange(N, device=onward.device))  # the segments that begin now come first
        eos = torch.full((N,), self.eos, device=onward.device)
        onward[:N, self.eos] = self.search.log_prob_if_ended(self.search.read(new, eos), eos)


def sample_strings(
    scorer: Scorer, generators: list[torch.Generator], n: int, temperature: float
) -> list[list[Hypothesis]]:
    """n strings for each sentence, drawn symbol by symbol from the model's own distribution over strings (at
    temperature 1), each with its exact probability. One generator a sentence keeps a sentence's strings the same
    whatever batch it is in. The scorer must have n rows a sentence."""
    eos = scorer.eos
    found: list[list[Hypothesis | None]] = [[None] * n for _ in generators]
    strings: list[list[list[int]]] = [[[] for _ in range(n)] for _ in generators]
    active = list(range(len(generators)))
    while active:
        mass = scorer.extensions()  # (N, W)
        uniform = torch.cat([torch.rand(n, mass.shape[1], generator=generators[sentence]) for sentence in active])
        gumbel = -torch.log(-torch.log(uniform.double().clamp(1e-12, 1 - 1e-12))).to(mass)
        symbols = (mass / temperature + gumbel).argmax(dim=1)  # a draw from softmax(mass / temperature)
        symbols[mass.amax(dim=1) < IMPOSSIBLE] = eos  # where nothing can follow
        scores = mass.gather(1, symbols.unsqueeze(1)).view(-1, n).tolist()
        drawn = symbols.view(-1, n).tolist()
        staying = []
        for block, sentence in enumerate(active):
            for k in range(n):
                if found[sentence][k] is not None:
                    continue  # a finished row idles until its sentence's other rows have finished
                if drawn[block][k] == eos:
                    score = scores[block][k]
                    found[sentence][k] = Hypothesis(strings[sentence][k], score, score)
                else:
                    strings[sentence][k].append(drawn[block][k])
            if None in found[sentence]:
                staying.append(block)
        rows = torch.arange(len(active) * n, device=mass.device).view(-1, n)
        if len(staying) < len(active):
            kept = torch.tensor(staying, device=mass.device, dtype=torch.int64)
            rows = rows[kept]
            active = [active[block] for block in staying]
            if active:
                scorer.select_sentences(kept)
        if active:
            scorer.advance(rows.view(-1), symbols[rows.view(-1)])
    return [[one for one in row if one is not None] for row in found]
