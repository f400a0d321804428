"""Faults of all kinds: a run keeps what is good, writes where it should, and says what is true."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ssmt import tensors
from ssmt.config import Config, changed
from ssmt.errors import UserError
from ssmt.outputs import replacing
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training import loop, run
from ssmt.training.log import RunLog
from ssmt.training.loop import Trainer
from ssmt.training.state import State
from ssmt.translator import Translator
from tests.training.runs import go_on, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles, toy_config: Config) -> Path:
    """Three updates. Shared: copy before changing."""
    directory = tmp_path_factory.mktemp("faults") / "run"
    train(directory, toy_files, toy_config, max_updates=3, validate_every=2)
    return directory


@pytest.fixture
def copy(tmp_path: Path, trained: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


# One process at a time


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_of_two_that_start_together_one_trains_as_if_alone(tmp_path: Path) -> None:
    from tests.fuzz.runner import import_everything
    from tests.fuzz.together import meet, run_alone
    from tests.fuzz.world import write_texts

    import_everything()
    write_texts(tmp_path / "files")
    alone = run_alone(tmp_path, tmp_path)
    rng = random.Random(1)
    for number in range(3):
        assert meet(tmp_path, tmp_path, alone, rng, f"pair-{number}") is None


def test_preparation_is_locked_too(tmp_path: Path, toy_files: TrainingFiles, toy_config: Config) -> None:
    refusals: list[str] = []

    def elsewhere() -> None:
        try:
            run.begin(toy_files, tmp_path / "run", toy_config, Reporter())
        except UserError as error:
            refusals.append(str(error))

    with run.alone(tmp_path / "run"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        run.begin(toy_files, tmp_path / "run", toy_config, Reporter())  # whoever has the lock can go on
    assert ["another process is at work there" in refusal for refusal in refusals] == [True]


def test_a_directory_that_was_only_looked_at_is_not_left(tmp_path: Path) -> None:
    with run.alone(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()


def test_what_killed_processes_left_is_cleared(copy: Path) -> None:
    (copy / ".model.safetensors.4711.0123abcd.tmp").write_bytes(b"half")
    (copy / "checkpoints" / ".tmpZFOpJ4").write_bytes(b"half")  # as safetensors calls them
    (copy / "data" / ".train.4711.0123abcd.tmp").mkdir()
    (copy / "data" / ".train.4711.0123abcd.tmp" / "source.ids").write_bytes(b"half")
    go_on(copy, max_updates=4)
    assert list(copy.rglob(".*")) == []


# Divergence


@pytest.mark.parametrize("rate", [1e30, 1e10])
def test_an_update_that_spoils_the_weights_ends_the_run(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, rate: float
) -> None:
    settings: dict[str, Any] = {"learning_rate": rate, "warmup_updates": 1, "max_updates": 1, "chrf_sentences": 3}
    with pytest.raises(UserError, match="The run has diverged: after update 1"):
        train(tmp_path / "run", toy_files, toy_config, **settings)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert list((tmp_path / "run" / "checkpoints").glob("update-*")) == []


def test_a_divergence_keeps_the_last_good_model(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = loop.learning_rate
    monkeypatch.setattr(
        loop, "learning_rate", lambda settings, update, share: 1e30 if update == 5 else plain(settings, update, share)
    )
    with pytest.raises(UserError, match="The run has diverged: after update 5"):
        train(tmp_path / "run", toy_files, toy_config, max_updates=9, validate_every=3, checkpoint_every=1)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["update-00000003.safetensors", "update-00000004.safetensors"]
    assert Translator.load(tmp_path / "run", "cpu").translate(["we see a bird."]).texts


# Links


@pytest.mark.parametrize("name", ["log.jsonl", "config.json", "model.safetensors"])
def test_links_to_files_outside_are_replaced_and_not_followed(copy: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    (copy / name).rename(outside)
    before = outside.read_bytes()
    (copy / name).symlink_to(outside)
    go_on(copy, max_updates=8)
    assert outside.read_bytes() == before
    assert not (copy / name).is_symlink()


@pytest.mark.parametrize("name", ["checkpoints", "data", "tensorboard"])
def test_a_folder_that_is_elsewhere_is_refused(copy: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    if (copy / name).exists():
        (copy / name).rename(tmp_path / "outside" / name)
    (copy / name).symlink_to(tmp_path / "outside" / name)
    with pytest.raises(UserError, match=f"{name}: is a link"):
        go_on(copy, max_updates=4)


def test_a_log_that_is_a_dangling_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "outside")
    log = RunLog(tmp_path, State())
    log.write(1, loss=1.0)
    log.close()
    assert not (tmp_path / "outside").exists()


# Checkpoints of another hand


def spoil(directory: Path, tensors_: dict[str, Any] | None = None, **state: Any) -> None:
    path = sorted((directory / "checkpoints").glob("update-*"))[-1]
    stored = tensors.load(path)
    tensors.save(path, stored.tensors | (tensors_ or {}), stored.state | state)


@pytest.mark.parametrize(
    "state",
    [
        {"update": "x"},
        {"update": -1},
        {"update": True},
        {"batch": 1.5},
        {"epoch": 10**31},
        {"seconds": None},
        {"best": "low"},
        {"other": 1},
    ],
)
def test_a_state_that_is_none_is_refused(copy: Path, state: dict[str, Any]) -> None:
    spoil(copy, **state)
    with pytest.raises(UserError, match=f"the newest checkpoint is not of this run \\(its {next(iter(state))}"):
        go_on(copy, max_updates=4)


def test_a_place_beyond_the_data_does_not_search_for_ever(copy: Path) -> None:
    spoil(copy, batch=10_000)
    with pytest.raises(UserError, match="at a place that its data does not have"):
        go_on(copy, max_updates=4)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("model.segments.gate.weight", torch.zeros(3)),
        ("model.segments.gate.bias", torch.tensor([float("nan")])),
        ("model.segments.gate.bias", torch.tensor([True])),
        ("model.other", torch.zeros(1)),
        ("optimiser.0.exp_avg", torch.zeros(1)),
        ("optimiser.0.step", torch.tensor(float("inf"))),
        ("optimiser.9999.step", torch.tensor(1.0)),
        ("optimiser.x.step", torch.tensor(1.0)),
        ("elsewhere.x", torch.zeros(1)),
    ],
)
def test_tensors_that_are_not_of_the_run_are_refused(copy: Path, name: str, tensor: torch.Tensor) -> None:
    spoil(copy, {name: tensor})
    with pytest.raises(UserError, match="the newest checkpoint is not of this run"):
        go_on(copy, max_updates=4)


def test_a_best_that_is_none_yet_is_valid_json(copy: Path) -> None:
    spoil(copy, best=float("inf"), validated_at=0)
    path = sorted((copy / "checkpoints").glob("update-*"))[-1]
    assert tensors.load(path).state["best"] is None
    go_on(copy, max_updates=4)


# Full disks and lost directories


@pytest.mark.parametrize("fails_at", ["update-00000002.safetensors", "model.safetensors"])
def test_a_full_disk_at_the_first_model_does_not_block_a_resume(
    tmp_path: Path, trained: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: Any, fails_at: str
) -> None:
    def full(path: Path) -> Any:
        if path.name == fails_at:
            raise UserError(f"{path}: cannot be written (No space left on device)")
        return replacing(path)

    with monkeypatch.context() as patched:
        patched.setattr(tensors, "replacing", full)
        with pytest.raises(UserError, match="No space left"):
            train(tmp_path / "run", toy_files, toy_config, max_updates=3, validate_every=2)
    go_on(tmp_path / "run")
    for name in ("model.safetensors", "checkpoints/update-00000003.safetensors"):
        there, expected = load_file(tmp_path / "run" / name), load_file(trained / name)
        assert all(torch.equal(there[key], expected[key]) for key in expected), name
    logs = [
        [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
        for place in (tmp_path / "run", trained)
    ]
    without_time = [[{key: line[key] for key in line if "minutes" not in key} for line in log] for log in logs]
    assert without_time[0] == without_time[1]


def test_a_run_whose_directory_is_gone_does_not_say_that_it_is_saved(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Trainer._update

    def update(self: Trainer, *arguments: Any) -> None:
        plain(self, *arguments)
        shutil.rmtree(copy)
        self.stop.signal = "SIGTERM"

    monkeypatch.setattr(Trainer, "_update", update)
    with pytest.raises(UserError, match="was removed while the run was under way; nothing of it is saved"):
        go_on(copy, max_updates=9)
    assert not copy.exists() or os.listdir(copy) == []


def test_damaged_data_is_recognised(copy: Path) -> None:
    ids = copy / "data" / "train" / "target.ids"
    ids.write_bytes(b"\xff" * ids.stat().st_size)
    with pytest.raises(UserError, match="was prepared with another vocabulary"):
        go_on(copy, max_updates=4)


def test_a_network_beyond_the_machine_is_refused_before_it_is_built(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config
) -> None:
    huge = changed(toy_config, {"network": {"width": 1 << 16, "encoder_layers": 50}}, "test")
    with pytest.raises(UserError, match=r"needs .* GiB to be trained"):
        train(tmp_path / "run", toy_files, huge)
