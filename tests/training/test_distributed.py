"""Several processes: the training of one, whatever their number; and none of them waits for ever."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from ssmt import tensors
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.translation import Loss
from ssmt.text.batch import Batch
from ssmt.text.preparation import TrainingFiles
from ssmt.training.distributed import deal_out, together
from ssmt.training.log import read_log
from ssmt.training.loop import Trainer
from tests.training.processes import start, train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
# What the order of sums of float32 may change in 30 updates, relative to a loss.
TOLERANCE = 2e-5


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 6))
def test_every_sentence_of_an_update_goes_to_one_process(sizes: list[int], processes: int) -> None:
    ends = np.cumsum(sizes)
    batches = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    parts = deal_out(batches, processes)
    assert sorted(np.concatenate(parts).tolist()) == list(range(sum(sizes)))
    of_processes = [len(parts[rank::processes]) for rank in range(processes)]
    assert min(of_processes) >= 1, "where there are sentences enough, everybody has work"
    assert max(of_processes) - min(of_processes) <= 1
    if len(batches) >= processes:
        assert [part.tolist() for part in parts] == [batch.tolist() for batch in batches], "whole batches"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two': is set in the environment by torchrun, to a number"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE=''"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE='-1'"),
        ({"WORLD_SIZE": "2"}, "RANK=''"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK=2, WORLD_SIZE=2: of so many processes none has this rank"),
        ({"WORLD_SIZE": "0", "RANK": "0"}, "RANK=0, WORLD_SIZE=0"),
        ({"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "x"}, "LOCAL_RANK='x'"),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "finds nobody at None:None"),
    ],
)
def test_variables_that_torchrun_has_not_set_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=re.escape(message)), together("cpu"):
        pass


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(sorted((directory / "checkpoints").glob("update-*"))[-1])


def losses(directory: Path) -> list[float]:
    return [line["loss"] for line in read_log(directory) if "loss" in line]


def assert_same_training(directory: Path, expected: Path, updates: int) -> None:
    assert len(losses(directory)) == updates
    assert losses(directory) == pytest.approx(losses(expected), rel=TOLERANCE)
    ours, theirs = weights(directory), weights(expected)
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        if name.startswith("model."):
            torch.testing.assert_close(ours[name], weight, atol=2e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        ["model=ssmt", "network.decoder_layers=2", "training.average_last=2"],  # one over words, one over characters
        ["model=bpe", "text.subword_sampling=0.2", "training.accumulate=3"],
        ["model=dpe", "training.accumulate=2"],
    ],
    ids=lambda settings: str(settings[0]),
)
def test_two_processes_train_like_one(tmp_path: Path, toy_files: TrainingFiles, settings: list[str]) -> None:
    settings = [*settings, "training.max_updates=30", "training.validate_every=9"]  # and once more at the end
    for count in (1, 2):
        together = start(count, train(toy_files, f"of-{count}", *settings), tmp_path, f"of-{count}")
        assert together.wait() == [0] * count, together.messages()
        assert together.messages().count("30 updates are made") == (2 if "model=dpe" in settings else 1)
    assert_same_training(tmp_path / "of-2", tmp_path / "of-1", 30)
    validations = [[line for line in read_log(tmp_path / name) if "improved" in line] for name in ("of-1", "of-2")]
    assert [line["update"] for line in validations[1]] == [line["update"] for line in validations[0]]
    for ours, theirs in zip(*validations, strict=True):
        for key in theirs.keys() - {"minutes", "cpu_minutes"}:
            assert ours[key] == pytest.approx(theirs[key], rel=1e-4)


def recording(place: Path) -> Callable[[int], None]:
    """Each process writes the lines of its batches to a file of its own."""

    def record(rank: int) -> None:
        plain = Trainer._update

        def update(self: Trainer, batches: Sequence[Batch], characters: int, rate: float) -> None:
            with open(place / f"lines-{self.state.epoch}", "a", encoding="ascii") as stream:
                stream.write("".join(f"{line}\n" for batch in batches for line in batch.lines))
            plain(self, batches, characters, rate)

        Trainer._update = update  # type: ignore[method-assign]

    return record


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path, toy_files: TrainingFiles) -> None:
    settings = ["training.validate_every=100", "training.chrf_sentences=0", "training.cooldown=0"]
    alone = start(1, [*train(toy_files, "alone", *settings), "--max-updates", "30"], tmp_path, "alone")
    assert alone.wait() == [0]
    arguments = train(toy_files, "run", *settings)
    for count, limit in ((2, 11), (1, 17), (3, 30)):
        together = start(count, [*arguments, "--max-updates", str(limit)], tmp_path, f"to-{limit}", recording(tmp_path))
        assert together.wait() == [0] * count, together.messages()
        arguments = ["train", "--output", "run", "--resume", "--device", "cpu", "--threads", "1"]
    assert_same_training(tmp_path / "run", tmp_path / "alone", 30)
    epochs = sorted(tmp_path.glob("lines-*"), key=lambda path: int(path.name.split("-")[1]))
    assert len(epochs) > 2
    for path in epochs[:-1]:
        lines = Counter(map(int, path.read_text().split()))
        assert lines == Counter(range(1, 61)), f"{path.name}: no sentence twice or left out"


def test_random_numbers_are_those_of_the_update_whatever_came_before(tmp_path: Path, toy_files: TrainingFiles) -> None:
    """With dropout: two processes, stopped and resumed, end with the same bits."""
    settings = ["network.dropout=0.3", "training.max_updates=8", "training.chrf_sentences=0", "training.cooldown=0"]
    arguments = train(toy_files, "whole", *settings)
    assert start(2, arguments, tmp_path, "whole").wait() == [0, 0]
    arguments = ["parted" if word == "whole" else word for word in arguments]
    assert start(2, [*arguments, "--max-updates", "3"], tmp_path, "parted").wait() == [0, 0]
    resume = ["train", "--output", "parted", "--resume", "--max-updates", "8", "--device", "cpu", "--threads", "1"]
    assert start(2, resume, tmp_path, "rest").wait() == [0, 0]
    ours, theirs = weights(tmp_path / "parted"), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs if name.startswith("model."))


def test_an_update_of_one_sentence_leaves_a_process_without_work(tmp_path: Path, toy_files: TrainingFiles) -> None:
    settings = ["training.batch_characters=1", "training.max_updates=4", "training.chrf_sentences=0"]
    for count in (1, 3):
        together = start(count, train(toy_files, f"of-{count}", *settings), tmp_path, f"of-{count}")
        assert together.wait() == [0] * count, together.messages()
    assert_same_training(tmp_path / "of-3", tmp_path / "of-1", 4)


def test_a_shared_validation_measures_the_same(tmp_path: Path, toy_files: TrainingFiles) -> None:
    def power_cut(rank: int) -> None:
        Trainer._validate = lambda self: os._exit(9)  # type: ignore[method-assign]

    settings = ["training.max_updates=12", "training.validate_every=50", "training.chrf_sentences=12"]
    arguments = train(toy_files, "begun", *settings, "training.checkpoint_every=12", "training.learning_rate=0.01")
    assert start(1, arguments, tmp_path, "begun", power_cut).wait() == [9]
    measured = []
    for count in (1, 3):
        shutil.copytree(tmp_path / "begun", tmp_path / f"of-{count}")
        resume = ["train", "--output", f"of-{count}", "--resume", "--device", "cpu", "--threads", "1"]
        assert start(count, resume, tmp_path, f"of-{count}").wait() == [0] * count
        (line,) = [line for line in read_log(tmp_path / f"of-{count}") if "valid_chrf" in line]
        measured.append((line["valid_bits_per_character"], line["valid_chrf"]))
    assert measured[1] == measured[0], "to the last bit"


# Ends


def killing(victim: int, update: int, seconds: float) -> Callable[[int], None]:
    """The process of that rank is killed, at any place in the code, some time after it has begun an update."""

    def set_up(rank: int) -> None:
        plain = Trainer._update

        def begin_update(self: Trainer, *arguments: Any) -> None:
            if rank == victim and self.state.update == update:
                threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
            plain(self, *arguments)

        Trainer._update = begin_update  # type: ignore[method-assign]

    return set_up


def test_one_of_two_is_killed_ten_times(tmp_path: Path, toy_files: TrainingFiles) -> None:
    settings = ["training.max_updates=24", "training.checkpoint_every=1", "network.dropout=0.1"]
    settings += ["training.chrf_sentences=0", "training.validate_every=7"]
    assert start(2, train(toy_files, "whole", *settings), tmp_path, "whole").wait() == [0, 0]
    arguments = [*train(toy_files, "killed", *settings), "--resume"]
    rng, kills = random.Random(1), 0
    for update in range(0, 20, 2):
        victim = rng.randrange(2)
        together = start(2, arguments, tmp_path, f"killed-{update}", killing(victim, update, 0.1 * rng.random()))
        statuses = together.wait()
        assert statuses == [0, 0] or (statuses[victim], statuses[1 - victim]) == (-signal.SIGKILL, 2)
        assert "Traceback" not in together.messages()
        kills += statuses != [0, 0]
    assert kills >= 5, "later ones may find the run at its end"
    assert start(2, arguments, tmp_path, "last").wait() == [0, 0]
    assert sorted(path.name for path in (tmp_path / "killed").rglob(".*")) == []
    for name in ("model.safetensors", "checkpoints/update-00000024.safetensors"):
        ours, theirs = load_file(tmp_path / "killed" / name), load_file(tmp_path / "whole" / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_stops_and_saves_all(
    tmp_path: Path, toy_files: TrainingFiles, number: signal.Signals, rank: int
) -> None:
    heed = lambda rank: signal.signal(number, signal.default_int_handler)  # noqa: E731 (pytest may run under nohup)
    together = start(2, train(toy_files, "run", "training.checkpoint_every=3"), tmp_path, "run", heed)
    together = stopped_at_checkpoint(together, tmp_path / "run", rank, number)
    assert together.wait() == [128 + number] * 2, together.messages()
    assert together.messages().count(f"Stopped by {number.name}; everything is saved") == 1
    saved = tensors.load(sorted((tmp_path / "run" / "checkpoints").glob("update-*"))[-1]).state
    assert saved["update"] > 0


def stopped_at_checkpoint(together: Any, directory: Path, rank: int, number: signal.Signals) -> Any:
    while together.look() and not list((directory / "checkpoints").glob("update-*")):
        time.sleep(0.005)
    together.kill(rank, number)
    return together


def spoil_a_loss(rank: int) -> None:
    plain, seen = SSMT.forward, list[Batch]()

    def forward(self: SSMT, batch: Batch) -> Loss:
        seen.append(batch)
        return Loss(*(nats * (float("nan") if rank == 1 and len(seen) == 3 else 1.0) for nats in plain(self, batch)))

    SSMT.forward = forward  # type: ignore[method-assign]


def fill_the_disk(rank: int) -> None:
    def full(path: Path) -> Any:
        raise UserError(f"{path}: cannot be written (No space left on device)")

    tensors.replacing = full  # type: ignore[assignment]


def damage_the_text(rank: int) -> None:
    from ssmt.text import preparation

    def prepare(*arguments: Any) -> Any:
        raise UserError("train.source, line 5: not UTF-8")

    from ssmt.training import run

    assert run.prepare is preparation.prepare
    run.prepare = prepare  # type: ignore[attr-defined]


def fail_alone(rank: int) -> None:
    plain = Trainer._update

    def update(self: Trainer, *arguments: Any) -> None:
        if rank == 1 and self.state.update == 2:
            raise UserError("damaged data")
        plain(self, *arguments)

    Trainer._update = update  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("meanwhile", "message"),
    [
        (spoil_a_loss, "The loss of update 3 is not finite. Its batch has the training lines"),
        (fill_the_disk, "No space left on device"),
        (damage_the_text, "line 5: not UTF-8"),
        (fail_alone, "damaged data"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_error_ends_all_with_one_message(
    tmp_path: Path, toy_files: TrainingFiles, meanwhile: Callable[[int], None], message: str
) -> None:
    together = start(3, train(toy_files, "run", "training.checkpoint_every=4"), tmp_path, "run", meanwhile)
    assert together.wait() == [2, 2, 2], together.messages()
    assert together.messages().count("error:") == 1, together.messages()
    assert message in together.messages()
    assert "Traceback" not in together.messages()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-option"], "No such option"),
        (["--output", "elsewhere"], "--output is given 2 times"),
    ],
)
def test_a_wrong_option_is_answered_once(
    tmp_path: Path, toy_files: TrainingFiles, arguments: list[str], message: str
) -> None:
    together = start(3, [*train(toy_files, "run"), *arguments], tmp_path, "run")
    assert together.wait() == [2, 2, 2], together.messages()
    assert together.messages().count(message) == 1, together.messages()


def test_a_defect_of_one_is_shown_once(tmp_path: Path, toy_files: TrainingFiles) -> None:
    def break_down(rank: int) -> None:
        plain = Trainer._report

        def report(self: Trainer, *arguments: Any) -> None:
            assert rank == 0 or self.state.update < 3, "broken"
            plain(self, *arguments)

        Trainer._report = report  # type: ignore[method-assign]

    together = start(2, train(toy_files, "run"), tmp_path, "run", break_down)
    assert together.wait() == [1, 1]
    assert together.messages().count("AssertionError: broken") == 1
    assert together.messages().count("Traceback") == 1


@pytest.mark.parametrize(
    "limit", ["training.max_minutes=0.02", "training.patience=1 training.validate_every=1 training.learning_rate=1e-9"]
)
def test_limits_of_time_and_patience_end_all(tmp_path: Path, toy_files: TrainingFiles, limit: str) -> None:
    together = start(2, train(toy_files, "run", *limit.split()), tmp_path, "run")
    assert together.wait() == [0, 0], together.messages()
    assert together.messages().count("Done: ") == 1


def test_devices_that_several_processes_cannot_have_are_refused(tmp_path: Path, toy_files: TrainingFiles) -> None:
    arguments = ["cuda:1" if word == "cpu" else word for word in train(toy_files, "run")]
    together = start(2, arguments, tmp_path, "run")
    assert together.wait() == [2, 2]
    assert "each takes a GPU of its own; ask for cuda" in together.messages()


def test_torchrun_restarts_what_was_killed(tmp_path: Path, toy_files: TrainingFiles) -> None:
    """The real thing: the second of two processes kills itself after a while, and torchrun starts both again with the
    arguments of the first time."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "from ssmt.training.loop import Trainer\n"
        "plain = Trainer._ends_after_update\n"
        "def ends(self, *arguments):\n"
        "    if (os.environ['RANK'], os.environ['TORCHELASTIC_RESTART_COUNT'], self.state.update) == ('1', '0', 5):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return plain(self, *arguments)\n"
        "Trainer._ends_after_update = ends\n"
        "from ssmt.cli import main\n"
        "main()\n",
        encoding="utf-8",
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    arguments = train(toy_files, str(tmp_path / "run"), "training.checkpoint_every=2", "training.max_updates=8")
    done = subprocess.run([*torchrun, program, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Going on from update 4" in done.stderr
    assert "8 updates are made" in done.stderr
    assert "find_unused_parameters" not in done.stderr
