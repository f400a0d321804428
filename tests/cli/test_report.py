"""`ssmt report` as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused
from tests.cli.test_evaluate import write

LOG = [
    {"update": 50, "minutes": 0.5, "bits_per_character": 3.0},
    {"update": 60, "minutes": 0.6, "valid_bits_per_character": 2.0, "valid_chrf": 20.0},
]


@pytest.fixture
def run(model_directory: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    shutil.copytree(model_directory, directory)
    write(directory / "log.jsonl", [json.dumps(line) for line in LOG])
    return directory


def sections(page: Path) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page.read_text(encoding="utf-8"))


def test_a_run_alone_is_shown_with_its_validation_text(ssmt: Ssmt, run: Path, toy_files: TrainingFiles) -> None:
    page = run.parent / "report.html"
    outcome = ssmt("report", run, "-o", page, "--samples", 0, "--beam", 1, "--sentences", 5, "--examples", 2)
    assert outcome.status == 0, outcome.err
    assert sections(page) == ["Training", "Translation", "Segmentation"]
    text = page.read_text(encoding="utf-8")
    assert "first 5 sentences of the validation text" in text
    assert toy_files.valid_target.read_text().splitlines()[1] in text
    assert text.count("<svg") == 4
    assert {path.suffix for path in (run.parent / "report_plots").iterdir()} == {".svg", ".png"}
    assert len(list((run.parent / "report_plots").iterdir())) == 8


def test_everything_at_once(ssmt: Ssmt, run: Path, toy_files: TrainingFiles) -> None:
    folder = run.parent
    sources, targets = (path.read_text().splitlines() for path in (toy_files.valid_source, toy_files.valid_target))
    gold = write(folder / "gold.tsv", [f"{s}\t{t}\t{t[:2]}|{t[2:]}" for s, t in zip(sources, targets, strict=True)])
    other = write(folder / "other.txt", [target[1:] for target in targets])
    test = ["--source", toy_files.valid_source, "--reference", toy_files.valid_target]
    made = ssmt(
        "compositional", "--train", toy_files.target, "--test-source", toy_files.valid_source, "--test-target",
        toy_files.valid_target, "--segmenter", run, "--size", 4, "-o", folder / "subsets",
    )  # fmt: skip
    assert made.status == 0, made.err
    page = folder / "all.html"
    more = ["--hypothesis", f"other={other}", "--gold", gold, "--compositional", folder / "subsets"]
    outcome = ssmt("report", run, *test, *more, "-o", page, "--samples", 0, "--beam", 1, "--examples", 3)
    assert outcome.status == 0, outcome.err
    assert sections(page) == ["Training", "Translation", "Segmentation", "Morphemes", "Compositional generalisation"]
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 7
    # The bars are the model's posteriors: those of the first example, which is the third of 12 sentences.
    after = Translator.load(run, "cpu").boundary_posteriors(sources, targets)[2]
    first = re.search(r'<div class="example">(.*?)</div>', text)
    assert first is not None
    word = targets[2].split()[0]
    bars = re.findall(r'style="--c:(\d+);--p:([\d.]+)"', first[1].split('class="token"')[1])
    expected = [(str(k), f"{after[k - 1]:.2f}") for k in range(1, len(word)) if after[k - 1] >= 0.02]
    assert bars == expected


def test_runs_without_weights_or_without_a_log(ssmt: Ssmt, run: Path, model_directory: Path, tmp_path: Path) -> None:
    (run / "model.safetensors").unlink()
    page = tmp_path / "curves.html"
    assert ssmt("report", run, "-o", page).status == 0
    assert sections(page) == ["Training"]
    assert page.read_text().count("<svg") == 4
    outcome = ssmt("report", model_directory, "-o", page, "--sentences", 0, "--examples", 1)
    assert outcome.status == 0, outcome.err
    assert sections(page) == ["Training", "Segmentation"]
    assert "<svg" not in page.read_text()


def test_bad_calls_of_report(ssmt: Ssmt, run: Path, toy_files: TrainingFiles, tmp_path: Path) -> None:
    test = ["--source", toy_files.valid_source, "--reference", toy_files.valid_target]
    refused(ssmt("report", tmp_path / "absent"), "absent: is no training run and no model")
    refused(ssmt("report", run, "-o", tmp_path / "page.pdf"), r"page.pdf: the page's name ends in .html")
    refused(ssmt("report", run, "--source", toy_files.source), "source and a reference belong together")
    refused(ssmt("report", run, "--hypothesis", "a=b"), "need the test set they belong to")
    short = write(tmp_path / "short.txt", ["one"])
    refused(ssmt("report", run, *test, "--hypothesis", f"s={short}"), "12 lines", r"short.txt has 1")
    refused(ssmt("report", run, *test, "--compositional", tmp_path), r"holds no divergence-\*.json")
    (tmp_path / "divergence-0.2.json").write_text("{}")
    refused(ssmt("report", run, *test, "--compositional", tmp_path), "divergence-0.2.json: is not a subset written by")
    bad = write(tmp_path / "gold.tsv", ["a\tb\tc\td"])
    refused(ssmt("report", run, "--gold", bad), "gold.tsv, line 1: 4 columns")


def test_an_example_that_is_too_long_is_named_by_its_line(ssmt: Ssmt, run: Path, tmp_path: Path) -> None:
    sources = write(tmp_path / "sources", ["I see a bird."] * 3 + ["I see a bird. " * 300])
    references = write(tmp_path / "references", ["nibona inyoni."] * 4)
    texts = ["--source", sources, "--reference", references, "--samples", 0, "--beam", 1, "--examples", 4]
    outcome = ssmt("report", run, "-o", tmp_path / "report.html", *texts)
    refused(outcome, r"sources, line 4: has 4,200 characters")


def test_gold_is_measured_without_examples_too(ssmt: Ssmt, run: Path, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.tsv", ["nibona\tni-bon-a", "wubizile\twu-biz-ile"])
    page = tmp_path / "report.html"
    outcome = ssmt("report", run, "-o", page, "--gold", gold, "--examples", 0, "--sentences", 1, "--samples", 0)
    assert outcome.status == 0, outcome.err
    assert "Morphemes" in sections(page)
    assert "Segmentation" not in sections(page)


def test_no_system_is_called_like_the_texts(ssmt: Ssmt, run: Path, toy_files: TrainingFiles) -> None:
    texts = ["--source", toy_files.valid_source, "--reference", toy_files.valid_target]
    outcome = ssmt("report", run, *texts, "--hypothesis", f"source={toy_files.valid_source}")
    refused(outcome, "No run or system can be called 'source'")
