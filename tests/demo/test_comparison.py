"""The demo's comparison from Python, with a corpus and a training of toy size."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssmt.demo import comparison
from ssmt.demo.comparison import as_table, compare
from ssmt.demo.settings import MODELS
from ssmt.errors import Stopped, UserError
from ssmt.evaluation import plots


def test_both_models_are_trained_measured_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared = compare(tmp_path, sentences=500, held_out=6, minutes=0.005, device="cpu")
    assert capsys.readouterr() == ("", "")
    assert tuple(compared.models) == MODELS
    assert [measured.split for measured in compared.measured] == ["test.hard", "test"]
    assert [row[0].text for row in as_table(compared.models, compared.measured).rows] == list(MODELS)
    assert compared.page == tmp_path / "report.html"
    assert "Morphemes</h2>" in compared.page.read_text(encoding="utf-8")
    examples = compared.measured[0].examples(3)
    assert [tuple(example.translations) for example in examples] == [MODELS] * 3
    gold = (tmp_path / "corpus" / "test.hard.sentences.tsv").read_text(encoding="utf-8").splitlines()
    morphemes = [line.split("\t")[2].replace("|", "-") for line in gold]
    assert all(example.reference in morphemes for example in examples)


def test_a_signal_ends_it_and_without_plots_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_plots() -> None:
        raise UserError("not installed")

    monkeypatch.setattr(plots, "require", no_plots)
    assert comparison._write_page(tmp_path, tmp_path, "cpu", comparison.Reporter()) is None
    monkeypatch.setattr(comparison, "train", lambda *_: "SIGINT")
    with pytest.raises(Stopped, match="Stopped by SIGINT"):
        compare(tmp_path / "demo", sentences=500, held_out=6, device="cpu")
