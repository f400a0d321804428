"""Minimum-risk decoding: chrF as sacrebleu has it, and the candidate that the others agree with most."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from ssmt.errors import UserError
from ssmt.search.job import Hypothesis
from ssmt.search.mbr import by_expected_chrf
from ssmt.search.pairwise_chrf import pairwise_chrf
from tests.models import SOURCES, random_model, translator

TEXTS = st.lists(st.text(alphabet="ab c.𐐷é\t", max_size=14), min_size=1, max_size=6)


def sacrebleu_chrf(texts: list[str]) -> np.ndarray:
    metric = CHRF()
    return np.array([[metric.sentence_score(text, [reference]).score for reference in texts] for text in texts])


@given(TEXTS)
def test_chrf_is_that_of_sacrebleu(texts: list[str]) -> None:
    np.testing.assert_allclose(pairwise_chrf(texts), sacrebleu_chrf(texts), rtol=1e-12, atol=1e-9)


def test_chrf_of_long_texts_is_that_of_sacrebleu() -> None:
    rng = random.Random(0)
    texts = [" ".join("".join(rng.choices("aeiklmnu", k=rng.randint(1, 9))) for _ in range(20)) for _ in range(12)]
    np.testing.assert_allclose(pairwise_chrf(texts), sacrebleu_chrf(texts), rtol=1e-12)


def hypothesis(score: float) -> Hypothesis:
    return Hypothesis([], score, score)


def test_a_candidate_counts_as_often_as_it_is_drawn() -> None:
    texts = ["one", "tree", "other", "tree"]
    scores = [-1.0, -5.0, -3.0, -4.0]
    ranked = by_expected_chrf([hypothesis(score) for score in scores], [1.0] * 4, texts)
    matrix = sacrebleu_chrf(texts)
    expected = {"one": matrix[0].mean(), "tree": matrix[1].mean(), "other": matrix[2].mean()}
    assert [one.rank for one in ranked] == pytest.approx(sorted(expected.values(), reverse=True))
    assert ranked[0].score == -4.0  # of "tree", whose two derivations are one text, the better one
    assert max(expected, key=expected.__getitem__) == "tree"


@torch.inference_mode()
@pytest.mark.parametrize("candidates_from", ["samples", "beam"])
def test_the_search_maximises_what_is_expected_over_its_candidates(candidates_from: Any) -> None:
    model = translator(random_model(letters="ab ", entries=("ab", "ba"), sharpness=1.5))
    options: dict[str, Any] = {"max_length": 12}
    if candidates_from == "samples":
        drawn = model.n_best_translations(SOURCES, search="sample", n_best=12, seed=3, with_segments=False, **options)
        options |= {"seed": 3}
    else:
        by_probability = {"length_penalty": 0, "repetition_penalty": 0} | options
        drawn = model.n_best_translations(SOURCES, beam=12, n_best=12, with_segments=False, **by_probability)
    found = model.n_best_translations(
        SOURCES, search="mbr", candidates=12, candidates_from=candidates_from, n_best=3, **options
    )
    for few, candidates in zip(found, drawn, strict=True):
        texts = [candidate.text for candidate in candidates]
        weights = [1.0 if candidates_from == "samples" else math.exp(candidate.score) for candidate in candidates]
        expected = sacrebleu_chrf(texts) @ np.array(weights) / sum(weights)
        best = max(zip(expected, texts, strict=True))
        assert expected[texts.index(few[0].text)] == pytest.approx(best[0])
        assert len({one.text for one in few}) == len(few) == min(3, len(set(texts)))
        assert few[0].score == pytest.approx(model.score([SOURCES[found.index(few)]], [few[0].text])[0], abs=1e-4)


def test_the_output_does_not_depend_on_the_batch() -> None:
    model = translator(random_model(seed=5))
    together = model.translate(SOURCES, search="mbr", candidates=6, max_length=9)
    alone = model.translate(SOURCES, search="mbr", candidates=6, max_length=9, batch_characters=1)
    assert alone.texts == together.texts


@pytest.mark.parametrize("option", [{"temperature": 0.5}, {"seed": 3}])
def test_what_is_of_samples_is_refused_for_a_beam(option: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="is of samples, and the candidates come from a beam"):
        translator(random_model()).translate(SOURCES, search="mbr", candidates_from="beam", **option)
