"""Dynamic decoding and mixture beam search against a literal transcription of the paper."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from ssmt.registry import KINDS
from ssmt.search.options import SearchOptions
from tests.literal import LiteralModel, dynamic_decoding, mixture_beam_search
from tests.models import SOURCES, random_model

OURS = {"ngram_inputs": True, "lexicon_by_first_character": True, "decoder_layers": 3, "character_layers": 1}
COPIES = {"letters": "abdogs ", "copies": True}
LENGTH = 9


def sources(count: int) -> list[str]:
    rng = random.Random(1)
    words = sorted({word for source in SOURCES for word in source.split()})
    return [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(count)]


def settings() -> list[Any]:
    return [
        pytest.param({}, {"beam": 5}, 14, id="default"),
        pytest.param({}, {"beam": 1}, 6, id="beam 1"),
        pytest.param({}, {"beam": 3, "stop": "paper"}, 6, id="the paper's stop"),
        pytest.param({}, {"beam": 3, "normalise": "none"}, 6, id="not normalised"),
        pytest.param({}, {"beam": 3, "normalise": "characters"}, 6, id="by characters"),
        pytest.param({"proper": False}, {"beam": 3}, 6, id="improper"),
        pytest.param({"decoder_layers": 3, "character_layers": 2}, {"beam": 3}, 4, id="layers over words"),
        pytest.param(OURS, {"beam": 3}, 4, id="words first, lexicon by first character"),
        pytest.param(COPIES, {"beam": 3}, 4, id="copies"),
        pytest.param({**OURS, **COPIES}, {"beam": 3}, 4, id="copies, words first"),
        pytest.param({"coverage": True}, {"beam": 3}, 4, id="coverage"),
        pytest.param({**OURS, "coverage": True}, {"beam": 3}, 4, id="coverage, words first"),
        pytest.param({"lexicon": False}, {"beam": 3}, 4, id="characters only"),
        pytest.param({"characters": False}, {"beam": 3}, 4, id="lexicon only"),
    ]


@torch.no_grad()
@pytest.mark.parametrize(("network", "options", "count"), settings())
def test_dynamic_decoding_is_that_of_the_paper(network: dict[str, Any], options: dict[str, Any], count: int) -> None:
    model = random_model(seed=3, **network)
    chosen = SearchOptions(**options)
    texts = sources(count)
    found = KINDS["ssmt"].translate(model, texts, replace(chosen, search="dynamic", max_length=LENGTH), 1.0)
    for source, few in zip(texts, found, strict=True):
        literal = LiteralModel(model, source)
        expected = dynamic_decoding(literal, chosen.beam, LENGTH, chosen.normalise, chosen.stop)
        assert [(tuple(one.symbols), tuple(one.ends or ())) for one in few] == [(f[1], f[2]) for f in expected]
        assert [one.rank for one in few] == pytest.approx([f[0] for f in expected], abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    ("network", "beam", "count"),
    [
        pytest.param({}, 5, 30, id="default"),
        pytest.param({}, 1, 8, id="beam 1"),
        pytest.param({"proper": False}, 3, 6, id="improper"),
        pytest.param({"decoder_layers": 3, "character_layers": 2}, 3, 6, id="layers over words"),
        pytest.param(OURS, 3, 6, id="words first, lexicon by first character"),
        pytest.param(COPIES, 3, 6, id="copies"),
        pytest.param({**OURS, **COPIES}, 3, 6, id="copies, words first"),
        pytest.param({"coverage": True}, 3, 6, id="coverage"),
        pytest.param({**OURS, "coverage": True}, 3, 6, id="coverage, words first"),
        pytest.param({"lexicon": False}, 3, 6, id="characters only"),
        pytest.param({"characters": False}, 3, 6, id="lexicon only"),
    ],
)
def test_mixture_beam_search_is_ordinary_beam_search(network: dict[str, Any], beam: int, count: int) -> None:
    model = random_model(seed=3, **network)
    texts = sources(count)
    found = KINDS["ssmt"].translate(model, texts, SearchOptions("mixture", beam, max_length=LENGTH), 1.0)
    for source, few in zip(texts, found, strict=True):
        expected = mixture_beam_search(LiteralModel(model, source), beam, LENGTH)
        assert [(tuple(one.symbols), tuple(one.ends or ())) for one in few] == [(f[1], f[2]) for f in expected]
        assert [one.score for one in few] == pytest.approx([f[0] for f in expected], abs=1e-4)
