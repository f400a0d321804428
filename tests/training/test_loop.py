"""The training loop in one process: what follows an update, limits, accumulation, losses that are not finite."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ssmt.config import Config, changed
from ssmt.errors import UserError
from ssmt.model.dropout import LEVELS, Dropout
from ssmt.model.ssmt import SSMT
from ssmt.model.translation import Loss
from ssmt.text.batch import Batch
from ssmt.text.corpus import Corpus
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.training.loop import Trainer
from ssmt.training.schedule import inverse_square_root
from ssmt.training.validation import Validation
from tests.training.runs import Messages, go_on, train, trainer_of
from tests.training.test_validation import measuring

# What follows an update

EPOCH = 5  # batches
NO_LIMIT = {"max_epochs": None, "max_updates": None, "max_minutes": None, "patience": None}
OFTEN = {"checkpoint_every": 3}
BY_UPDATES = {"validate_every": 4}


@pytest.mark.parametrize(
    ("settings", "update", "batch", "expected"),
    [
        # Validation is at the end of each epoch, or every so many updates wherever that is.
        ({}, 12, 2, []),
        ({}, 15, 5, ["validate"]),
        ({}, 15, 6, ["validate"]),
        (BY_UPDATES, 12, 2, ["validate"]),
        (BY_UPDATES, 13, 3, []),
        (BY_UPDATES, 15, 5, []),
        (BY_UPDATES, 20, 5, ["validate"]),
        # A checkpoint is written every so many updates; a validation has one of its own.
        (OFTEN, 12, 2, ["save"]),
        (OFTEN, 13, 3, []),
        (OFTEN, 15, 5, ["validate"]),
        (OFTEN | BY_UPDATES, 12, 2, ["validate"]),
        (OFTEN | BY_UPDATES, 15, 3, ["save"]),
        (OFTEN | BY_UPDATES, 15, 5, ["save"]),
        (OFTEN | BY_UPDATES, 20, 5, ["validate"]),
    ],
)
@pytest.mark.parametrize("stopped_by", [None, "SIGTERM"])
@pytest.mark.parametrize("limit", [{}, {"max_updates": 1}])
def test_what_follows_an_update(
    model_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, int],
    update: int,
    batch: int,
    expected: list[str],
    stopped_by: str | None,
    limit: dict[str, int],
) -> None:
    trainer = trainer_of(model_directory, tmp_path, **NO_LIMIT | settings | limit)
    state, done = trainer.state, list[tuple[str, int, int]]()

    def validate() -> None:
        done.append(("validate", state.epoch, state.batch))
        state.validated_at = state.update

    monkeypatch.setattr(trainer, "_validate", validate)
    monkeypatch.setattr(trainer, "_save", lambda: done.append(("save", state.epoch, state.batch)))
    state.update, state.epoch, state.batch = update, 2, batch
    trainer.stop.signal = stopped_by
    assert trainer._ends_after_update(EPOCH) == bool(stopped_by or limit)
    place = (3, 0) if batch >= EPOCH else (2, batch)  # a resumed run begins with the epoch that comes next
    if limit and not stopped_by and "validate" not in expected:
        expected = [*expected, "save", "validate"]  # what the run ends with is measured
    assert done == [(name, *place) for name in expected + (["save"] if stopped_by else [])]
    assert (state.epoch, state.batch) == place


@pytest.mark.parametrize("limit", [{"max_epochs": 3}, {"patience": 1}, {"max_minutes": 1}])
def test_what_a_validation_and_the_end_of_an_epoch_change_can_end_the_run(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: dict[str, int]
) -> None:
    trainer = trainer_of(model_directory, tmp_path, **NO_LIMIT | limit)

    def validate() -> None:
        trainer.state.validations_since_best += 1
        trainer.state.validated_at = trainer.state.update
        trainer.state.seconds += 60

    monkeypatch.setattr(trainer, "_validate", validate)
    trainer.state.update, trainer.state.epoch, trainer.state.batch = 14, 2, 4
    assert not trainer._ends_after_update(EPOCH)
    trainer.state.update, trainer.state.batch = 15, 5
    assert trainer._ends_after_update(EPOCH)


def test_a_signal_during_a_validation_ends_the_run_after_it(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(model_directory, tmp_path, **NO_LIMIT)
    saved: list[bool] = []
    monkeypatch.setattr(trainer, "_validate", lambda: setattr(trainer.stop, "signal", "SIGINT"))
    monkeypatch.setattr(trainer, "_save", lambda: saved.append(True))
    trainer.state.update, trainer.state.batch = 5, 5
    assert trainer._ends_after_update(EPOCH)
    assert saved


# Updates


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def test_accumulated_batches_make_the_gradient_of_all_of_them(model_directory: Path, tmp_path: Path) -> None:
    separate, together = (trainer_of(model_directory, tmp_path, clip_norm=1e9) for _ in range(2))
    corpus = separate.train_corpus
    first, second = corpus.batches(300, 1, 0)[:2]
    batches = [corpus.batch(first), corpus.batch(second)]
    characters = sum(batch.characters for batch in batches)
    separate._update(batches, characters, 0.001)
    together._update([corpus.batch([*first, *second])], characters, 0.001)
    expected = gradients(together.network)
    assert expected
    for name, gradient in gradients(separate.network).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-4)


def test_the_loss_is_divided_by_the_number_that_is_given(model_directory: Path, tmp_path: Path) -> None:
    whole, half = (trainer_of(model_directory, tmp_path, clip_norm=1e9) for _ in range(2))
    batch = whole.train_corpus.batch(range(4))
    whole._update([batch], batch.characters, 0.001)
    half._update([batch], 2 * batch.characters, 0.001)
    expected = gradients(whole.network)
    for name, gradient in gradients(half.network).items():
        torch.testing.assert_close(2 * gradient, expected[name], atol=1e-6, rtol=1e-4)


def test_what_is_trained_can_be_a_wrapper_of_the_network(model_directory: Path, tmp_path: Path) -> None:
    settings = {"max_updates": 2, "chrf_sentences": 0}
    plain, wrapped = (trainer_of(model_directory, tmp_path / name, **settings) for name in ("plain", "wrapped"))
    calls: list[Batch] = []
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped.model = nn.parallel.DistributedDataParallel(wrapped.network)
        wrapped.model.register_forward_pre_hook(lambda _, inputs: calls.extend(inputs))
        for trainer in (plain, wrapped):
            trainer.run()
    finally:
        torch.distributed.destroy_process_group()
    assert len(calls) == 2
    expected, weights = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "wrapped"))
    assert expected.keys() == weights.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, atol=1e-6, rtol=1e-5)


def test_a_loss_that_is_not_finite_stops_with_the_batch_named(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = SSMT.forward
    seen: list[Batch] = []

    def broken(self: SSMT, batch: Batch) -> Loss:
        seen.append(batch)
        return Loss(*(nats * (math.nan if len(seen) == 8 else 1.0) for nats in plain(self, batch)))

    monkeypatch.setattr(SSMT, "forward", broken)
    with pytest.raises(UserError, match="update 8 is not finite") as caught:
        train(tmp_path / "run", toy_files, toy_config, checkpoint_every=5, max_updates=20)
    assert ", ".join(map(str, sorted(seen[-1].lines)[:3])) in str(caught.value)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["update-00000005.safetensors"]


def test_a_line_of_the_log_is_of_all_updates_since_the_last(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses: list[float] = []
    plain = SSMT.forward

    def recording(self: SSMT, batch: Batch) -> Loss:
        loss = plain(self, batch)
        losses.append(loss.nats.item())
        return loss

    monkeypatch.setattr(SSMT, "forward", recording)
    monkeypatch.setattr("ssmt.training.loop.LOG_EVERY", 6)
    _, log = train(tmp_path / "run", toy_files, toy_config, batch_characters=9000, max_updates=6)
    (line,) = [line for line in log if "loss" in line]
    characters = sum(map(len, toy_files.target.read_text(encoding="utf-8").splitlines())) + 60  # with their ends
    assert line["loss"] == pytest.approx(sum(losses) / characters / 6, abs=1e-5)
    assert line["largest_gradient_norm"] > 0


# Runs


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

    def bits(validation: Validation) -> float:
        value = next(measured)
        if value == 2.0:
            best.update({name: tensor.clone() for name, tensor in validation.network.state_dict().items()})
        return value

    measuring(monkeypatch, "bits_per_character", bits)
    messages, log = train(tmp_path / "run", toy_files, toy_config, validate_every=2, patience=2, max_updates=50)
    assert any("no improvement in 2 validations" in said for said in messages.said)
    assert [line["update"] for line in log if "improved" in line] == [2, 4, 6, 8]
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], best[name]) for name in best)


def test_early_stopping_on_chrf(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([10.0, 30.0, 20.0, 25.0])
    measuring(monkeypatch, "chrf", lambda _: next(values))
    settings = {"stop_on": "chrf", "chrf_sentences": 5, "validate_every": 1, "patience": 2, "max_updates": 50}
    _, log = train(tmp_path / "run", toy_files, toy_config, **settings)
    assert [line["valid_chrf"] for line in log if "valid_chrf" in line] == [10.0, 30.0, 20.0, 25.0]


@pytest.mark.parametrize(("stop_on", "validations"), [("auto", 5), ("chrf", 3), ("bits_per_character", 5)])
def test_patience_lasts_while_a_model_learns(
    tmp_path: Path,
    toy_files: TrainingFiles,
    toy_config: Config,
    monkeypatch: pytest.MonkeyPatch,
    stop_on: str,
    validations: int,
) -> None:
    bits = [4.0, 3.0, 2.0, 2.5, 2.1, 2.2, 2.3]
    of_chrf = [40.0, 30.0, 35.0, 20.0, 10.0, 10.0, 10.0]
    weights: list[dict[str, Tensor]] = []

    def measured(validation: Validation) -> float:
        weights.append({name: tensor.clone() for name, tensor in validation.network.state_dict().items()})
        return bits[len(weights) - 1]

    measuring(monkeypatch, "bits_per_character", measured)
    measuring(monkeypatch, "chrf", lambda _: of_chrf[len(weights) - 1])
    settings = {"stop_on": stop_on, "chrf_sentences": 5, "validate_every": 1, "patience": 2, "max_updates": 50}
    train(tmp_path / "run", toy_files, toy_config, **settings)
    assert len(weights) == validations
    kept = load_file(tmp_path / "run" / "model.safetensors")
    best = weights[2 if stop_on == "bits_per_character" else 0]
    assert all(torch.equal(kept[name], best[name]) for name in best)


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


def test_patience_that_a_last_validation_renews_lets_the_run_go_on(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with the third epoch, which was the least, in the midst of two validations."""
    updates: list[int] = []
    plain = Trainer._validate

    def validate(self: Trainer) -> None:
        updates.append(self.state.update)
        plain(self)

    measuring(monkeypatch, "bits_per_character", lambda _: {4: 2.0, 15: 1.0}.get(updates[-1], 3.0))
    monkeypatch.setattr(Trainer, "_validate", validate)
    settings = {"validate_every": 4, "patience": 2, "min_epochs": 3, "max_updates": 200}
    messages, _ = train(tmp_path / "run", toy_files, toy_config, **settings)
    assert updates == [4, 8, 12, 15, 16, 20], "an epoch has 5 updates; 15 is better than 4"
    assert any("Done: no improvement in 2 validations" in said for said in messages.said)
    assert [said for said in go_on(tmp_path / "run").said if said.startswith("Nothing to do")]


