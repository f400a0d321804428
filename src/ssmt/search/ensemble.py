"""Several models as one: the probability of the next symbol is the mean of what they say.

    p(y | prefix, x) = mean over models of p_m(prefix y ...) / p_m(prefix ...)

Of models that segment, the masses p_m are exact sums over all segmentations (`ssmt.search.marginal`), so that the mean
is one of probabilities of characters, whatever segments each of them has in mind.

Shapes: N rows (hypotheses), W symbols, M models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.translation import TranslationModel
from ssmt.search.beam import IMPOSSIBLE
from ssmt.search.job import NewScorer, Request, Scorer

SEARCHES = ("marginal", "beam", "sample")  # those over strings


class EnsembleScorer:
    """Prefixes with the product of the mean probabilities of their symbols."""

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        self.scorers, self.eos = scorers, scorers[0].eos
        self.totals: list[Tensor | None] = [None] * len(scorers)  # of each model, log p of the prefixes (N, 1)
        self.total: Tensor | float = 0.0  # of all together (N, 1)

    def extensions(self) -> Tensor:
        self.masses = [scorer.extensions() for scorer in self.scorers]
        following = [
            mass if total is None else mass - total for mass, total in zip(self.masses, self.totals, strict=True)
        ]
        mean = torch.logsumexp(torch.stack(following), dim=0) - math.log(len(following))  # (N, W)
        possible = torch.stack([mass > IMPOSSIBLE for mass in self.masses]).any(dim=0)
        self.extended = (self.total + mean).masked_fill(~possible, NEG_INF)
        return self.extended

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.total = self.extended[rows, symbols].unsqueeze(1)
        # What one model finds impossible it goes on with as if it had not: its mean with the others stays finite.
        self.totals = [mass[rows, symbols].clamp(min=IMPOSSIBLE).unsqueeze(1) for mass in self.masses]
        for scorer in self.scorers:
            scorer.advance(rows, symbols)

    def select_sentences(self, sentences: Tensor) -> None:
        for scorer in self.scorers:
            scorer.select_sentences(sentences)


class Ensemble:
    """Models with the same vocabulary, as searches over strings see them: as one."""

    def __init__(self, models: Sequence[TranslationModel]) -> None:
        self.models = models
        self.vocabulary, self.device = models[0].vocabulary, models[0].device

    def into(self, language: str) -> Ensemble:
        return Ensemble([model.into(language) for model in self.models])

    def parameters(self) -> Iterator[Tensor]:
        return (parameter for model in self.models for parameter in model.parameters())

    def encode(self, source: Tensor | None) -> list[Memory | None]:
        """What each model makes of the source."""
        return [model.encode(source) for model in self.models]


def new_scorer(
    scorer: NewScorer, ensemble: Ensemble, memories: Sequence[Memory | None], rows: int, request: Request
) -> Scorer:
    """The models' own scorers as one."""
    each = zip(ensemble.models, memories, strict=True)
    return EnsembleScorer([scorer(model, memory, rows, request) for model, memory in each])
