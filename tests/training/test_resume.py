"""A run that is killed and resumed makes the same updates, bit for bit, as one that never stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ssmt.tensors import load
from ssmt.text.preparation import TrainingFiles
from tests.test_system import ssmt, training_options

# 60 pairs make about five batches an epoch: checkpoints every 3 updates fall into the middle of epochs.
RUN = [
    "--set",
    "training.checkpoint_every=3",
    "--set",
    "training.validate_every=40",
    "--set",
    "training.chrf_sentences=0",
    "--set",
    "training.cooldown=0",  # whose place moves with a limit
]


def last_checkpoint(directory: Path) -> Path:
    return sorted((directory / "checkpoints").glob("update-*.safetensors"))[-1]


def assert_same_weights(one: Path, other: Path) -> None:
    a, b = load_file(last_checkpoint(one)), load_file(last_checkpoint(other))
    assert last_checkpoint(one).name == last_checkpoint(other).name
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles) -> Path:
    directory = tmp_path_factory.mktemp("resume") / "whole"
    ssmt("train", "--output", directory, *training_options(toy_files), *RUN, "--max-updates", 36)
    return directory


def test_killed_and_resumed_run_is_the_same(tmp_path: Path, toy_files: TrainingFiles, uninterrupted: Path) -> None:
    directory = tmp_path / "killed"
    options = ["train", "--output", directory, *training_options(toy_files), *RUN, "--max-updates", 36]
    command = [sys.executable, "-c", "from ssmt.cli import main; main()", *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((directory / "checkpoints").glob("update-*")):
        assert process.poll() is None, "it must be killed before it ends"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert int(last_checkpoint(directory).stem.split("-")[1]) < 36
    ssmt("train", "--output", directory, "--resume", "--threads", 1)
    assert_same_weights(directory, uninterrupted)
    weights, expected = (load_file(path / "model.safetensors") for path in (directory, uninterrupted))
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    logged = [line for line in (directory / "log.jsonl").read_text().splitlines() if "valid_bits" in line]
    assert len(logged) == 1, "no line of the log is written twice"


def test_resuming_a_finished_run_changes_nothing(uninterrupted: Path) -> None:
    before = {path: path.read_bytes() for path in uninterrupted.rglob("*") if path.is_file()}
    done = ssmt("train", "--output", uninterrupted, "--resume", "--threads", 1)
    assert "Nothing to do: 36 updates are made" in done.stderr
    assert {path: path.read_bytes() for path in uninterrupted.rglob("*") if path.is_file()} == before


def test_a_raised_limit_goes_on(tmp_path: Path, toy_files: TrainingFiles, uninterrupted: Path) -> None:
    directory = tmp_path / "half"
    ssmt("train", "--output", directory, *training_options(toy_files), *RUN, "--max-updates", 17)
    ssmt("train", "--output", directory, "--resume", "--threads", 1, "--max-updates", 36)
    weights, expected = load_file(last_checkpoint(directory)), load_file(last_checkpoint(uninterrupted))
    assert all(torch.equal(weights[name], expected[name]) for name in expected if name.startswith("model."))


def test_a_damaged_checkpoint_is_recognised(tmp_path: Path, uninterrupted: Path) -> None:
    directory = tmp_path / "damaged"
    shutil.copytree(uninterrupted, directory)
    newest = last_checkpoint(directory)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0x40
    newest.write_bytes(content)
    done = ssmt("train", "--output", directory, "--resume", "--threads", 1)
    assert "damaged checkpoint" in done.stderr
    assert "Going on from update 33" in done.stderr
    assert_same_weights(directory, uninterrupted)


def test_settings_of_a_run_cannot_change(uninterrupted: Path) -> None:
    done = ssmt("train", "--output", uninterrupted, "--resume", "--set", "network.width=64", status=2)
    assert "network.width was 32, now 64" in done.stderr


def test_an_existing_run_is_not_overwritten(uninterrupted: Path, toy_files: TrainingFiles) -> None:
    done = ssmt("train", "--output", uninterrupted, *training_options(toy_files), status=2)
    assert "already holds a run" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_signals_save_and_say_how_to_go_on(
    tmp_path: Path, toy_files: TrainingFiles, number: signal.Signals, status: int
) -> None:
    directory = tmp_path / "stopped"
    options = ["train", "--output", directory, *training_options(toy_files), *RUN, "--max-updates", 100_000]
    # Whoever runs the tests may ignore the signal (`nohup` does), and their children would too.
    heeding = f"import signal; signal.signal({int(number)}, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heeding}; from ssmt.cli import main; main()", *map(str, options)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not list((directory / "checkpoints").glob("update-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == status
    assert f"Stopped by {number.name}; everything is saved" in messages
    assert "--resume" in messages
    state = load(last_checkpoint(directory)).state
    assert state["update"] == int(last_checkpoint(directory).stem.split("-")[1]) > 0
