"""Work by several processes: in order, bounded, and ended with whoever asked for it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from ssmt.text.workers import AHEAD, worked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    def square(number: int) -> tuple[int, bool]:
        time.sleep(0.001 * (number % 3))
        return number**2, os.getpid() == parent

    parent = os.getpid()
    results = list(worked(square, range(40), processes))
    assert [result for result, _ in results] == [number**2 for number in range(40)]
    assert {here for _, here in results} == {processes == 1}


def test_no_more_is_read_than_is_under_way() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    results = worked(abs, items(), 2)
    for done in range(1, 20):
        next(results)
        assert taken <= done + AHEAD * 2
    results.close()  # type: ignore[attr-defined]


def test_an_error_of_the_work_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(worked(lambda number: 1 // number, [1, 0], 2))


def test_workers_end_with_a_parent_that_is_killed() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for worker in worked(lambda _: os.getpid(), range(1000), 2):
                os.write(writing, f"{worker}\n".encode())
                time.sleep(0.01)
        finally:
            os._exit(0)
    workers: set[int] = set()
    while len(workers) < 2:
        workers |= set(map(int, os.read(reading, 1000).split()))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, workers))


def is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
