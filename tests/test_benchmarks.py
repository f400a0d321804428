"""What benchmarks make of their numbers. They are not run here: tests never measure time."""

from __future__ import annotations

import importlib
import json
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
    from ssmt.search.decode import decode
    from ssmt.search.options import SearchOptions
    from ssmt.text.batch import padded
    from tests.models import SOURCES, random_model

    model = random_model()
    source = padded(model.vocabulary.encode_sources(SOURCES), model.vocabulary.source_pad)
    limits = decoding.forced_words(model, len(SOURCES), 25)
    found = decode(model, source, limits, "marginal", SearchOptions(beam=2, min_length=25), [1] * len(SOURCES))
    for place, few in zip(limits.place.tolist(), found, strict=True):
        text = model.vocabulary.alphabet.decode(few[0].symbols)
        assert len(text) == 25
        assert [at for at, character in enumerate(text) if character == " "] == list(range(place, 25, 10))


def test_baselines_are_compared_from_their_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    baselines = importlib.import_module("baselines")
    from ssmt.evaluation.translation import evaluate_translations

    def write(directory: Path, bits: list[float]) -> None:
        directory.mkdir()
        lines = [
            {"update": 10 * k, "minutes": 2.0 * k, "valid_bits_per_character": value, "valid_chrf": 20.0 + k}
            | {"improved": value == min(bits[:k])}
            for k, value in enumerate(bits, start=1)
        ]
        (directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(tmp_path / "dpe", [2.0, 1.25])
    write(tmp_path / "dpe" / "segmenter", [3.0, 2.5])
    write(tmp_path / "ssmt", [1.5, 1.75])
    logs = {name: baselines.log_of(tmp_path / name) for name in ("dpe", "ssmt")}
    assert baselines.curve(logs["dpe"], "valid_chrf") == ([6.0, 8.0], [21.0, 22.0]), "after its segmenter's 4 minutes"
    texts = {"dpe": ["a bed of roses"], "ssmt": ["a bed of straw"]}
    table = baselines.as_table(
        logs, {"dpe": 1000, "ssmt": 2000}, evaluate_translations(texts, ["a bed of straw"], samples=10)
    )
    assert [cell.text for cell in table.rows[0]][:5] == ["dpe", "1,000", "20", "8.0", "1.250"]
    assert [cell.text for cell in table.rows[1]] == ["ssmt", "2,000", "20", "4.0", "1.500", "100.0", "100.0"]
    baselines.draw(logs, tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {"baselines-bits.svg", "baselines-chrf.svg"}


def test_all_stages_of_dpe_take_the_time_of_the_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    baselines = importlib.import_module("baselines")
    dpe, bpe = (baselines.config_of(model, "tiny", 30, []) for model in ("dpe", "bpe"))
    assert bpe.training.max_minutes == 30
    assert 28 < dpe.training.max_minutes + dpe.of_segmenter.training.max_minutes < 30
