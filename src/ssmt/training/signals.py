"""Signals that end a run: when the update under way is done, and not before."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class StopRequest:
    """Whether a signal has asked the run to stop, and which."""

    signal: str | None = None

    def __init__(self, acknowledge: Callable[[], None] = lambda: None) -> None:
        """`acknowledge` is called when a signal has come: whoever sent it wants to know that it was noted."""
        self.acknowledge = acknowledge

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Meanwhile Ctrl-C and SIGTERM only leave their name here; a second one of the same ends the run at once."""

        def request(number: int, frame: FrameType | None) -> None:
            self.signal = signal.Signals(number).name
            signal.signal(number, before[number])
            # In a thread of its own: what is being written when the signal comes must be written first.
            threading.Thread(target=self.acknowledge).start()

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
