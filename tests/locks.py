"""Somebody else who is at work in a directory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssmt.training.lock import alone


@contextmanager
def another_at_work(directory: Path) -> Iterator[None]:
    """A thread that has the directory to itself: to the lock, threads are as different as processes."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with alone(directory):
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        other.join()
