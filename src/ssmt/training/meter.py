"""The numbers of the updates under way."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Meter:
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
