"""Progress: what a log file, a terminal of any width and a notebook get."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Any

import pytest
from rich.console import Console

from ssmt import progress
from ssmt.cli.shared import forget_odd_widths


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False, color_system=None)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_messages_that_cannot_be_written_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        reporter = progress.TerminalReporter()
        for message in ("lost", "lost too"):
            reporter.say(message)


def test_a_terminal_that_says_it_has_no_columns() -> None:
    assert progress._wrapped("there is none", 0) == "there\nis\nnone"


@pytest.mark.parametrize("columns", ["0", "-5", "²", "x", "", "99999999", "9" * 5000])
def test_widths_that_no_terminal_has_are_forgotten(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "24")
    forget_odd_widths()
    assert ("COLUMNS" in os.environ, os.environ["LINES"]) == (False, "24")


def test_the_time_left_is_judged_by_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    said: list[str] = []
    reporter = progress.Reporter()
    reporter.say = said.append  # type: ignore[method-assign]
    bar = progress._LogBar(reporter, "training", 100.0)
    bar.advance(60.0, "loss 2")  # a resumed run: nothing of this was done now
    clock.now = 31.0
    bar.advance(70.0, "loss 1")
    clock.now = 40.0
    bar.advance(71.0, "too soon for another line")
    assert said == ["training: 70%, loss 1, 1:33 left"]


NUMBERS = "epoch 12, update 123,456, 1.234 bits/char, 12,345 chars/s"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "50%  epoch 12"),
        (80, "50%  epoch 12, update 123,456, 1.234 bits/char"),
        (120, f"50%  {NUMBERS}"),
    ],
)
def test_a_bar_fits_its_terminal(width: int, shown: str) -> None:
    console = terminal(width)
    with progress.TerminalReporter(console).bar("training", 1.0) as bar:
        bar.advance(0.5, NUMBERS)
        assert isinstance(bar, progress._TerminalBar)
        bar.progress.refresh()
        (line,) = "".join(
            segment.text for segment in console.render(bar.progress.get_renderable(), console.options)
        ).splitlines()
    assert len(line) == width - progress.ROOM_FOR_ECHO
    assert re.fullmatch(rf"training [━╺╸ ]{{{progress.SHORTEST_BAR},}} (\S.*\S)", line)[1] == shown  # type: ignore[index]


def test_of_what_has_no_end_only_the_numbers_are_shown() -> None:
    assert progress._fitting("", "12 lines", "", 40) == "12 lines"


def test_a_terminal_breaks_lines_between_words_and_long_words_never() -> None:
    signature = "nrefs:1|case:mixed|" * 4
    console = terminal(40)
    progress.TerminalReporter(console).say(f"The difference from the best one is not significant\n{signature}")
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert written == f"The difference from the best one is not\nsignificant\n{signature}\n"


def test_elsewhere_nothing_is_broken() -> None:
    console = Console(file=io.StringIO(), width=40)
    progress.TerminalReporter(console).say("word " * 20 + "end")
    assert console.file.getvalue().count("\n") == 1  # type: ignore[attr-defined]


def test_a_notebook_gets_lines_and_a_bar_that_is_drawn_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    display = pytest.importorskip("IPython.display")
    drawn: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            drawn.append(data["text/plain"])

    def show(data: dict[str, str], **_: Any) -> Handle:
        drawn.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr(display, "display", show)
    reporter = progress.NotebookReporter()
    reporter.say("hello")
    with reporter.bar("training", 2.0) as bar:
        bar.advance(0.5, "epoch 1")
        bar.advance(1.0, "epoch 2")
    assert capsys.readouterr().out == "hello\n"
    assert drawn[0] == "training"
    assert "50%  epoch 2" in drawn[-1]
    assert drawn[-1].count("█") == progress._NotebookBar.WIDTH // 2


def test_outside_of_a_notebook_there_is_a_terminal() -> None:
    assert isinstance(progress.reporter_here(), progress.TerminalReporter)


def test_durations() -> None:
    assert [progress.duration(s) for s in (0.4, 61, 3661)] == ["0:00", "1:01", "1:01:01"]
    assert [progress.about(s) for s in (0.4, 62, 300, 7200)] == [
        "about 5 seconds", "about 60 seconds", "about 5 minutes", "about 2.0 hours",
    ]  # fmt: skip


def test_plurals() -> None:
    assert [progress.plural(count, "line") for count in (0, 1, 2000)] == ["0 lines", "1 line", "2,000 lines"]
