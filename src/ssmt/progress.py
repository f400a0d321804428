"""Messages and progress, in one place: a terminal or a notebook gets bars, a log file gets lines, a library user gets
silence."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol, TypeVar, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ssmt.streams import write_nowhere

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 30.0  # of a log file
SECONDS_BETWEEN_DRAWINGS = 0.25  # of a notebook
SHORTEST_BAR = 10  # columns
ROOM_FOR_ECHO = 3  # columns: a terminal writes ^C behind the bar; in the next line it would leave the bar there


class Bar(Protocol):
    def advance(self, done: float, text: str = "") -> None:
        """`done` of the total is done; `text` are the numbers of the moment, the most important first: where there is
        no room for all, those after the last comma go first."""


class Reporter:
    """Says nothing. The base of the others, and what the Python interface uses."""

    def say(self, message: str) -> None: ...

    def warn(self, message: str) -> None: ...

    @contextmanager
    def bar(self, title: str, total: float | None, log: bool = True) -> Iterator[Bar]:
        """Progress of something long, or of something whose end is not known (total: none); with `log`, also as lines
        now and then where there is no terminal."""
        yield _NoBar()


class _NoBar:
    def advance(self, done: float, text: str = "") -> None: ...


class _StandardError:
    """Standard error, whichever it is at the moment. Once it cannot be written (a reader that has gone, a full disk),
    messages are lost, and what they are about goes on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    @property
    def rich_proxied_file(self) -> _StandardError:  # which rich asks for: while it draws, sys.stderr is its own
        return self

    def write(self, text: str) -> int:
        with self._going_on() as stream:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._going_on() as stream:
            stream.flush()

    @contextmanager
    def _going_on(self) -> Iterator[Any]:
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        try:
            yield stream
        except OSError:
            write_nowhere([stream.fileno()])


class TerminalReporter(Reporter):
    """Messages on standard error, so that standard output stays clean; bars where that is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=cast(IO[str], _StandardError()), highlight=False)

    def say(self, message: str) -> None:
        print_wrapped(self.console, message)

    def warn(self, message: str) -> None:
        print_wrapped(self.console, f"warning: {message}", "yellow")

    @contextmanager
    def bar(self, title: str, total: float | None, log: bool = True) -> Iterator[Bar]:
        if not self.console.is_terminal:
            yield _LogBar(self, title, total) if log else _NoBar()
            return
        drawn = BarColumn()
        columns = (
            TextColumn("{task.description}", markup=False),
            drawn,
            TextColumn("{task.fields[text]}", markup=False),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield _TerminalBar(progress, progress.add_task(title, total=total, text=""), drawn, title, total)


def print_wrapped(console: Console, text: str, style: str | None = None) -> None:
    """A terminal breaks lines between words only, and what is longer than a line not at all: paths and signatures are
    copied from there. Elsewhere nothing is broken."""
    if console.is_terminal:
        text = "\n".join(_wrapped(line, console.width) for line in text.split("\n"))
    console.print(text, style=style, markup=False, soft_wrap=True)


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, max(width, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


class _Pace:
    """How much is done and how long the rest will take, judged by what was done since the first look: a resumed run
    begins in the middle."""

    def __init__(self, total: float | None) -> None:
        self.total = total
        self.first: tuple[float, float] | None = None  # time, share

    def percent(self, done: float) -> str:
        return "" if self.total is None else f"{done / self.total if self.total else 1.0:.0%}"

    def left(self, done: float) -> str:
        if self.total is None:
            return ""
        now, share = time.monotonic(), done / self.total if self.total else 1.0
        if self.first is None:
            self.first = now, share
        gained = share - self.first[1]
        return f"{duration((now - self.first[0]) / gained * (1 - share))} left" if gained > 0 and share < 1 else ""


class _TerminalBar:
    def __init__(self, progress: Progress, task: TaskID, drawn: BarColumn, title: str, total: float | None) -> None:
        self.progress, self.task, self.drawn, self.title, self.pace = progress, task, drawn, title, _Pace(total)

    def advance(self, done: float, text: str = "") -> None:
        room = self.progress.console.width - len(self.title) - ROOM_FOR_ECHO - 2  # and two blanks
        shown = _fitting(self.pace.percent(done), text, self.pace.left(done), room - SHORTEST_BAR)
        self.drawn.bar_width = max(room - len(shown), SHORTEST_BAR)
        self.progress.update(self.task, completed=done, text=shown)


def _fitting(percent: str, text: str, left: str, room: int) -> str:
    """What a line has room for: of the text, as many of its parts as that leaves."""
    parts = text.split(", ") if text else []
    while True:
        shown = "  ".join(part for part in (percent, ", ".join(parts), left) if part)
        if len(shown) <= room or not parts:
            return shown if len(shown) <= room else percent
        parts.pop()


class _LogBar:
    def __init__(self, reporter: Reporter, title: str, total: float | None) -> None:
        self.reporter, self.title, self.pace = reporter, title, _Pace(total)
        self.last = time.monotonic()

    def advance(self, done: float, text: str = "") -> None:
        left, now = self.pace.left(done), time.monotonic()
        if now - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = now
        self.reporter.say(f"{self.title}: {', '.join(part for part in (self.pace.percent(done), text, left) if part)}")


class NotebookReporter(Reporter):
    """Messages and bars below the cell of a notebook."""

    def say(self, message: str) -> None:
        print(message)

    def warn(self, message: str) -> None:
        print(f"warning: {message}")

    @contextmanager
    def bar(self, title: str, total: float | None, log: bool = True) -> Iterator[Bar]:
        from IPython.display import display

        handle = display({"text/plain": title}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        bar = _NotebookBar(handle, title, total)
        try:
            yield bar
        finally:
            bar.draw()


class _NotebookBar:
    WIDTH = 30

    def __init__(self, handle: Any, title: str, total: float | None) -> None:
        self.handle, self.title, self.pace = handle, title, _Pace(total)
        self.shown, self.last = title, 0.0

    def advance(self, done: float, text: str = "") -> None:
        filled = round(self.WIDTH * min(done / self.pace.total, 1.0)) if self.pace.total else 0
        drawn = "█" * filled + "░" * (self.WIDTH - filled)
        numbers = [part for part in (self.pace.percent(done), text, self.pace.left(done)) if part]
        self.shown = f"{self.title} {drawn} {'  '.join(numbers)}"
        if time.monotonic() - self.last > SECONDS_BETWEEN_DRAWINGS:
            self.draw()

    def draw(self) -> None:
        self.last = time.monotonic()
        self.handle.update({"text/plain": self.shown}, raw=True)


def reporter_here() -> Reporter:
    """The reporter of a notebook inside one, else that of a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return NotebookReporter() if hasattr(shell, "kernel") else TerminalReporter()


def duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def about(seconds: float) -> str:
    """A duration that is an estimate, in words."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} seconds"
    minutes = seconds / 60
    return f"about {round(minutes)} minutes" if minutes < 90 else f"about {minutes / 60:.1f} hours"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def tracked(reporter: Reporter, items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that shows how many have been handled."""
    with reporter.bar(title, total, log=False) as bar:
        for done, item in enumerate(items, start=1):
            yield item
            bar.advance(done)
