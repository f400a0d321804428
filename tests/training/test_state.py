"""The state of a run: what is captured is what training goes on from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ssmt.tensors import Stored
from ssmt.training.loop import Trainer
from ssmt.training.state import State, capture, restore
from tests.training.runs import trainer_of


def trained(directory: Path, output: Path) -> Trainer:
    trainer = trainer_of(directory, output)
    for start in (0, 4):
        batch = trainer.train_corpus.batch(range(start, start + 4))
        trainer._update([batch], batch.characters, 0.001)
    return trainer


def copied(stored: Stored) -> Stored:
    """Captured tensors are those of the run itself until they are written."""
    return Stored({name: tensor.clone() for name, tensor in stored.tensors.items()}, dict(stored.state))


def test_what_is_captured_is_restored(model_directory: Path, tmp_path: Path) -> None:
    trainer = trained(model_directory, tmp_path)
    trainer.state.epoch, trainer.state.best = 3, 1.5
    stored = copied(capture(trainer.state, trainer.network, trainer.optimiser))
    expected = torch.rand(5)

    other = trainer_of(model_directory, tmp_path)
    state = restore(stored, other.network, other.optimiser)
    assert state == State(update=2, epoch=3, best=1.5)
    assert torch.equal(torch.rand(5), expected)
    torch.set_rng_state(stored.tensors["random.cpu"])
    again = capture(state, other.network, other.optimiser)
    assert again.state == stored.state
    assert again.tensors.keys() == stored.tensors.keys()
    for name, tensor in stored.tensors.items():
        assert torch.equal(again.tensors[name], tensor), name


def test_names_are_those_of_the_checkpoints_that_are_there(model_directory: Path, tmp_path: Path) -> None:
    """Runs that began with an earlier version go on."""
    trainer = trained(model_directory, tmp_path)
    tensors, state = capture(trainer.state, trainer.network, trainer.optimiser)
    weights = {f"model.{name}" for name in trainer.network.state_dict()}
    count = len(list(trainer.network.parameters()))
    moments = {f"optimiser.{row}.{name}" for row in range(count) for name in ("step", "exp_avg", "exp_avg_sq")}
    assert tensors.keys() == weights | moments | {"random.cpu"}
    places = {"update", "epoch", "batch", "seconds", "cpu_seconds"}
    assert state.keys() == places | {"best", "validations_since_best", "validated_at", "finished_at"}


def test_random_numbers_of_a_device_are_restored_on_such_a_device_only(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trained(model_directory, tmp_path)
    stored = capture(trainer.state, trainer.network, trainer.optimiser)
    of_device = torch.arange(4, dtype=torch.uint8)
    stored.tensors.update({"random.cuda": of_device, "random.mps": of_device})
    assert restore(stored, trainer.network, trainer.optimiser) == trainer.state
    for kind in ("cuda", "mps"):
        restored: list[torch.Tensor] = []
        with monkeypatch.context() as patched:
            patched.setattr(type(trainer.network), "device", torch.device(kind))
            patched.setattr(f"torch.{kind}.set_rng_state", lambda state, *device, seen=restored: seen.append(state))
            patched.setattr(f"torch.{kind}.get_rng_state", lambda *device: of_device + 1)
            restore(stored, trainer.network, trainer.optimiser)
            captured = capture(trainer.state, trainer.network, trainer.optimiser).tensors
        assert [state.tolist() for state in restored] == [of_device.tolist()]
        assert captured[f"random.{kind}"].tolist() == [1, 2, 3, 4]
