"""The training loop.

Everything that decides the next update (weights, optimiser, place in the epoch) is in the checkpoint; the order of
batches is a function of seed and epoch, and random numbers are one of seed and update: a resumed run makes the same
updates as one that never stopped. Of several processes (`distributed`), each runs this loop and makes every update.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from ssmt.config import Config
from ssmt.directory import WEIGHTS, save_weights
from ssmt.errors import UserError
from ssmt.model.dropout import set_dropout
from ssmt.model.translation import Loss, TranslationModel
from ssmt.progress import Bar, Reporter, duration, plural
from ssmt.text.batch import Batch
from ssmt.text.corpus import Corpus
from ssmt.training.checkpoint import Checkpoints
from ssmt.training.distributed import Processes, deal_out
from ssmt.training.limits import Forecast, Limit, reached_limit, share_of_run
from ssmt.training.log import NoLog, RunLog
from ssmt.training.meter import Meter
from ssmt.training.precision import precision_of
from ssmt.training.schedule import dropout, learning_rate
from ssmt.training.signals import StopRequest
from ssmt.training.state import State, capture, restore
from ssmt.training.validation import cost, in_words, measure

LOG_EVERY = 50  # updates


class Share(NamedTuple):
    """What a process has to do with an update."""

    batches: list[Batch]
    characters: int  # of the whole update
    batches_of_all: int


class Trainer:
    def __init__(
        self,
        network: TranslationModel,
        config: Config,
        train: Corpus,
        valid: Corpus,
        directory: Path,
        reporter: Reporter,
        processes: Processes | None = None,
    ) -> None:
        self.network, self.config, self.settings = network, config, config.training
        self.processes = processes or Processes(network.device)
        self.model = self.processes.wrapped(network)  # what updates call
        self.train_corpus, self.valid_corpus = train, valid
        self.directory, self.reporter = directory, reporter
        self.inode = directory.stat().st_ino  # another directory can come to have the same name
        self.checkpoints = Checkpoints(directory / "checkpoints")
        self.optimiser = torch.optim.AdamW(
            network.parameters(),
            lr=self.settings.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=self.settings.weight_decay,
            fused=True,
        )
        self.precision = precision_of(self.settings.precision, network.device)
        self.state, self.meter, self.stop = State(), Meter(), StopRequest(self._acknowledge)
        self.stopped_by: str | None = None  # a signal of which all processes know
        self.last_batches: list[Batch] = []  # of the last update

    # The loop

    def run(self) -> str | None:
        """Train until a limit is reached. Returns the name of the signal that ended it before, if one did."""
        limit = self.reached_limit() if self.resume() else None
        if limit and self.state.finished_at == self.state.update:
            self.reporter.say(f"Nothing to do: {limit.words}. A larger training.{limit.setting} lets it go on")
            return None
        self.log = RunLog(self.directory, self.state) if self.processes.is_first else NoLog()
        self.begun = time.monotonic() - self.state.seconds
        try:
            with self.stop.awaited():
                if not self._is_over():
                    self._learn_alignment()
                    with self.reporter.bar("training", 1.0) as bar:
                        self._train(bar)
                if self.stopped_by is None:
                    self._finish()
        finally:
            self.log.close()
        return self.stopped_by

    def _learn_alignment(self) -> None:
        """From the training text, in every session anew; in the first one it counts as time of training."""
        if not self.settings.alignment_weight:
            return
        self.reporter.say("Aligning the training text")
        began = time.process_time()
        self.train_corpus.learn_alignment(self.network.vocabulary)
        if self.state.update == 0:
            self._read_clocks(began)
            self._agree()  # the clocks decide how fast all learn

    def _train(self, bar: Bar) -> None:
        self.meter.reset()
        forecast = Forecast(self.settings, self.reporter)
        began = time.process_time()
        for share, epoch_batches in self._shares():
            forecast.begin(self.state, epoch_batches)
            rate = learning_rate(
                self.settings, self.state.update + 1, share_of_run(self.settings, self.state, epoch_batches)
            )
            passes = self.state.epoch + self.state.batch / epoch_batches
            set_dropout(self.network, dropout(self.config.network.dropout, self.settings, passes))
            self._update(share.batches, share.characters, rate)
            self.last_batches = share.batches
            self.state.batch += share.batches_of_all
            self._read_clocks(began)
            self._report(bar, epoch_batches)
            forecast.look(self.state, epoch_batches)
            if self._ends_after_update(epoch_batches):
                return
            began = time.process_time()  # validation and checkpoints are free, and making a batch is not

    def _shares(self) -> Iterator[tuple[Share, int]]:
        """What this process has to do with each update from the state's place on, and how many batches an epoch has."""
        settings, corpus = self.settings, self.train_corpus
        while True:
            epoch = self.state.epoch
            drawn_by = settings.language_temperature, settings.joined_pairs
            order = corpus.batches(settings.batch_characters, settings.seed, epoch, *drawn_by)
            if self.state.batch >= len(order):
                raise UserError(f"{self.directory}: its checkpoint is at a place that its data does not have")
            for start in range(self.state.batch, len(order), settings.accumulate):
                chosen = order[start : start + settings.accumulate]
                parts = self.processes.share(deal_out(chosen, self.processes.count))
                real = [part for part in parts if len(part)]
                # An update of few sentences may have none for this process, but all take part: with one that counts 0.
                nothing = replace(corpus.batch(chosen[0][:1], epoch), characters=0, lines=()) if not real else None
                batches = [nothing] if nothing else [corpus.batch(part, epoch) for part in real]
                characters = int(corpus.characters_of(np.concatenate(chosen)).sum())
                yield Share(batches, characters, len(chosen)), len(order)

    def _update(self, batches: Sequence[Batch], characters: int, rate: float) -> None:
        """One step of the optimiser. The summed loss is divided by `characters`: those of the whole update, of which
        another process may have batches too."""
        self.model.train()
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        nats, bad = 0.0, list[Batch]()
        for place, batch in enumerate(batches):
            self._seed_random_numbers(place)
            with self.processes.adding_up(self.model, now=place == len(batches) - 1):
                with self.precision():
                    loss: Loss = self.model(batch.to(self.network.device))
                nats_of_batch = loss.nats.item() * (batch.characters > 0)  # a synchronisation
                # Gradients of several processes are averaged, not added: hence the factor.
                weight = self.processes.count * (batch.characters > 0)
                (loss.minimised * weight / characters).backward()  # type: ignore[no-untyped-call]
            nats += nats_of_batch
            bad += [] if math.isfinite(nats_of_batch) else [batch]
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip_norm)
        nats = self.processes.total(nats)
        if not math.isfinite(nats):  # one bad batch must not reach the weights
            self._stop_not_finite(bad)
        if not torch.isfinite(norm):
            self._stop_not_finite(batches)
        self.optimiser.step()
        self.state.update += 1
        self.meter.add(nats, characters, rate, norm.item())

    def _seed_random_numbers(self, place: int) -> None:
        """Those of dropout are a function of the seed, the update and the part of it, whoever computes it and whatever
        that process has done before."""
        part = self.processes.rank + place * self.processes.count
        seeds = np.random.SeedSequence((self.settings.seed, self.state.update, part))
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))

    def _require_good_weights(self) -> None:
        """Refuse to keep weights that the last update has spoilt: by their values, and by the loss that they now give.
        (Without dropout, so that no random number is drawn.)"""
        is_good = all(bool(parameter.isfinite().all()) for parameter in self.network.parameters())
        if is_good and self.last_batches:
            self.network.eval()
            with torch.no_grad(), self.precision():
                losses = self.network.log_probability(self.last_batches[0].to(self.network.device))
            is_good = bool(losses.isfinite().all())
        if not is_good:
            self._stop_diverged()

    def _stop_diverged(self) -> NoReturn:
        raise UserError(
            f"The run has diverged: after update {self.state.update:,} its loss is not finite, and nothing of that is "
            f"kept. The last good checkpoint, if there is one, is in {self.checkpoints.directory}. Train with a lower "
            f"training.learning_rate or more training.warmup_updates"
        )

    def _stop_not_finite(self, batches: Sequence[Batch]) -> NoReturn:
        lines_of_all = self.processes.gathered([line for batch in batches for line in batch.lines])
        lines = sorted({line for lines in lines_of_all for line in lines})
        shown = ", ".join(map(str, lines[:20])) + (f" and {len(lines) - 20} more" if len(lines) > 20 else "")
        raise UserError(
            f"The loss of update {self.state.update + 1} is not finite. Its batch has the training lines {shown}. "
            f"The last good checkpoint is kept in {self.checkpoints.directory}. Look at those lines, or train with a "
            f"lower training.learning_rate or more training.warmup_updates"
        )

    def _ends_after_update(self, epoch_batches: int) -> bool:
        """Validate or save where it is time to; whether a signal or a limit ends the run here."""
        state, settings = self.state, self.settings
        epoch_is_over = state.batch >= epoch_batches
        if epoch_is_over:
            state.epoch, state.batch = state.epoch + 1, 0
        every = settings.validate_every
        validation_is_due = state.update % every == 0 if every else epoch_is_over
        if validation_is_due:
            self._validate()
        elif state.update % settings.checkpoint_every == 0:
            self._save()
        self._agree()
        is_over = self.stopped_by is None and self._is_over()
        if self.stopped_by is not None:
            self._save()
            return True
        return is_over

    def _is_over(self) -> bool:
        """Whether a limit is reached. The weights are validated first if they are not yet: patience may begin anew."""
        if self.reached_limit() and self.state.validated_at != self.state.update:
            self._save()  # whatever happens meanwhile
            self._validate()
            self._agree()
        return self.reached_limit() is not None

    def _agree(self) -> None:
        """A signal to one process stops all, after the same update; and the first one's clocks are everybody's."""
        of_processes = self.processes.gathered((self.state.seconds, self.state.cpu_seconds, self.stop.signal))
        self.state.seconds, self.state.cpu_seconds, _ = of_processes[0]
        self.stopped_by = next((signal for *_, signal in of_processes if signal), None)

    def _read_clocks(self, update_began: float | None = None) -> None:
        """In the first process: the time, and the CPU time since an update began."""
        if self.processes.is_first:
            self.state.seconds = time.monotonic() - self.begun
            self.state.cpu_seconds += 0.0 if update_began is None else time.process_time() - update_began

    def reached_limit(self) -> Limit | None:
        """Which limit the run has reached, if any."""
        return reached_limit(self.settings, self.state)

    def _finish(self) -> None:
        if self.settings.average_last > 1 and (average := self._average()):
            self._try_average(average)
        self.state.finished_at = self.state.update
        self._save()
        minutes = duration(self.state.seconds)
        limit = self.reached_limit()
        assert limit is not None, "a run that no signal ends, ends at a limit"
        self.reporter.say(f"Done: {limit.words}. {plural(self.state.update, 'update')} in {minutes}")
        best = {self.settings.decides: cost(self.settings.decides, self.state.best)}
        self.reporter.say(f"Best validation: {in_words(best)}. Model: {self.directory}")

    # Validation

    def _validate(self) -> None:
        with self.meter.paused():
            measured = self._measure()
        self.state.validated_at = self.state.update
        if improved := self._is_best(measured):
            self.state.best_at = self.state.update
        is_better = self._has_fewest_bits(measured) or improved
        self.state.validations_since_best = 0 if is_better else self.state.validations_since_best + 1
        if self.settings.average_last > 1 and self.processes.is_first:
            self.checkpoints.save_validated(self.state.update, self.network.state_dict(), self.settings.average_last)
        self._read_clocks()
        self.log.write(
            self.state.update,
            epoch=self.state.epoch,
            **{f"valid_{name}": value for name, value in measured.items()},
            improved=improved,
            **self._minutes(),
        )
        # The checkpoint before the model: a run that ends between the two keeps the model when it goes on (`resume`).
        self._save()
        if improved:
            self._keep_as_model(self.network.state_dict())
        self.reporter.say(
            f"epoch {self.state.epoch_from_one}, update {self.state.update:,}, {duration(self.state.seconds)}: "
            f"{in_words(measured)} on validation{' (best)' if improved else ''}"
        )

    def _try_average(self, average: dict[str, Tensor]) -> None:
        """Validate the average of the last models and keep it where it is better."""
        trained = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.network.load_state_dict(average)
        measured = self._measure()
        self.network.load_state_dict(trained)  # a run that goes on goes on from these
        improved = self._is_best(measured)
        if improved:
            self._keep_as_model(average)
        self.log.write(
            self.state.update,
            **{f"average_{name}": value for name, value in measured.items()},
            averaged=self.settings.average_last,
            improved=improved,
            **self._minutes(),
        )
        self.reporter.say(f"Average of the last models: {in_words(measured)}{' (kept)' if improved else ''}")

    def _keep_as_model(self, weights: dict[str, Tensor]) -> None:
        if self.processes.is_first:
            save_weights(self.directory, weights)

    def _average(self) -> dict[str, Tensor] | None:
        return self.checkpoints.average(self.settings.average_last, self.network.state_dict())

    def _measure(self) -> dict[str, float]:
        measured = measure(self.network, self.config, self.valid_corpus, self.precision, self.processes)
        if not all(map(math.isfinite, measured.values())):
            self._stop_diverged()
        return measured

    def _is_best(self, measured: dict[str, float]) -> bool:
        """Whether weights are better than all before, which makes them the run's model. Of equally good ones (all of a
        hard text's first translations are worth nothing), those that know the text better."""
        measured_cost = cost(self.settings.decides, measured[self.settings.decides])
        knows_more = self.settings.stop_on == "auto" and measured["bits_per_character"] < self.state.fewest_bits
        improved = measured_cost < self.state.best or (measured_cost == self.state.best and knows_more)
        if improved:
            self.state.best = measured_cost
        return improved

    def _has_fewest_bits(self, measured: dict[str, float]) -> bool:
        """Whether a model still learns, where that is asked for: chrF of few sentences is better by chance or not."""
        fewer = measured["bits_per_character"] < self.state.fewest_bits
        self.state.fewest_bits = min(self.state.fewest_bits, measured["bits_per_character"])
        return fewer and self.settings.stop_on == "auto"

    # Progress

    def _report(self, bar: Bar, epoch_batches: int) -> None:
        state, numbers = self.state, self.meter.numbers()
        bar.advance(
            share_of_run(self.settings, state, epoch_batches),
            f"epoch {state.epoch_from_one}, update {state.update:,}, {numbers['bits_per_character']:.3f} bits/char, "
            f"{numbers['characters_per_second']:,.0f} chars/s",
        )
        if state.update % LOG_EVERY == 0:
            self.log.write(state.update, epoch=state.epoch, **self._minutes(), **numbers)
            self.meter.reset()

    def _minutes(self) -> dict[str, float]:
        """How long the run has taken, for the log."""
        return {"minutes": round(self.state.seconds / 60, 3), "cpu_minutes": round(self.state.cpu_seconds / 60, 3)}

    # Stopping and going on

    def _acknowledge(self) -> None:
        self.reporter.say(
            "Stopping: what is under way is finished and saved first. Asked again, it stops at once, and loses what "
            "came after the last checkpoint"
        )

    def _save(self) -> None:
        if not self.processes.is_first:
            return
        if not self.directory.is_dir() or self.directory.stat().st_ino != self.inode:
            raise UserError(f"{self.directory}: was removed while the run was under way; nothing of it is saved")
        self._require_good_weights()
        self.checkpoints.save(self.state.update, *capture(self.state, self.network, self.optimiser))

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint, if there is one."""
        checkpoint, problems = self.checkpoints.latest() if self.processes.is_first else (None, [])
        for problem in problems:
            self.reporter.warn(f"damaged checkpoint: {problem}")
        name = self.processes.of_first(checkpoint and checkpoint.name)
        if name is None:
            if (self.directory / WEIGHTS).exists():
                raise UserError(
                    f"{self.directory}: has a model, but no whole checkpoint to go on from. Training would begin anew "
                    f"and replace it; choose another directory, or move {WEIGHTS} away first"
                )
            return False
        checkpoint = checkpoint or self.checkpoints.load(name)
        try:
            self.state = restore(checkpoint.stored, self.network, self.optimiser)
        except ValueError as error:
            raise UserError(
                f"{self.checkpoints.directory}: the newest checkpoint is not of this run ({error}); move it away "
                f"to go on without it"
            ) from None
        state = self.state
        # The run may have ended before its best weights were kept.
        if 0 < state.update == state.best_at != state.finished_at:
            self._keep_as_model(self.network.state_dict())
        self.reporter.say(f"Going on from update {self.state.update:,}")
        return True
