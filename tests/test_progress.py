"""Progress: what a log file gets."""

from __future__ import annotations

import pytest

from ssmt import progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


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


def test_durations() -> None:
    assert [progress.duration(s) for s in (0.4, 61, 3661)] == ["0:00", "1:01", "1:01:01"]
