"""Signals that end a run: when the update under way is done, and not before."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class StopRequest:
    """Whether a signal has asked the run to stop, and which."""

    signal: str | None = None

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Meanwhile Ctrl-C and SIGTERM only leave their name here; a second one of the same ends the run at once."""

        def request(number: int, frame: FrameType | None) -> None:
            self.signal = signal.Signals(number).name
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
