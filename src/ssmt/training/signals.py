"""Signals that end a run: when the update under way is done, and not before."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ssmt.streams import write_nowhere

# Of the last: a terminal that was closed, a connection that broke. Windows has none.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """Whether a signal has asked the run to stop, and which."""

    signal: str | None = None

    def __init__(self, acknowledge: Callable[[], None] = lambda: None) -> None:
        """`acknowledge` is called when a signal has come: whoever sent it wants to know that it was noted."""
        self.acknowledge = acknowledge

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Meanwhile Ctrl-C, SIGTERM and SIGHUP only leave their name here; a second one of the same ends the run at
        once. What is ignored, as by `nohup`, stays ignored."""
        terminals = [number for number in (1, 2) if _is_terminal(number)]

        def request(number: int, frame: FrameType | None) -> None:
            self.signal = signal.Signals(number).name
            signal.signal(number, before[number])
            if self.signal == "SIGHUP":
                write_nowhere(terminals)  # an error of a terminal that is gone must not end the run before it is saved
            # In a thread of its own: what is being written when the signal comes must be written first.
            threading.Thread(target=self.acknowledge).start()

        before: dict[int, Any] = {}
        for number in map(int, SIGNALS):
            if signal.getsignal(number) == signal.SIG_IGN:
                continue
            try:
                before[number] = signal.signal(number, request)
            except ValueError:  # not in the main thread: whoever runs us there stops us in their own way
                break
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