def test_of_equally_good_translators_the_one_is_kept_that_knows_more(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = iter([4.0, 3.0, 2.0, 2.5])
    weights: list[dict[str, Tensor]] = []

    def chrf(validation: Validation) -> float:
        weights.append({name: tensor.clone() for name, tensor in validation.network.state_dict().items()})
        return 0.0

    measuring(monkeypatch, "bits_per_character", lambda _: next(bits))
    measuring(monkeypatch, "chrf", chrf)
    train(tmp_path / "run", toy_files, toy_config, chrf_sentences=5, validate_every=1, max_updates=4)
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], weights[2][name]) for name in kept)


@pytest.mark.parametrize(("of_chrf", "kept_at"), [([10.0, 20.0, 5.0], 2), ([20.0, 10.0, 5.0], 1)])
def test_a_run_that_was_killed_between_checkpoint_and_model_keeps_the_best(
    tmp_path: Path,
    toy_files: TrainingFiles,
    toy_config: Config,
    monkeypatch: pytest.MonkeyPatch,
    of_chrf: list[float],
    kept_at: int,
) -> None:
    """The second validation has the fewest bits, which is what patience is for, and the best chrF or not."""
    bits = iter([3.0, 2.0, 2.5])
    chrf = iter(of_chrf)
    measuring(monkeypatch, "bits_per_character", lambda _: next(bits))
    measuring(monkeypatch, "chrf", lambda _: next(chrf))
    weights: dict[int, dict[str, Tensor]] = {}
    plain = Trainer._save

    def saved_and_killed(self: Trainer) -> None:
        plain(self)
        weights[self.state.update] = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        if self.state.update == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save", saved_and_killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", toy_files, toy_config, chrf_sentences=5, validate_every=1, max_updates=3)
    go_on(tmp_path / "run")
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], weights[kept_at][name]) for name in kept)


