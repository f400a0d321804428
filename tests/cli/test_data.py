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
