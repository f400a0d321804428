"""The training loop.

Everything that decides the next update (weights, optimiser, random state, place in the epoch) is in the checkpoint, and
the order of batches is a function of seed and epoch: a resumed run makes the same updates as one that never stopped.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import sacrebleu
import torch
from torch import Tensor

from ssmt.config import Config
from ssmt.devices import has_bf16
from ssmt.directory import WEIGHTS, save_weights
from ssmt.errors import UserError
from ssmt.model.translation import TranslationModel
from ssmt.progress import Bar, Reporter, duration
from ssmt.registry import kind_of
from ssmt.search.options import SearchOptions
from ssmt.text.batch import Batch
from ssmt.text.corpus import Corpus
from ssmt.training.checkpoint import Checkpoints
from ssmt.training.log import RunLog
from ssmt.training.schedule import inverse_square_root

LOG_EVERY = 50  # updates


@dataclass
class State:
    """How far a run has come."""

    update: int = 0
    epoch: int = 0  # the epoch under way, from 0
    batch: int = 0  # the next batch of that epoch
    seconds: float = 0.0
    best: float = math.inf  # of all validations, by `stop_on`: bits per character, or minus chrF
    validations_since_best: int = 0
    validated_at: int = 0  # the update of the last validation
    finished_at: int = 0  # the update at which the run ended: at a limit, with everything after the last update done


class Trainer:
    def __init__(
        self,
        model: TranslationModel,
        config: Config,
        train: Corpus,
        valid: Corpus,
        directory: Path,
        reporter: Reporter,
    ) -> None:
        self.model, self.config, self.settings = model, config, config.training
        self.train_corpus, self.valid_corpus = train, valid
        self.directory, self.reporter = directory, reporter
        self.checkpoints = Checkpoints(directory / "checkpoints")
        self.optimiser = torch.optim.AdamW(
            model.parameters(),
            lr=self.settings.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=self.settings.weight_decay,
            fused=True,
        )
        self.state = State()
        self.stop_signal: str | None = None
        self.autocast = _autocast_dtype(self.settings.precision, model.device)

    # The loop

    def run(self) -> str | None:
        """Train until a limit is reached. Returns the name of the signal that ended it before, if one did."""
        if self.resume() and self.reached_limit() and self.state.finished_at == self.state.update:
            self.reporter.say(f"Nothing to do: {self.reached_limit()}")
            return None
        self.log = RunLog(self.directory, self.state.update)
        self.begun = time.monotonic() - self.state.seconds
        try:
            with self._signals():
                with self.reporter.bar("training", 1.0) as bar:
                    self._train(bar)
                if self.stop_signal is None:
                    self._finish()
        finally:
            self.log.close()
        return self.stop_signal

    def _train(self, bar: Bar) -> None:
        meter = self.meter = _Meter()
        while not self.reached_limit():
            batches = self.train_corpus.batches(self.settings.batch_characters, self.settings.seed, self.state.epoch)
            for group in _groups(batches, self.state.batch, self.settings.accumulate):
                self._update([self.train_corpus.batch(indices, self.state.epoch) for indices in group], meter)
                self.state.batch += len(group)
                self.state.seconds = time.monotonic() - self.begun
                self._report(meter, bar, len(batches))
                if self.state.batch >= len(batches):
                    break
                if self.settings.validate_every and self.state.update % self.settings.validate_every == 0:
                    self._validate()
                elif self.state.update % self.settings.checkpoint_every == 0:
                    self._save()
                if self.stop_signal is not None:
                    self._save()
                    return
                if self.reached_limit():
                    break
            if self.state.batch >= len(batches):
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
                if not self.settings.validate_every or self.state.update % self.settings.validate_every == 0:
                    self._validate()
                elif self.state.update % self.settings.checkpoint_every == 0:
                    self._save()
            if self.stop_signal is not None:
                self._save()
                return

    def _update(self, batches: list[Batch], meter: _Meter) -> None:
        self.model.train()
        rate = inverse_square_root(self.state.update + 1, self.settings.learning_rate, self.settings.warmup_updates)
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        characters = sum(batch.characters for batch in batches)
        nats = 0.0
        for batch in batches:
            with self._precision():
                loss = self.model(batch.to(self.model.device))
            nats += loss.nats.item()  # a synchronisation: one bad batch must not reach the weights
            if not math.isfinite(nats):
                self._stop_not_finite(batch)
            (loss.minimised / characters).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        if not torch.isfinite(norm):
            self._stop_not_finite(*batches)
        self.optimiser.step()
        self.state.update += 1
        meter.add(nats, characters, rate, norm.item())

    def _stop_not_finite(self, *batches: Batch) -> None:
        lines = sorted(line for batch in batches for line in batch.lines)
        shown = ", ".join(map(str, lines[:20])) + (f" and {len(lines) - 20} more" if len(lines) > 20 else "")
        raise UserError(
            f"The loss of update {self.state.update + 1} is not finite. Its batch has the training lines {shown}. "
            f"The last good checkpoint is kept in {self.checkpoints.directory}. Look at those lines, or train with a "
            f"lower training.learning_rate or more training.warmup_updates"
        )

    def _finish(self) -> None:
        if self.state.validated_at != self.state.update:
            self._save()  # whatever happens meanwhile
            self._validate()
        if self.settings.average_last > 1 and (average := self.checkpoints.average(self.settings.average_last)):
            self._try_average(average)
        self.state.finished_at = self.state.update
        self._save()
        minutes = duration(self.state.seconds)
        self.reporter.say(f"Done: {self.reached_limit()}. {self.state.update:,} updates in {minutes}")
        best: dict[str, float] = {self.settings.stop_on: abs(self.state.best)}
        self.reporter.say(f"Best validation: {_in_words(best)}. Model: {self.directory}")

    def reached_limit(self) -> str | None:
        """Which limit the run has reached, if any."""
        settings, state = self.settings, self.state
        if settings.max_epochs is not None and state.epoch >= settings.max_epochs:
            return f"{settings.max_epochs:,} epochs are over"
        if settings.max_updates is not None and state.update >= settings.max_updates:
            return f"{settings.max_updates:,} updates are made"
        if settings.max_minutes is not None and state.seconds >= settings.max_minutes * 60:
            return f"{settings.max_minutes:g} minutes are over"
        if settings.patience is not None and state.validations_since_best >= settings.patience:
            return f"no improvement in {settings.patience} validations"
        return None

    # Validation

    def _validate(self) -> None:
        with self.meter.paused():
            measured = self.measure()
        self.state.validated_at = self.state.update
        cost = self._cost(measured)
        improved = cost < self.state.best
        if improved:
            self.state.best, self.state.validations_since_best = cost, 0
            save_weights(self.directory, self.model.state_dict())
        else:
            self.state.validations_since_best += 1
        if self.settings.average_last > 1:
            self.checkpoints.save_validated(self.state.update, self.model.state_dict(), self.settings.average_last)
        self.state.seconds = time.monotonic() - self.begun
        self.log.write(
            self.state.update,
            epoch=self.state.epoch,
            **{f"valid_{name}": value for name, value in measured.items()},
            improved=improved,
            minutes=round(self.state.seconds / 60, 3),
        )
        self.reporter.say(
            f"epoch {self.state.epoch}, update {self.state.update:,}, {duration(self.state.seconds)}: "
            f"{_in_words(measured)} on validation{' (best)' if improved else ''}"
        )
        self._save()

    def measure(self) -> dict[str, float]:
        """Bits per character, and chrF where it is asked for, of the validation text."""
        measured = {"bits_per_character": self.bits_per_character()}
        if self.settings.chrf_sentences:
            measured["chrf"] = self.chrf()
        return measured

    def _cost(self, measured: dict[str, float]) -> float:
        return measured["bits_per_character"] if self.settings.stop_on == "bits_per_character" else -measured["chrf"]

    @torch.no_grad()
    def bits_per_character(self) -> float:
        """Of the validation targets; the sentence's end counts as one character."""
        self.model.eval()
        nats, characters = 0.0, 0
        for indices in self.valid_corpus.batches(self.settings.batch_characters):
            batch = self.valid_corpus.batch(indices)
            with self._precision():
                nats -= self.model.log_probability(batch.to(self.model.device)).cpu().double().sum().item()
            characters += batch.characters
        return nats / characters / math.log(2)

    def chrf(self) -> float:
        """Of a sample of the validation set, spread evenly over it, translated greedily."""
        self.model.eval()
        count = min(self.settings.chrf_sentences, len(self.valid_corpus))
        pairs = self.valid_corpus.texts(index * len(self.valid_corpus) // count for index in range(count))
        sources, references = map(list, zip(*pairs, strict=True))
        ratio = self.config.text.length_ratio
        assert ratio is not None, "measured when the run began"
        found = kind_of(self.config).translate(self.model, sources, SearchOptions(beam=1), ratio)
        hypotheses = [self.model.vocabulary.decode(few[0].symbols) for few in found]
        return float(sacrebleu.corpus_chrf(hypotheses, [references]).score)

    def _try_average(self, average: dict[str, Tensor]) -> None:
        """Validate the average of the last models and keep it where it is better."""
        trained = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(average)
        measured = self.measure()
        self.model.load_state_dict(trained)  # a run that goes on goes on from these
        numbers = {f"average_{name}": value for name, value in measured.items()}
        minutes = round(self.state.seconds / 60, 3)
        better = self._cost(measured) < self.state.best
        averaged = self.settings.average_last
        self.log.write(self.state.update, **numbers, averaged=averaged, improved=better, minutes=minutes)
        self.reporter.say(f"Average of the last models: {_in_words(measured)}{' (kept)' if better else ''}")
        if better:
            self.state.best = self._cost(measured)
            save_weights(self.directory, average)

    # Progress

    def _report(self, meter: _Meter, bar: Bar, batches: int) -> None:
        state, settings = self.state, self.settings
        shares = [0.0]
        if settings.max_epochs is not None:
            shares.append((state.epoch + state.batch / batches) / settings.max_epochs)
        if settings.max_updates is not None:
            shares.append(state.update / settings.max_updates)
        if settings.max_minutes is not None:
            shares.append(state.seconds / settings.max_minutes / 60)
        numbers = meter.numbers()
        bar.advance(
            min(max(shares), 1.0),
            f"epoch {state.epoch + 1}, update {state.update:,}, loss {numbers['loss']:.3f}, "
            f"{numbers['bits_per_character']:.3f} bits/char, {numbers['characters_per_second']:,.0f} chars/s",
        )
        if state.update % LOG_EVERY == 0:
            self.log.write(state.update, epoch=state.epoch, minutes=round(state.seconds / 60, 3), **numbers)
            meter.reset()

    # Stopping and going on

    def _save(self) -> None:
        state = self.state
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, values in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": tensor for name, tensor in values.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.model.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.model.device)
        if self.model.device.type == "mps":
            tensors["random.mps"] = torch.mps.get_rng_state()
        self.checkpoints.save(state.update, tensors, asdict(state))

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint, if there is one."""
        checkpoint, problems = self.checkpoints.latest()
        for problem in problems:
            self.reporter.warn(f"damaged checkpoint: {problem}")
        if checkpoint is None:
            if (self.directory / WEIGHTS).exists():
                raise UserError(
                    f"{self.directory}: has a model, but no whole checkpoint to go on from. Training would begin anew "
                    f"and replace it; choose another --output, or move {WEIGHTS} away first"
                )
            return False
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "random": {}}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.model.load_state_dict(parts["model"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimiser"].items():
            index, _, moment = name.partition(".")
            moments.setdefault(int(index), {})[moment] = tensor
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": moments})
        torch.set_rng_state(parts["random"]["cpu"])
        if "cuda" in parts["random"] and self.model.device.type == "cuda":
            torch.cuda.set_rng_state(parts["random"]["cuda"], self.model.device)
        if "mps" in parts["random"] and self.model.device.type == "mps":
            torch.mps.set_rng_state(parts["random"]["mps"])
        self.state = State(**checkpoint.state)
        self.reporter.say(f"Going on from update {self.state.update:,}")
        return True

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the run after the update under way; a second Ctrl-C ends it at once."""

        def request(number: int, frame: FrameType | None) -> None:
            self.stop_signal = signal.Signals(number).name
            signal.signal(number, before[number])

        before: dict[int, Any] = {}
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            try:
                before[number] = signal.signal(number, request)
            except ValueError:  # not in the main thread: whoever runs us there stops us in their own way
                break
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _precision(self) -> Any:
        return torch.autocast(self.model.device.type, dtype=self.autocast, enabled=self.autocast is not None)


class _Meter:
    """Averages since the last line of the log."""

    def __init__(self) -> None:
        self.reset()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens meanwhile does not count as training time."""
        began = time.monotonic()
        yield
        self.begun += time.monotonic() - began

    def reset(self) -> None:
        self.nats, self.characters, self.rate, self.begun = 0.0, 0, 0.0, time.monotonic()
        self.largest_norm = 0.0

    def add(self, nats: float, characters: int, rate: float, norm: float) -> None:
        self.nats, self.characters, self.rate = self.nats + nats, self.characters + characters, rate
        self.largest_norm = max(self.largest_norm, norm)

    def numbers(self) -> dict[str, float]:
        loss = self.nats / max(self.characters, 1)
        return {
            "loss": round(loss, 5),
            "bits_per_character": round(loss / math.log(2), 5),
            "characters_per_second": round(self.characters / max(time.monotonic() - self.begun, 1e-9), 1),
            "learning_rate": self.rate,
            "largest_gradient_norm": round(self.largest_norm, 5),
        }


def _in_words(measured: dict[str, float]) -> str:
    words = {"bits_per_character": "{:.4f} bits per character", "chrf": "chrF {:.2f}"}
    return ", ".join(words[name].format(value) for name, value in measured.items())


def _groups(batches: list[Any], first: int, size: int) -> Iterator[list[Any]]:
    for start in range(first, len(batches), size):
        yield batches[start : start + size]


def _autocast_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    if precision == "float32":
        return None
    if precision == "bf16":
        return torch.bfloat16
    return torch.bfloat16 if device.type == "cuda" and has_bf16(device) else None
