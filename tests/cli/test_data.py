"""Training on data of all shapes, from the command line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ssmt.text.corpus import Corpus
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused
from tests.conftest import Pair

TINY = ["--preset", "tiny", "--max-updates", 1, "--set", "network.width=8", "--set", "network.feedforward=8"]
TINY += ["--set", "text.source_vocabulary=60", "--set", "training.chrf_sentences=0"]


def pairs_of(run: Path) -> int:
    return len(Corpus(run / "data" / "train"))


@pytest.fixture
def valid(toy_files: TrainingFiles) -> list[object]:
    return ["--valid-source", toy_files.valid_source, "--valid-target", toy_files.valid_target]


def test_several_files_a_side_and_a_file_of_both(
    ssmt: Ssmt, toy_files: TrainingFiles, toy_pairs: list[Pair], tmp_path: Path, valid: list[object]
) -> None:
    for side in ("source", "target"):
        (tmp_path / f"{side}.gz").write_bytes(gzip.compress(getattr(toy_files, side).read_bytes()))
    (tmp_path / "more.jsonl").write_text(
        "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in toy_pairs[:7])
    )
    sides = ["--source", toy_files.source, "--source", tmp_path / "source.gz"]
    sides += ["--target", toy_files.target, "--target", tmp_path / "target.gz"]
    run = tmp_path / "run"
    outcome = ssmt("train", "--output", run, *sides, "--pairs", tmp_path / "more.jsonl", *valid, *TINY)
    assert outcome.status == 0, outcome.err
    assert pairs_of(run) == 60 + 60 + 7
    recorded = json.loads((run / "config.json").read_text())["data"]
    assert recorded["train"][0]["source"] == [str(toy_files.source), str(tmp_path / "source.gz")]
    assert recorded["train"][1]["pairs"] == [str(tmp_path / "more.jsonl")]
    refused(
        ssmt("train", "--output", tmp_path / "b", *sides[:-2], *valid, *TINY), "--source 2 times and --target 1 time"
    )


def test_corpora_of_a_configuration(ssmt: Ssmt, toy_files: TrainingFiles, tmp_path: Path) -> None:
    corpus = {"source": str(toy_files.source), "target": str(toy_files.target)}
    again = {**corpus, "weight": 2, "origin": "again", "tagged": True}
    valid = {"source": [str(toy_files.valid_source)], "target": [str(toy_files.valid_target)]}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"data": {"train": [corpus, again], "valid": [valid]}}))
    run = tmp_path / "run"
    assert ssmt("train", "--output", run, "--config", tmp_path / "c.yaml", *TINY).status == 0
    corpora = Corpus(run / "data" / "train")
    assert [(group.weight, group.origin, group.tagged) for group in corpora.groups] == [
        (1.0, None, False),
        (2.0, "again", True),
    ]
    assert ssmt("train", "--output", run, "--resume", "--max-updates", 2).status == 0
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({"data": {"train": [{**corpus, "wieght": 2}]}}))
    refused(ssmt("train", "--output", tmp_path / "x", "--config", tmp_path / "d.yaml"), "d.yaml: .*data.train.0.wieght")


def test_standard_input_is_read_as_often_as_it_must_be(
    toy_pairs: list[Pair], tmp_path: Path, valid: list[object]
) -> None:
    content = gzip.compress("".join(f"{source}\t{target}\n" for source, target in toy_pairs).encode())
    command = [sys.executable, "-m", "ssmt", "train", "--pairs", "-", "--output", tmp_path / "run", *valid, *TINY]
    done = subprocess.run(
        [str(part) for part in command], input=content, capture_output=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr.decode()
    assert pairs_of(tmp_path / "run") == len(toy_pairs)


def test_a_line_that_the_model_cannot_take_is_said_before_anything_is_translated(
    ssmt: Ssmt, model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text("we see.\n" * 3 + "a" * 100_000 + "\n")
    monkeypatch.setattr(Translator, "n_best_translations", lambda *_, **__: pytest.fail("it translates"))
    outcome = ssmt("translate", model_directory, "-i", tmp_path / "in", "-o", tmp_path / "out")
    refused(outcome, "in, line 4: has a sentence of 100,000 characters")


def test_two_ways_to_write_pairs_are_one_too_many(ssmt: Ssmt, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    outputs = ["--output", tmp_path / "o.tsv", "--output-source", tmp_path / "o.s"]
    refused(ssmt("clean", "--pairs", tmp_path / "a.tsv", *outputs), "Give --output, or --output-source and")


def test_a_model_can_be_in_a_place_of_any_letters(ssmt: Ssmt, toy_files: TrainingFiles, tmp_path: Path) -> None:
    """Also of those that JSON writes in two parts."""
    files = ["--source", toy_files.source, "--target", toy_files.target]
    files += ["--valid-source", toy_files.valid_source, "--valid-target", toy_files.valid_target]
    run = tmp_path / "\U0001e900\U0001f600"
    assert ssmt("train", "--output", run, *files, *TINY).status == 0
    outcome = ssmt("train", "--from", run, "--output", tmp_path / "new", *files, "--max-updates", 1)
    assert outcome.status == 0, outcome.err
