"""What benchmarks make of their numbers. They are not run here: tests never measure time."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_growth_is_drawn_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    growth = importlib.import_module("growth")
    rows = [
        {
            "setting": setting,
            "value": value,
            "decoding": 10.0 * value,
            **({} if setting == "beam" else {"training": 3.0}),
        }
        for setting, values in growth.VALUES.items()
        for value in values
    ]
    growth.draw(rows, tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").stat().st_size > 1000
    assert "| beam | **5** |  | 50 |" in growth.markdown(rows)
    assert "| lexicon entries | 10,000 | 3 | 100000 |" in growth.markdown(rows)


def test_forced_words_keep_their_blanks_and_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    decoding = importlib.import_module("decoding")
    from ssmt.search.beam import SearchOptions
    from ssmt.search.decode import decode
    from ssmt.text.corpus import padded
    from tests.models import SOURCES, random_model

    model = random_model()
    source = padded(model.vocabulary.encode_sources(SOURCES), model.vocabulary.source_pad)
    limits = decoding.forced_words(model, len(SOURCES), 25)
    found = decode(model, source, limits, "marginal", SearchOptions(beam=2, min_length=25), [1] * len(SOURCES))
    for place, few in zip(limits.place.tolist(), found, strict=True):
        text = model.vocabulary.alphabet.decode(few[0].symbols)
        assert len(text) == 25
        assert [at for at, character in enumerate(text) if character == " "] == list(range(place, 25, 10))
