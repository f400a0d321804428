"""Requests to stop: noted, and heeded at once only when they are repeated."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ssmt.training.signals import StopRequest

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The signals that came to the handlers from before."""
    numbers: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: numbers.append(number)) for number in SIGNALS}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_is_noted_and_the_second_is_handled_as_before(handled: list[int], number: signal.Signals) -> None:
    stop = StopRequest()
    with stop.awaited():
        assert stop.signal is None
        signal.raise_signal(number)
        assert (stop.signal, handled) == (number.name, [])
        signal.raise_signal(number)
        assert handled == [number]


def test_afterwards_signals_are_handled_as_before(handled: list[int]) -> None:
    stop = StopRequest()
    with pytest.raises(RuntimeError), stop.awaited():
        raise RuntimeError
    for number in SIGNALS:
        signal.raise_signal(number)
    assert handled == list(SIGNALS)
    assert stop.signal is None


def test_in_another_thread_signals_are_left_alone(handled: list[int]) -> None:
    def handlers() -> list[Any]:
        return [signal.getsignal(number) for number in SIGNALS]

    def work() -> None:
        with StopRequest().awaited():
            during.extend(handlers())

    before, during = handlers(), list[Any]()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert before == during == handlers()


def test_it_is_acknowledged_at_once_and_once(handled: list[int]) -> None:
    told = threading.Event()
    with StopRequest(told.set).awaited():
        assert not told.is_set()
        signal.raise_signal(signal.SIGINT)
        assert told.wait(5)


def test_what_is_ignored_stays_ignored() -> None:
    """As `nohup` wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopRequest()
    with stop.awaited():
        signal.raise_signal(signal.SIGHUP)
    assert stop.signal is None
    signal.signal(signal.SIGHUP, before)
