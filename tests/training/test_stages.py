"""Runs of the other models are killed and resumed too: with subwords drawn anew in each epoch, and across stages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ssmt.config import compose
from ssmt.errors import UserError
from ssmt.progress import Reporter
from ssmt.text.corpus import Corpus
from ssmt.text.preparation import TrainingFiles
from ssmt.text.vocabulary import SubwordVocabulary
from ssmt.training import run, segmented
from tests.test_kinds import SIZES
from tests.test_system import ssmt
from tests.training.test_resume import assert_same_weights, last_checkpoint

UPDATES = 24
RUN = [
    *SIZES,
    "training.checkpoint_every=3",
    "training.validate_every=100",
    "training.chrf_sentences=0",
    f"training.max_updates={UPDATES}",
    f"segmenter.max_updates={UPDATES}",
]
BPE = [*RUN, "model=bpe", "text.subword_sampling=0.3"]
DPE = [*RUN, "model=dpe"]


def whole_run(directory: Path, files: TrainingFiles, settings: list[str]) -> Path:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run.begin(files, directory, compose("tiny", settings=settings), Reporter())
    run.train(directory, torch.device("cpu"), Reporter())
    torch.set_num_threads(threads)
    return directory


def killed_at(checkpoints: Path, *options: object) -> None:
    """Start a run, or go on with one, and kill it when the first checkpoint is there."""
    command = [sys.executable, "-c", "from ssmt.cli import main; main()", "train", "--threads", "1", *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(checkpoints.glob("update-*")):
        assert process.poll() is None, "it must be killed before it ends"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert int(last_checkpoint(checkpoints.parent).stem.split("-")[1]) < UPDATES


def options(files: TrainingFiles, settings: list[str]) -> list[object]:
    texts = {"source": files.source, "target": files.target}
    texts |= {"valid-source": files.valid_source, "valid-target": files.valid_target}
    named = [part for name, path in texts.items() for part in (f"--{name}", path)]
    return ["--preset", "tiny", *named, *(part for setting in settings for part in ("--set", setting))]


def test_a_killed_run_with_sampled_subwords_is_the_same(tmp_path: Path, toy_files: TrainingFiles) -> None:
    expected = whole_run(tmp_path / "whole", toy_files, BPE)
    killed = tmp_path / "killed"
    killed_at(killed / "checkpoints", "--output", killed, *options(toy_files, BPE))
    ssmt("train", "--output", killed, "--resume", "--threads", 1)
    assert_same_weights(killed, expected)


def test_subwords_are_drawn_anew_in_each_epoch(tmp_path: Path, toy_files: TrainingFiles) -> None:
    run.begin(toy_files, tmp_path / "run", compose("tiny", settings=BPE), Reporter())
    vocabulary, config = run.load_description(tmp_path / "run")
    data = tmp_path / "run" / "data" / "train"
    corpus = Corpus(data, vocabulary.batch_symbols, run._resample(vocabulary, config))
    first, again, second = (corpus.batch(range(8), epoch) for epoch in (0, 0, 1))
    assert torch.equal(first.target, again.target)
    assert torch.equal(first.source, again.source)
    assert first.target.shape != second.target.shape or not torch.equal(first.target, second.target)
    plain = Corpus(data, vocabulary.batch_symbols).batch(range(8))
    for batch in (first, second):
        assert batch.characters == plain.characters
        for row, own in zip(batch.target.tolist(), plain.target.tolist(), strict=True):
            assert vocabulary.decode(row) == vocabulary.decode(own)


def test_of_a_model_over_characters_the_source_alone_is_drawn(tmp_path: Path, toy_files: TrainingFiles) -> None:
    settings = [*RUN, "model=ssmt", "text.subword_sampling=0.3"]
    run.begin(toy_files, tmp_path / "run", compose("tiny", settings=settings), Reporter())
    vocabulary, config = run.load_description(tmp_path / "run")
    data = tmp_path / "run" / "data" / "train"
    drawn, plain = (
        Corpus(data, vocabulary.batch_symbols, resample) for resample in (run._resample(vocabulary, config), None)
    )
    sources = {str(drawn.batch(range(8), epoch).source) for epoch in range(3)}
    assert len(sources | {str(plain.batch(range(8)).source)}) == 4
    assert torch.equal(drawn.batch(range(8), 1).target, plain.batch(range(8)).target)


@pytest.fixture(scope="module")
def dpe(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles) -> Path:
    return whole_run(tmp_path_factory.mktemp("whole") / "dpe", toy_files, DPE)


def test_killed_in_its_first_and_in_its_third_stage(tmp_path: Path, toy_files: TrainingFiles, dpe: Path) -> None:
    killed = tmp_path / "killed"
    killed_at(killed / "segmenter" / "checkpoints", "--output", killed, *options(toy_files, DPE))
    assert not (killed / "segmented").exists()
    killed_at(killed / "checkpoints", "--output", killed, "--resume")
    done = ssmt("train", "--output", killed, "--resume", "--threads", 1)
    assert "Stage" not in done.stderr, "stages that are complete are not entered again"
    assert_same_weights(killed / "segmenter", dpe / "segmenter")
    assert_same_weights(killed, dpe)
    assert (killed / "segmented" / "train.txt").read_text() == (dpe / "segmented" / "train.txt").read_text()


def test_killed_in_its_second_stage(tmp_path: Path, dpe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = tmp_path / "killed"
    shutil.copytree(dpe, killed)
    for name in ("data", "checkpoints"):
        shutil.rmtree(killed / name)
    for name in ("model.safetensors", "target.txt", "source.model", "log.jsonl"):
        (killed / name).unlink()
    monkeypatch.setattr(segmented, "BLOCK", 8)
    text = (dpe / "segmented" / "train.txt").read_bytes()
    lines = text.split(b"\n")
    (killed / "segmented" / "train.txt").unlink()
    begun = [b"kept as it is", *lines[1:21]]  # two blocks and a half
    (killed / "segmented" / "train.unfinished").write_bytes(b"\n".join(begun)[:-3])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    segmented.segment_corpora(killed, torch.device("cpu"), Reporter())
    written = (killed / "segmented" / "train.txt").read_bytes().split(b"\n")
    assert written == [b"kept as it is", *lines[1:]], "whole blocks are not cut again, the rest is"

    shutil.rmtree(killed / "data")
    shutil.copy(dpe / "segmented" / "train.txt", killed / "segmented" / "train.txt")
    run.train(killed, torch.device("cpu"), Reporter())
    torch.set_num_threads(threads)
    assert_same_weights(killed, dpe)


@pytest.mark.parametrize("name", ["train.txt", "train.unfinished"])
def test_no_link_in_its_second_stage_is_followed(tmp_path: Path, dpe: Path, name: str) -> None:
    run_directory, outside = Path(shutil.copytree(dpe, tmp_path / "run")), tmp_path / "outside"
    shutil.rmtree(run_directory / "data")
    (run_directory / "segmented" / "train.txt").unlink()
    outside.write_bytes(b"what is mine\n")
    (run_directory / "segmented" / name).symlink_to(outside)
    with pytest.raises(UserError, match=rf"{name}: is a link"):
        segmented.segment_corpora(run_directory, torch.device("cpu"), Reporter())
    assert outside.read_bytes() == b"what is mine\n"


def test_limits_can_be_raised_for_each_stage(tmp_path: Path, toy_files: TrainingFiles, dpe: Path) -> None:
    half = tmp_path / "half"
    whole_run(half, toy_files, [*DPE, "training.max_updates=7"])
    run.adopt(half, lambda old: compose("tiny", settings=[*DPE, "segmenter.max_updates=100"]))
    run.train(half, torch.device("cpu"), Reporter())
    assert last_checkpoint(half).name == last_checkpoint(dpe).name
    assert last_checkpoint(half / "segmenter").name == last_checkpoint(dpe / "segmenter").name, "it is over"
    with pytest.raises(UserError, match="model was dpe, now bpe"):
        run.adopt(half, lambda old: compose("tiny", settings=BPE))


def test_interrupted_in_its_second_stage_it_keeps_its_segmenter(
    tmp_path: Path, toy_files: TrainingFiles, dpe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, cut = tmp_path / "run", segmented._segmented_lines
    monkeypatch.setattr(segmented, "BLOCK", 8)
    calls = 0

    def interrupted(*arguments: Any) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return cut(*arguments)

    monkeypatch.setattr(segmented, "_segmented_lines", interrupted)
    run.begin(toy_files, directory, compose("tiny", settings=DPE), Reporter())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert run.train(directory, torch.device("cpu"), Reporter()) == "SIGINT"
    assert segmented.is_begun(directory)
    assert not segmented.is_complete(directory)
    run.adopt(directory, lambda old: compose("tiny", settings=[*DPE, "segmenter.max_updates=100"]))
    assert run.train(directory, torch.device("cpu"), Reporter()) is None
    torch.set_num_threads(threads)
    assert last_checkpoint(directory / "segmenter").name == last_checkpoint(dpe / "segmenter").name, "it is over"
    assert (directory / "segmented" / "train.txt").read_text() == (dpe / "segmented" / "train.txt").read_text()
    assert_same_weights(directory, dpe)


def test_what_an_interrupted_preparation_left_is_not_taken_for_ones_own(
    tmp_path: Path, toy_files: TrainingFiles
) -> None:
    def interrupted(directory: Path, *settings: str) -> Path:
        run.begin(toy_files, directory, compose("tiny", settings=[*RUN, *settings]), Reporter())
        (directory / "config.json").unlink()
        return directory

    directory = interrupted(tmp_path / "other", "model=ssmt")
    for name in ("source.model", "alphabet.json", "lexicon.txt"):
        (directory / name).unlink()
    run.begin(toy_files, directory, compose("tiny", settings=DPE), Reporter())
    assert not segmented.is_complete(directory)

    directory = interrupted(tmp_path / "separate", "model=bpe", "text.shared_vocabulary=false")
    assert (directory / "target.model").exists()
    settings = [*RUN, "model=bpe", "text.shared_vocabulary=true"]
    run.begin(toy_files, directory, compose("tiny", settings=settings), Reporter())
    vocabulary, _ = run.load_description(directory)
    assert isinstance(vocabulary, SubwordVocabulary)
    assert vocabulary.shared
