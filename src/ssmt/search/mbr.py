"""Minimum-risk decoding: of many candidates, the one that the others agree with most.

The risk of a translation is what chrF it is expected to lack, if the truth is distributed as the model says. Samples
stand for that distribution, each as much as any other; in a list of the n best each counts by its probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ssmt.search.beam import beam_search
from ssmt.search.job import Hypothesis, Job
from ssmt.search.pairwise_chrf import pairwise_chrf
from ssmt.search.sampling import sample_strings


def minimum_risk_search(job: Job) -> list[list[Hypothesis]]:
    """The candidates of each sentence by their expected chrF, best first; each text once."""
    options, n = job.options, job.options.candidates
    decode = job.model.vocabulary.decode
    if options.candidates_from == "samples":
        samples = sample_strings(job.new_scorer(n), job.seeds, n, options.temperature)
        return [by_expected_chrf(few, [1.0] * n, [decode(one.symbols) for one in few]) for few in samples]
    wide = replace(options, beam=n, n_best=n)
    n_best = beam_search(job.new_scorer(n), job.request.sentences, wide, identity=decode)
    return [by_expected_chrf(few, probabilities(few), [decode(one.symbols) for one in few]) for few in n_best]


def probabilities(hypotheses: Sequence[Hypothesis]) -> list[float]:
    """Relative to the best."""
    best = max(hypothesis.score for hypothesis in hypotheses)
    return [math.exp(hypothesis.score - best) for hypothesis in hypotheses]


def by_expected_chrf(
    hypotheses: Sequence[Hypothesis], weights: Sequence[float], texts: Sequence[str]
) -> list[Hypothesis]:
    """The hypotheses of different texts, ranked by the mean chrF against all, each with its weight; of those with the
    same text the best one stands for all."""
    place_of_text: dict[str, int] = {}
    chosen: list[Hypothesis] = []
    weight: list[float] = []
    for hypothesis, share, text in zip(hypotheses, weights, texts, strict=True):
        place = place_of_text.setdefault(text, len(chosen))
        if place == len(chosen):
            chosen.append(hypothesis)
            weight.append(0.0)
        elif hypothesis.score > chosen[place].score:
            chosen[place] = hypothesis
        weight[place] += share
    shares = np.array(weight) / sum(weight)
    expected = pairwise_chrf(list(place_of_text)) @ shares
    ranked = [replace(hypothesis, rank=float(chrf)) for hypothesis, chrf in zip(chosen, expected, strict=True)]
    return sorted(ranked, key=lambda hypothesis: -hypothesis.rank)
