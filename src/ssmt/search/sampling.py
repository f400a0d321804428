"""Sampling: strings drawn symbol by symbol from a model's own distribution, whatever its symbols are.

Shapes: n strings a sentence, N rows, W symbols.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ssmt.errors import NotNumbersError
from ssmt.search.beam import IMPOSSIBLE
from ssmt.search.job import Hypothesis, Scorer


def sample_strings(scorer: Scorer, seeds: Sequence[int], n: int, temperature: float) -> list[list[Hypothesis]]:
    """n strings for each sentence, each with its exact probability; at temperature 1 the distribution is the model's.
    A seed for each sentence keeps its strings the same whatever batch it is in. The scorer must have n rows a
    sentence."""
    eos = scorer.eos
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    drawn: list[list[Hypothesis | None]] = [[None] * n for _ in generators]
    strings: list[list[list[int]]] = [[[] for _ in range(n)] for _ in generators]
    active = list(range(len(generators)))
    while active:
        mass = scorer.extensions()  # (N, W)
        uniform = torch.cat([torch.rand(n, 1, dtype=torch.float64, generator=generators[one]) for one in active])
        # A draw from softmax(mass / temperature): the symbol at whose share of the whole a random number falls.
        shares = torch.softmax(mass / temperature, dim=1).cumsum(dim=1)
        drawn_at = shares[:, -1:] * uniform.to(shares)
        symbols = torch.searchsorted(shares, drawn_at, right=True).squeeze(1).clamp_(max=mass.shape[1] - 1)
        symbols[mass.amax(dim=1) < IMPOSSIBLE] = eos  # where nothing can follow
        scores = mass.gather(1, symbols.unsqueeze(1)).view(-1, n).tolist()
        next_symbols = symbols.view(-1, n).tolist()
        if not all(math.isfinite(score) for of_sentence in scores for score in of_sentence):
            raise NotNumbersError  # of such numbers no end would ever be drawn
        staying = []
        for block, sentence in enumerate(active):
            for k in range(n):
                if drawn[sentence][k] is not None:
                    continue  # a finished row idles until its sentence's other rows have finished
                if next_symbols[block][k] == eos:
                    score = scores[block][k]
                    drawn[sentence][k] = Hypothesis(strings[sentence][k], score, score)
                else:
                    strings[sentence][k].append(next_symbols[block][k])
            if None in drawn[sentence]:
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
    return [[hypothesis for hypothesis in of_sentence if hypothesis is not None] for of_sentence in drawn]
