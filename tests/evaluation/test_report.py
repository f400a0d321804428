"""What a report of runs holds, made from Python."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ssmt.errors import UserError
from ssmt.evaluation.composition import extract_subsets
from ssmt.evaluation.page import Page
from ssmt.evaluation.report import learning_curves, runs_report, runs_table
from ssmt.text.preparation import TrainingFiles

LOG = [
    {"update": 50, "minutes": 0.5, "bits_per_character": 3.0, "loss": 2.1},
    {"update": 60, "minutes": 0.6, "valid_bits_per_character": 2.0, "valid_chrf": 20.0},
    {"update": 100, "minutes": 1.0, "bits_per_character": 1.5},
    {"update": 120, "minutes": 1.3, "valid_bits_per_character": 2.5, "valid_chrf": 31.0},
]


@pytest.fixture
def run(model_directory: Path, tmp_path: Path) -> Path:
    directory = Path(shutil.copytree(model_directory, tmp_path / "run"))
    (directory / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in LOG))
    return directory


def sections(page: Page) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page.render())


def test_a_page_from_python_is_that_of_the_command_line_and_says_nothing(
    run: Path, toy_files: TrainingFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ssmt.cli import main

    page = runs_report(
        [run],
        source=toy_files.valid_source,
        reference=toy_files.valid_target,
        hypotheses={"other": toy_files.valid_source},
        sentences=4,
        examples=2,
        beam=1,
        samples=5,
    )
    assert capsys.readouterr() == ("", "")
    assert sections(page) == ["Training", "Translation", "Segmentation"]
    assert [plot.name for plot in page.figures] == [
        "bits_per_character-over-updates", "bits_per_character-over-minutes", "chrf-over-updates", "chrf-over-minutes",
    ]  # fmt: skip
    written = run.parent / "page.html"
    arguments = f"report {run} --source {toy_files.valid_source} --reference {toy_files.valid_target}"
    arguments += f" --hypothesis other={toy_files.valid_source} --sentences 4 --examples 2 --beam 1 --samples 5"
    monkeypatch.setattr("sys.argv", ["ssmt", *arguments.split(), "-o", str(written)])
    with pytest.raises(SystemExit, match="0"):
        main()
    undated = [re.sub(r"<footer>.*?</footer>", "", text) for text in (page.render(), written.read_text("utf-8"))]
    assert undated[0] == undated[1]


def test_subsets_are_shown_of_runs_that_cannot_translate_yet(run: Path, toy_files: TrainingFiles) -> None:
    texts = toy_files.valid_source, toy_files.valid_target
    subsets = run.parent / "subsets"
    extract_subsets(toy_files.target, *texts, subsets, segmenter=run, size=3)
    (run / "model.safetensors").unlink()
    page = runs_report([run], source=texts[0], reference=texts[1], compositional=subsets)
    assert sections(page) == ["Training", "Compositional generalisation"]
    assert page.figures[-1].name == "divergence-growth"


def test_what_is_wrong_is_said_in_words_of_python(run: Path, toy_files: TrainingFiles, tmp_path: Path) -> None:
    texts = {"source": toy_files.valid_source, "reference": toy_files.valid_target}
    for wrong, message in (
        ({"source": toy_files.valid_source}, "A source and a reference belong together"),
        ({"hypotheses": {"a": toy_files.target}}, "need the test set they belong to"),
        (texts | {"hypotheses": {"run": toy_files.valid_target}}, "A run is called 'run' already"),
        (texts | {"compositional": tmp_path}, r"holds no divergence-\*.json"),
    ):
        with pytest.raises(UserError, match=message) as refusal:
            runs_report([run], **wrong)  # type: ignore[arg-type]
        assert "--" not in str(refusal.value)


def test_numbers_of_a_run_are_those_of_the_model_that_it_has_kept() -> None:
    (row,) = runs_table({"one": LOG}, {}).rows
    assert [cell.text for cell in row[-2:]] == ["2.000", "20.0"]
    (row,) = runs_table({"one": [LOG[1], {**LOG[3], "improved": True}]}, {}).rows  # by chrF
    assert [cell.text for cell in row[-2:]] == ["2.500", "31.0"]
    kept = {"update": 120, "minutes": 1.4, "average_bits_per_character": 1.9, "average_chrf": 30.0, "improved": True}
    (row,) = runs_table({"one": [*LOG, kept]}, {}).rows
    assert [cell.text for cell in row[-2:]] == ["1.900", "30.0"]


def test_learning_curves_are_the_logs_numbers() -> None:
    found = {plot.name: plot.figure.axes[0] for plot in learning_curves({"run": LOG})}
    assert sorted(found) == [
        "bits_per_character-over-minutes", "bits_per_character-over-updates", "chrf-over-minutes", "chrf-over-updates",
    ]  # fmt: skip
    trained, validated = found["bits_per_character-over-updates"].lines[:2]
    assert (list(validated.get_xdata()), list(validated.get_ydata())) == ([60, 120], [2.0, 2.5])
    assert (list(trained.get_xdata()), list(trained.get_ydata())) == ([50, 100], [3.0, 1.5])
    (chrf,) = found["chrf-over-minutes"].lines
    assert (list(chrf.get_xdata()), list(chrf.get_ydata())) == ([0.6, 1.3], [20.0, 31.0])
    without = [{key: value for key, value in line.items() if key != "valid_chrf"} for line in LOG]
    assert len(learning_curves({"run": without})) == 2
    assert learning_curves({"run": LOG[:1]}) == []


def test_the_table_of_runs_has_the_validations_of_kept_models() -> None:
    table = runs_table({"one": LOG, "none": []}, {"one": {"Width": 128}})
    assert table.columns == ("Run", "Width", "Updates", "Minutes", "Bits/char ↓", "chrF")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["one", "128", "120", "1.3", "2.000", "20.0"],
        ["none", "–", "–", "–", "–", "–"],
    ]
