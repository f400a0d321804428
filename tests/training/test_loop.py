"""The training loop in one process: limits, accumulation, early stopping, losses that are not finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ssmt.config import Config, changed
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.progress import Reporter
from ssmt.text.corpus import Batch
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.training.loop import Trainer
from ssmt.training.schedule import inverse_square_root


class Messages(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    warn = say


def train(
    directory: Path, files: TrainingFiles, config: Config, **training: Any
) -> tuple[Messages, list[dict[str, Any]]]:
    defaults = {"chrf_sentences": 0, "batch_characters": 300, "max_epochs": None, "patience": None}
    messages = Messages()
    run.begin(files, directory, changed(config, {"training": defaults | training}, "test"), messages)
    run.train(directory, torch.device("cpu"), messages)
    return messages, read_log(directory)


def test_limits(tmp_path: Path, toy_files: TrainingFiles, toy_config: Config) -> None:
    messages, log = train(tmp_path / "epochs", toy_files, toy_config, max_epochs=2)
    assert any("2 epochs are over" in said for said in messages.said)
    assert [line["epoch"] for line in log if "valid_bits_per_character" in line] == [1, 2]
    messages, _ = train(tmp_path / "minutes", toy_files, toy_config, max_minutes=0.02)
    assert any("0.02 minutes are over" in said for said in messages.said)


def test_early_stopping_keeps_the_best_model(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([3.0, 2.0, 2.5, 2.1, 9.0, 9.0])
    best = {}

    def bits(self: Trainer) -> float:
        value = next(measured)
        if value == 2.0:
            best.update({name: tensor.clone() for name, tensor in self.model.state_dict().items()})
        return value

    monkeypatch.setattr(Trainer, "bits_per_character", bits)
    messages, log = train(tmp_path / "run", toy_files, toy_config, validate_every=2, patience=2, max_updates=50)
    assert any("no improvement in 2 validations" in said for said in messages.said)
    assert [line["update"] for line in log if "improved" in line] == [2, 4, 6, 8]
    from safetensors.torch import load_file

    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], best[name]) for name in best)


def test_early_stopping_on_chrf(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([10.0, 30.0, 20.0, 25.0])
    monkeypatch.setattr(Trainer, "chrf", lambda self: next(values))
    settings = {"stop_on": "chrf", "chrf_sentences": 5, "validate_every": 1, "patience": 2, "max_updates": 50}
    _, log = train(tmp_path / "run", toy_files, toy_config, **settings)
    assert [line["valid_chrf"] for line in log if "valid_chrf" in line] == [10.0, 30.0, 20.0, 25.0]


def test_a_loss_that_is_not_finite_stops_with_the_batch_named(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = SSMT.training_loss
    seen: list[Batch] = []

    def broken(self: SSMT, batch: Batch) -> Tensor:
        seen.append(batch)
        return plain(self, batch) * (math.nan if len(seen) == 8 else 1.0)

    monkeypatch.setattr(SSMT, "training_loss", broken)
    with pytest.raises(UserError, match="update 8 is not finite") as caught:
        train(tmp_path / "run", toy_files, toy_config, checkpoint_every=5, max_updates=20)
    assert ", ".join(map(str, sorted(seen[-1].lines)[:3])) in str(caught.value)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["update-00000005.safetensors"]


def test_accumulated_batches_make_the_gradient_of_all_of_them(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config
) -> None:
    config = changed(toy_config, {"network": {"dropout": 0.0}}, "test")
    gradients = []
    for name, accumulate in (("one", 1), ("two", 2)):
        settings = {"accumulate": accumulate, "max_updates": 1, "batch_characters": 300, "chrf_sentences": 0}
        run.begin(toy_files, tmp_path / name, changed(config, {"training": settings}, "test"), Reporter())
        vocabulary, loaded = run.load_description(tmp_path / name)
        torch.manual_seed(1)
        model = SSMT(vocabulary, loaded)
        corpus = run._corpus(tmp_path / name / "data" / "train", vocabulary)
        trainer = Trainer(model, loaded, corpus, corpus, tmp_path / name, Reporter())
        batches = corpus.batches(300, 1, 0)[:2]
        groups = [batches] if accumulate == 2 else [[torch.cat([torch.from_numpy(b) for b in batches]).numpy()]]
        trainer.settings = loaded.training.model_copy(update={"clip_norm": 1e9})
        from ssmt.training.loop import _Meter

        trainer._update([corpus.batch(indices) for indices in groups[0]], _Meter())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    for name in gradients[0]:
        torch.testing.assert_close(gradients[0][name], gradients[1][name], atol=1e-6, rtol=1e-4)


def test_schedule() -> None:
    rates = [inverse_square_root(update, 0.1, 100) for update in (1, 50, 100, 400)]
    assert rates == pytest.approx([0.001, 0.05, 0.1, 0.05])


def test_bf16_autocast_trains_close_to_float32(tmp_path: Path, toy_files: TrainingFiles, toy_config: Config) -> None:
    finals = []
    for precision in ("float32", "bf16"):
        settings = {"precision": precision, "max_updates": 60, "validate_every": 60, "learning_rate": 0.005}
        _, log = train(tmp_path / precision, toy_files, toy_config, **settings, warmup_updates=10)
        finals.append(log[-1]["valid_bits_per_character"])
    assert finals[1] == pytest.approx(finals[0], rel=0.1)
    assert finals[0] < 3.0


def test_a_run_that_was_killed_before_its_last_validation_makes_up_for_it(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Trainer) -> None:
        raise KeyboardInterrupt

    settings = {"max_updates": 4, "checkpoint_every": 4}
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_validate", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", toy_files, toy_config, **settings)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    messages = Messages()
    run.train(tmp_path / "run", torch.device("cpu"), messages)
    assert [line["update"] for line in read_log(tmp_path / "run") if "valid_bits_per_character" in line] == [4]
    assert (tmp_path / "run" / "model.safetensors").exists()
    run.train(tmp_path / "run", torch.device("cpu"), messages)
    assert any(said.startswith("Nothing to do") for said in messages.said)
