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

Shapes: N rows (hypotheses), A = L ages: how long ago the open segment began, C alphabet.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.ssmt import SSMT
from ssmt.model.transformer import Memory
from ssmt.search.beam import Hypothesis, Limits
from ssmt.search.open_segments import OpenSegments, SegmentSearch, generable, sum_precision


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
        states = model.decoder.step(previous, self.cache)
        begun = self.search.begin(states, previous)
        precision = sum_precision(model.device)
        self.log_a = torch.full((rows, self.L), NEG_INF, dtype=precision, device=model.device)  # log a_k by age
        self.log_a[:, 0] = 0.0
        # Ages lie side by side in rows of OpenSegments: age 0 of all hypotheses, then age 1, ...
        self.open = OpenSegments.cat(*[begun] * self.L)

    def extensions(self) -> Tensor:
        """The mass of every prefix with every next character. (N, C)"""
        N = len(self.log_a)
        # Anything can begin a segment; only word characters go on with one.
        legal = torch.cat([self.can_begin.expand(N, -1), self.is_word.expand(N * (self.L - 1), -1)])
        onward = self.search.continuations(self.open, legal)  # (A*N, C)
        if not self.search.proper:
            self._pay_for_the_end_of_eos(onward)
        weighted = self.log_a.T.unsqueeze(-1) + onward.view(self.L, N, self.C)
        mass = torch.logsumexp(weighted, dim=0)
        allowed = self.limits.allowed(self.length, self.can_begin, self.eos)
        return mass.masked_fill(~allowed.repeat_interleave(self.beam, dim=0), NEG_INF)

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        N, L, old_N = len(rows), self.L, len(self.log_a)
        self.length += 1
        log_a = self.log_a.index_select(0, rows)
        in_word = self.is_word[symbols].unsqueeze(1)  # a character that is no letter goes on with no segment
        log_a[:, 1:] = log_a[:, 1:].where(in_word, NEG_INF)
        ages = torch.arange(L, device=rows.device).unsqueeze(1)
        open = self.open.select((ages * old_N + rows).view(-1))  # (A*N)
        read = self.search.read(open, symbols.repeat(L))
        # a_{j+1} = sum over k of a_k p(y_k..j)                                                               Eq. 5
        ended = self.search.log_prob_if_ended(read, symbols.repeat(L)).view(L, N)
        new_a = torch.logsumexp(log_a + ended.T, dim=1)

        self.cache.reorder(rows)
        states = self.model.decoder.step(symbols, self.cache)
        begun = self.search.begin(states, symbols)
        # Everything is one character older; the oldest, now of length L, can only have ended.
        still = torch.arange(N * (L - 1), device=rows.device)
        self.open = OpenSegments.cat(begun, read.select(still))
        older = log_a[:, : L - 1].where(in_word, NEG_INF)
        self.log_a = torch.cat([new_a.unsqueeze(1), older], dim=1)

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.limits = self.limits.select(sentences)

    def _pay_for_the_end_of_eos(self, onward: Tensor) -> None:
        """With `proper: false` a finished string pays for the `<eom>` after `</s>` too, as its lattice does."""
        N = len(self.log_a)
        new = self.open.select(torch.arange(N, device=onward.device))
        eos = torch.full((N,), self.eos, device=onward.device)
        onward[:N, self.eos] = self.search.log_prob_if_ended(self.search.read(new, eos), eos)


def sample_strings(
    scorer: MarginalScorer, generators: list[torch.Generator], n: int, temperature: float
) -> list[list[Hypothesis]]:
    """n strings for each sentence, drawn character by character from the model's own distribution over strings (at
    temperature 1), each with its exact probability. One generator a sentence keeps a sentence's strings the same
    whatever batch it is in. The scorer must have n rows a sentence."""
    C, eos = scorer.C, scorer.eos
    found: list[list[Hypothesis | None]] = [[None] * n for _ in generators]
    strings: list[list[list[int]]] = [[[] for _ in range(n)] for _ in generators]
    active = list(range(len(generators)))
    while active:
        mass = scorer.extensions()  # (N, C)
        uniform = torch.cat([torch.rand(n, C, generator=generators[sentence]) for sentence in active])
        gumbel = -torch.log(-torch.log(uniform.double().clamp(1e-12, 1 - 1e-12))).to(mass)
        symbols = (mass / temperature + gumbel).argmax(dim=1)  # a draw from softmax(mass / temperature)
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
