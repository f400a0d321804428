"""Where a run ends, how much of it is over, and what can be said of that beforehand."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ssmt.config import TrainingConfig
from ssmt.progress import Reporter, about, plural
from ssmt.training.state import State

SECONDS_TO_JUDGE = 10.0  # of training, before its pace says how long the rest takes


@dataclass(frozen=True)
class Limit:
    """A limit that a run has reached: the setting that lets it go on, and the limit in words."""

    setting: str
    words: str


def reached_limit(settings: TrainingConfig, state: State) -> Limit | None:
    epochs, updates, patience = settings.max_epochs, settings.max_updates, settings.patience
    minutes, cpu_minutes = settings.max_minutes, settings.max_cpu_minutes
    if epochs is not None and state.epoch >= epochs:
        return Limit("max_epochs", f"{plural(epochs, 'epoch')} {_are(epochs)} over")
    if updates is not None and state.update >= updates:
        return Limit("max_updates", f"{plural(updates, 'update')} {_are(updates)} made")
    if minutes is not None and state.seconds >= minutes * 60:
        return Limit("max_minutes", f"{minutes:g} minute{'' if minutes == 1 else 's'} {_are(minutes)} over")
    if cpu_minutes is not None and state.cpu_seconds >= cpu_minutes * 60:
        minutes_of_cpu = f"{cpu_minutes:g} minute{'' if cpu_minutes == 1 else 's'} of CPU time"
        return Limit("max_cpu_minutes", f"{minutes_of_cpu} {_are(cpu_minutes)} over")
    is_patient = settings.min_epochs is not None and state.epoch < settings.min_epochs
    if patience is not None and state.validations_since_best >= patience and not is_patient:
        return Limit("patience", f"no improvement in {plural(patience, 'validation')}")
    return None


def _are(count: float) -> str:
    return "is" if count == 1 else "are"


def share_of_run(settings: TrainingConfig, state: State, epoch_batches: int) -> float:
    """How much of the run is over, by the limit that is nearest."""
    shares = [0.0]
    if settings.max_epochs is not None:
        shares.append((state.epoch + state.batch / epoch_batches) / settings.max_epochs)
    if settings.max_updates is not None:
        shares.append(state.update / settings.max_updates)
    if settings.max_minutes is not None:
        shares.append(state.seconds / settings.max_minutes / 60)
    if settings.max_cpu_minutes is not None:
        shares.append(state.cpu_seconds / settings.max_cpu_minutes / 60)
    return min(max(shares), 1.0)


class Forecast:
    """What is said at the beginning of a session: how many updates an epoch has; after the first seconds, how long the
    rest will take, and whether a limit comes before the first validation."""

    def __init__(self, settings: TrainingConfig, reporter: Reporter) -> None:
        self.settings, self.reporter = settings, reporter
        self.begun: tuple[float, int, float] | None = None  # time, update, share of the run
        self.is_said = False

    def begin(self, state: State, epoch_batches: int) -> None:
        if self.begun is not None:
            return
        every = self.settings.validate_every
        updates = self._updates(epoch_batches)
        when = "after each" if every is None else "after each update" if every == 1 else f"every {every:,} updates"
        self.reporter.say(f"An epoch has {plural(updates, 'update')}; validation {when}")
        self.begun = time.monotonic(), state.update, share_of_run(self.settings, state, epoch_batches)

    def look(self, state: State, epoch_batches: int) -> None:
        """After each update, until it is said."""
        assert self.begun is not None
        time_begun, update_begun, share_begun = self.begun
        seconds = time.monotonic() - time_begun
        if self.is_said or seconds < SECONDS_TO_JUDGE:
            return
        self.is_said = True
        share = share_of_run(self.settings, state, epoch_batches)
        if share >= 1 or share <= share_begun:
            return
        left = seconds / (share - share_begun) * (1 - share)
        unless = "" if self.settings.patience is None else ", or less, if validation stops improving"
        self.reporter.say(f"At this pace it takes {about(left)} more{unless}")
        updates_left = left * (state.update - update_begun) / seconds
        to_validation = self.settings.validate_every or self._updates(epoch_batches)
        if state.validated_at == 0 and state.update + updates_left < to_validation:
            self.reporter.say("It will end before its first validation is due; the model is validated once, at its end")

    def _updates(self, epoch_batches: int) -> int:
        return -(-epoch_batches // self.settings.accumulate)
