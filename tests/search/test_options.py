"""Options are checked where they are made: Python users get the messages of the command line."""

from __future__ import annotations

from typing import Any

import pytest

from ssmt.errors import UserError
from ssmt.search.options import SearchOptions
from ssmt.search.table import COMMON, SEARCHES
from ssmt.translator import Translator
from tests.models import SOURCES, random_model, translator


@pytest.fixture(scope="module")
def model() -> Translator:
    return translator(random_model())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam", 0),
        ("beam", 10**9),
        ("beam", 2.0),
        ("beam", True),
        ("n_best", 0),
        ("n_best", 10**9),
        ("max_length", 0),
        ("max_length", 10**31),
        ("min_length", -1),
        ("temperature", 0),
        ("temperature", float("nan")),
        ("length_penalty", 1000.0),
        ("length_penalty", float("inf")),
        ("length_penalty", "much"),
        ("repetition_penalty", -0.5),
        ("repetition_penalty", float("nan")),
        ("seed", -1),
        ("normalise", "words"),
        ("stop", "early"),
        ("candidates", 0),
        ("candidates_from", "thin air"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(model: Translator, name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"^{name} is "):
        SearchOptions(**{name: value})
    with pytest.raises(UserError, match=f"^{name} is "):
        model.translate(SOURCES, **{name: value})


def test_an_option_that_is_none_is_named_with_the_nearest(model: Translator) -> None:
    with pytest.raises(UserError, match="no option 'beem'; did you mean 'beam'"):
        model.translate(SOURCES, beem=3)
    with pytest.raises(UserError, match="no search 'marginale'; it has marginal, dynamic, mixture, sample, mbr"):
        model.translate(SOURCES, search="marginale")


def test_options_travel_whole(model: Translator) -> None:
    options = SearchOptions("marginal", beam=3, n_best=2, length_penalty=0.5, max_length=9, min_length=2)
    settings = {"search": "marginal", "beam": 3, "n_best": 2, "length_penalty": 0.5, "max_length": 9, "min_length": 2}
    assert model.translate(SOURCES, options) == model.translate(SOURCES, **settings)
    assert model.translate(SOURCES, options, n_best=1).texts == [
        texts[0] for texts in model.translate(SOURCES, options).texts
    ]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=list(SEARCHES))
def test_every_search_takes_its_own_options_and_no_others(search: Any) -> None:
    others: dict[str, Any] = {
        "length_penalty": 0.5,
        "repetition_penalty": 0.5,
        "normalise": "none",
        "stop": "paper",
        "average_next": True,
        "temperature": 0.5,
        "seed": 3,
        "candidates": 7,
        "candidates_from": "beam",
    }
    for name, value in others.items():
        options = SearchOptions(**{name: value})
        if name in (*COMMON, *search.own_options):
            completed = search.completed(options)
            assert getattr(completed, name) == value
            assert search.completed(completed) == completed
        else:
            with pytest.raises(UserError, match=f"has no {name.replace('_', ' ')}; it is for "):
                search.completed(options)


@pytest.mark.parametrize("method", ["translate", "score", "segment", "boundary_posteriors"])
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a dog", "must be a list of sentences, and this is one text: 'a dog'"),
        (7, "must be a list of sentences, and this is 7"),
        ([None], "number 1 is None"),
    ],
)
def test_one_text_is_no_list_of_sentences(model: Translator, method: str, texts: Any, message: str) -> None:
    arguments = [texts] if method == "translate" else [["a dog"], texts]
    with pytest.raises(UserError, match=message):
        getattr(model, method)(*arguments)


def test_sentences_can_come_from_anywhere(model: Translator) -> None:
    assert model.translate(source for source in SOURCES) == model.translate(SOURCES)


def test_segments_are_found_only_when_they_are_asked_for(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    with_segments = model.n_best_translations(SOURCES, n_best=2)
    monkeypatch.setattr(type(model.segmenter), "of_hypotheses", None)
    without = model.n_best_translations(SOURCES, n_best=2, with_segments=False)
    for translations, others in zip(with_segments, without, strict=True):
        assert [one.text for one in translations] == [other.text for other in others]
        assert [one.score for one in translations] == [other.score for other in others]
        assert all(other.segmentation is None for other in others)
