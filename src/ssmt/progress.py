"""Messages and progress, in one place: a terminal gets bars, a log file gets lines, a library user gets silence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 30.0  # of a log file


class Bar(Protocol):
    def advance(self, done: float, text: str = "") -> None:
        """`done` of the total is done; `text` are the numbers of the moment."""


class Reporter:
    """Says nothing. The base of the others, and what the Python interface uses."""

    def say(self, message: str) -> None: ...

    def warn(self, message: str) -> None: ...

    @contextmanager
    def bar(self, title: str, total: float, log: bool = True) -> Iterator[Bar]:
        """Progress of something long; with `log`, also as lines now and then where there is no terminal."""
        yield _NoBar()


class _NoBar:
    def advance(self, done: float, text: str = "") -> None: ...


class TerminalReporter(Reporter):
    """Messages on standard error, so that standard output stays clean; bars where that is a terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, message: str) -> None:
        self.console.print(message, markup=False)

    def warn(self, message: str) -> None:
        self.console.print(f"warning: {message}", style="yellow", markup=False)

    @contextmanager
    def bar(self, title: str, total: float, log: bool = True) -> Iterator[Bar]:
        if not self.console.is_terminal:
            yield _LogBar(self, title, total) if log else _NoBar()
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[text]}", markup=False),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield _TerminalBar(progress, progress.add_task(title, total=total, text="", left=""), total)


class _Pace:
    """How long the rest will take, judged by what was done since the first look: a resumed run begins in the middle."""

    def __init__(self, total: float) -> None:
        self.total = total
        self.first: tuple[float, float] | None = None  # time, share

    def left(self, done: float) -> str:
        now, share = time.monotonic(), done / self.total if self.total else 1.0
        if self.first is None:
            self.first = now, share
        gained = share - self.first[1]
        return f"{duration((now - self.first[0]) / gained * (1 - share))} left" if gained > 0 and share < 1 else ""


class _TerminalBar:
    def __init__(self, progress: Progress, task: TaskID, total: float) -> None:
        self.progress, self.task, self.pace = progress, task, _Pace(total)

    def advance(self, done: float, text: str = "") -> None:
        self.progress.update(self.task, completed=done, text=text, left=self.pace.left(done))


class _LogBar:
    def __init__(self, reporter: Reporter, title: str, total: float) -> None:
        self.reporter, self.title, self.total, self.pace = reporter, title, total, _Pace(total)
        self.last = time.monotonic()

    def advance(self, done: float, text: str = "") -> None:
        left, now = self.pace.left(done), time.monotonic()
        if now - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = now
        share = f"{done / self.total if self.total else 1.0:.0%}"
        self.reporter.say(f"{self.title}: {', '.join(part for part in (share, text, left) if part)}")


def duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def tracked(reporter: Reporter, items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that shows how many have been handled."""
    with reporter.bar(title, total, log=False) as bar:
        for done, item in enumerate(items, start=1):
            yield item
            bar.advance(done)
