"""The state of a run: what is captured is what training goes on from."""

from __future__ import annotations

from pathlib import Path

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

    other = trainer_of(model_directory, tmp_path)
    state = restore(stored, other.network, other.optimiser)
    assert state == State(update=2, epoch=3, best=1.5)
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
    assert tensors.keys() == weights | moments
    tensors["random.cpu"] = torch.get_rng_state()  # which an earlier version kept
    assert restore(Stored(tensors, state), trainer.network, trainer.optimiser) == trainer.state
    places = {"update", "epoch", "batch", "seconds", "cpu_seconds"}
    costs = {"best", "fewest_bits"}
    assert state.keys() == places | costs | {"validations_since_best", "validated_at", "best_at", "finished_at"}
