"""The numbers of the updates under way."""

from __future__ import annotations

import math

import pytest

from ssmt.training.meter import Meter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("ssmt.training.meter.time.monotonic", lambda: now[0])
    return now


def test_numbers_are_of_all_updates_since_the_last_reset(clock: list[float]) -> None:
    meter = Meter()
    meter.add(nats=1000.0, characters=10, rate=0.5, norm=9.0)
    meter.reset()
    meter.add(nats=30.0, characters=10, rate=0.1, norm=2.0)
    meter.add(nats=30.0, characters=30, rate=0.2, norm=1.0)
    clock[0] += 4.0
    assert meter.numbers() == {
        "loss": 1.5,
        "bits_per_character": round(1.5 / math.log(2), 5),
        "characters_per_second": 10.0,
        "learning_rate": 0.2,
        "largest_gradient_norm": 2.0,
    }


def test_pauses_do_not_count(clock: list[float]) -> None:
    meter = Meter()
    meter.add(nats=1.0, characters=40, rate=0.1, norm=1.0)
    clock[0] += 3.0
    with meter.paused():
        clock[0] += 1000.0
    clock[0] += 1.0
    assert meter.numbers()["characters_per_second"] == 10.0
