"""Subwords drawn at random: the same text, in proportion to what the model says, the same in every process."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter

import pytest

from ssmt.text.sampling import SubwordSampler
from ssmt.text.subwords import Algorithm, TargetSubwords
from ssmt.text.vocabulary import SubwordVocabulary

TEXTS = ["the bird sees the birds", "the cow  called the cows", "a bird was seen ", "cows were called once"]


def sampler(algorithm: Algorithm, alpha: float) -> SubwordSampler:
    size = 40 if algorithm == "bpe" else 30
    return SubwordSampler(TargetSubwords.train(TEXTS * 3, size, algorithm, lambda message: None), algorithm, alpha)


def resampled(drawing: SubwordSampler, lines: list[list[int]], seed: int) -> list[list[int]]:
    return drawing.resample(lines, [f"{seed} {row}" for row in range(len(lines))])


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_samples_are_other_ids_of_the_same_text(algorithm: Algorithm) -> None:
    drawing = sampler(algorithm, 0.3)
    subwords = drawing.subwords
    assert isinstance(subwords, TargetSubwords)
    encoded = subwords.encode([*TEXTS, "", "the ☃☃ bird"])
    first = resampled(drawing, encoded, 7)
    assert resampled(drawing, encoded, 7) == first
    assert resampled(drawing, encoded, 8) != first
    assert first != encoded
    vocabulary = SubwordVocabulary(subwords, subwords)
    assert list(map(vocabulary.decode, first)) == list(map(vocabulary.decode, encoded))
    assert [line.count(subwords.unk) for line in first] == [line.count(subwords.unk) for line in encoded]
    assert all(line[-1] == subwords.eos for line in first)


def test_bpe_without_dropout_is_sentencepieces() -> None:
    drawing = sampler("bpe", 0.0)
    encoded = drawing.subwords.encode(TEXTS)
    assert resampled(drawing, encoded, 1) == encoded


def test_bpe_with_all_merges_left_out_spells() -> None:
    drawing = sampler("bpe", 1.0)
    assert all(len(drawing.pieces[id]) == 1 for id in resampled(drawing, drawing.subwords.encode(TEXTS), 1)[0][:-1])


def test_a_high_power_gives_the_best_segmentation() -> None:
    drawing = sampler("unigram", 200.0)
    encoded = drawing.subwords.encode(TEXTS)
    assert resampled(drawing, encoded, 1) == encoded


def segmentations(drawing: SubwordSampler, word: str) -> dict[tuple[int, ...], float]:
    """All of a word, with their scores."""
    found = {}
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        bounds = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), len(word)]
        pieces = [word[start:end] for start, end in itertools.pairwise(bounds)]
        if all(piece in drawing.ids for piece in pieces):
            found[tuple(drawing.ids[piece] for piece in pieces)] = sum(drawing.scores[piece] for piece in pieces)
    return found


def test_the_unigram_model_draws_in_proportion() -> None:
    alpha, draws = 0.3, 20_000
    drawing = sampler("unigram", alpha)
    word = max(["birds", "seen", "called", "cows"], key=lambda word: len(segmentations(drawing, f"▁{word}")))
    weights = {ids: math.exp(alpha * score) for ids, score in segmentations(drawing, f"▁{word}").items()}
    assert len(weights) > 2
    drawn = Counter(tuple(line[:-1]) for line in resampled(drawing, drawing.subwords.encode([word] * draws), 3))
    assert drawn.keys() <= weights.keys()
    for ids, weight in weights.items():
        share = weight / sum(weights.values())
        assert drawn[ids] / draws == pytest.approx(share, abs=4 * math.sqrt(share / draws) + 1e-4)


def test_the_draw_is_the_same_in_another_process() -> None:
    code = (
        "from tests.text.test_sampling import *\n"
        "one = sampler('bpe', 0.5)\n"
        "print(resampled(one, one.subwords.encode(TEXTS), 5), end='')"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    own = sampler("bpe", 0.5)
    assert other == str(resampled(own, own.subwords.encode(TEXTS), 5))
