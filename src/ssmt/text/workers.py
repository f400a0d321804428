"""Work on many items by all cores, with bounded memory.

The processes are forked: what the work needs is there without being sent. They use neither torch nor a GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, TypeVar

from ssmt.errors import Unfinished

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2  # items for each process that are under way or wait to be taken

_work: Callable[[Any], Any]  # in a forked process


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def worked(work: Callable[[Item], Result], items: Iterable[Item], processes: int | None = None) -> Iterator[Result]:
    """The results, in the order of the items. Where processes cannot be forked safely, this one does it all."""
    count = cores() if processes is None else processes
    if count < 2 or sys.platform != "linux":
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("fork"), initializer=_begin, initargs=(work,))
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            if len(under_way) == AHEAD * count:
                yield under_way.popleft().result()
            under_way.append(pool.submit(_do, item))
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool:
        raise Unfinished(
            "A process that prepared the text was killed; perhaps the machine has too little memory. The same command "
            "goes on"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has forked this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _do(item: Any) -> Any:
    return _work(item)