def test_a_kept_average_is_the_model_to_beat(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([1.0, 1.1, 0.5, 0.95, 0.97])
    measuring(monkeypatch, "bits_per_character", lambda _: next(measured))
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


def test_an_interrupted_run_cools_down_as_one_that_was_not(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"max_updates": 8, "cooldown": 0.5, "checkpoint_every": 1}
    rates: list[float] = []
    plain = Trainer._update

    def recording(self: Trainer, batches: list[Batch], characters: int, rate: float) -> None:
        if len(rates) == 6:
            rates.append(0.0)
            raise KeyboardInterrupt
        rates.append(rate)
        plain(self, batches, characters, rate)

    train(tmp_path / "whole", toy_files, toy_config, **settings)
    monkeypatch.setattr(Trainer, "_update", recording)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", toy_files, toy_config, **settings)
    go_on(tmp_path / "broken")
    assert rates.pop(6) == 0.0
    warmup = toy_config.training.warmup_updates
    without = [inverse_square_root(update, toy_config.training.learning_rate, warmup) for update in range(1, 9)]
    parts = [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]
    assert rates == pytest.approx([rate * part for rate, part in zip(without, parts, strict=True)])
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_dropout_rises_by_passes_over_the_data_also_when_interrupted(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The updates see it, not only the settings: recorded is what the layers drop when an update begins."""
    dropped: list[set[float]] = []
    plain = Trainer._update

    def recording(self: Trainer, batches: list[Batch], characters: int, rate: float) -> None:
        layers = [module for module in self.network.modules() if isinstance(module, Dropout)]
        dropped.append({layer.dropped / LEVELS for layer in layers})
        plain(self, batches, characters, rate)

    monkeypatch.setattr(Trainer, "_update", recording)
    config = changed(toy_config, {"network": {"dropout": 0.5}}, "test")
    train(tmp_path / "run", toy_files, config, dropout_epochs=2.0, max_updates=3, max_epochs=3)  # within the first pass
    go_on(tmp_path / "run", max_updates=None)
    batches = len(dropped) / 3
    assert batches > 4
    expected = [0.25 * (1 + min(1.0, update / batches / 2)) for update in range(len(dropped))]
    assert [max(rates) for rates in dropped] == pytest.approx(expected, abs=1e-4)
    assert all(len(rates) == 1 for rates in dropped), "all layers have the same"


def test_cpu_time_of_updates_is_counted_and_ends_a_run(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 7))  # each look at the clock is 7 seconds after the last
    monkeypatch.setattr("ssmt.training.loop.time.process_time", lambda: next(clock))
    directory = tmp_path / "run"
    messages, log = train(directory, toy_files, toy_config, max_cpu_minutes=0.5)
    assert "Done: 0.5 minutes of CPU time are over. 5 updates" in " ".join(messages.said)
    assert log[-1]["cpu_minutes"] == pytest.approx(35 / 60, abs=1e-3)
    assert "Done: 1 minute of CPU time is over. 9 updates" in " ".join(go_on(directory, max_cpu_minutes=1).said)


# Alignment


def test_attention_learns_from_the_alignment(model_directory: Path, tmp_path: Path) -> None:
    apart = {}
    settings = {"max_updates": 60, "warmup_updates": 10, "chrf_sentences": 0}
    for weight in (0.0, 1.0):
        trainer = trainer_of(model_directory, tmp_path / str(weight), alignment_weight=weight, **settings)
        trainer.run()
        trainer.network.alignment_weight = 1.0
        trainer.train_corpus.learn_alignment(trainer.network.vocabulary)
        with torch.no_grad():
            loss = trainer.network.eval()(trainer.train_corpus.batch(range(20)))
        apart[weight] = float(loss.minimised - loss.nats)
    assert apart[1.0] < 0.8 * apart[0.0]


def test_aligning_is_time_of_training_in_the_first_session(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by a thousand seconds whenever a text is aligned."""
    aligned, clock = list[Corpus](), time.process_time
    monkeypatch.setattr(Corpus, "learn_alignment", lambda corpus, vocabulary: aligned.append(corpus))
    monkeypatch.setattr(time, "process_time", lambda: clock() + 1000 * len(aligned))
    for session in (1, 2):
        trainer = trainer_of(model_directory, tmp_path, max_updates=session, alignment_weight=1.0, chrf_sentences=0)
        trainer.run()
        assert len(aligned) == session
        assert trainer.state.cpu_seconds // 1000 == 1
