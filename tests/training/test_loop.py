"""The training loop in one process: limits, accumulation, early stopping, losses that are not finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ssmt.config import Config, changed
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.translation import Loss
from ssmt.progress import Reporter
from ssmt.text.batch import Batch
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
    plain = SSMT.losses
    seen: list[Batch] = []

    def broken(self: SSMT, batch: Batch) -> Loss:
        seen.append(batch)
        return Loss(*(nats * (math.nan if len(seen) == 8 else 1.0) for nats in plain(self, batch)))

    monkeypatch.setattr(SSMT, "losses", broken)
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


def go_on(directory: Path, **training: Any) -> Messages:
    messages = Messages()
    run.adopt(directory, lambda config: changed(config, {"training": training}, "test"))
    run.train(directory, torch.device("cpu"), messages)
    return messages


def test_a_kept_average_is_the_model_to_beat(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([1.0, 1.1, 0.5, 0.95, 0.97])
    monkeypatch.setattr(Trainer, "bits_per_character", lambda self: next(measured))
    directory = tmp_path / "run"
    messages, _ = train(directory, toy_files, toy_config, max_epochs=2, average_last=2)
    assert any(said.startswith("Best validation: 0.5000") for said in messages.said)
    average = load_file(directory / "model.safetensors")
    assert [said for said in go_on(directory).said if said.startswith("Nothing to do")]
    go_on(directory, max_epochs=3)
    assert not list(measured)
    kept = load_file(directory / "model.safetensors")
    assert all(torch.equal(kept[name], average[name]) for name in average)


def test_a_run_that_died_while_its_average_was_measured_tries_it_again(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(self: Trainer, average: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    directory = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_try_average", power_cut)
        with pytest.raises(KeyboardInterrupt):
            train(directory, toy_files, toy_config, max_epochs=2, average_last=2)
    assert any(said.startswith("Average of the last models") for said in go_on(directory).said)


def test_checkpoints_at_the_end_of_an_epoch(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    plain = Trainer._save

    def recording(self: Trainer) -> None:
        saved.append(self.state.update)
        plain(self)

    monkeypatch.setattr(Trainer, "_save", recording)
    settings = {"batch_characters": 9000, "validate_every": 1000, "checkpoint_every": 2, "max_updates": 7}
    train(tmp_path / "run", toy_files, toy_config, **settings)  # an epoch is one update
    assert saved[:3] == [2, 4, 6]


def test_a_line_of_the_log_is_of_all_updates_since_the_last(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses: list[float] = []
    plain = SSMT.losses

    def recording(self: SSMT, batch: Batch) -> Loss:
        found = plain(self, batch)
        losses.append(found.nats.item())
        return found

    monkeypatch.setattr(SSMT, "losses", recording)
    monkeypatch.setattr("ssmt.training.loop.LOG_EVERY", 6)
    _, log = train(tmp_path / "run", toy_files, toy_config, batch_characters=9000, max_updates=6)
    (line,) = [line for line in log if "loss" in line]
    characters = sum(map(len, toy_files.target.read_text(encoding="utf-8").splitlines())) + 60  # with their ends
    assert line["loss"] == pytest.approx(sum(losses) / characters / 6, abs=1e-5)
    assert line["largest_gradient_norm"] > 0


def test_a_model_without_its_checkpoints_is_not_trained_over(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config
) -> None:
    directory = tmp_path / "run"
    train(directory, toy_files, toy_config, max_epochs=1)
    before = (directory / "model.safetensors").read_bytes(), (directory / "log.jsonl").read_bytes()
    for path in (directory / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match="no whole checkpoint to go on from"):
        go_on(directory, max_epochs=2)
    assert ((directory / "model.safetensors").read_bytes(), (directory / "log.jsonl").read_bytes()) == before


def test_two_processes_do_not_train_in_one_directory(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config
) -> None:
    directory = tmp_path / "run"
    train(directory, toy_files, toy_config, max_epochs=1)
    with run._alone(directory), pytest.raises(UserError, match="another process is training there"):
        run.train(directory, torch.device("cpu"), Reporter())
    assert run.train(directory, torch.device("cpu"), Reporter()) is None
