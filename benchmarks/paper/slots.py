"""Jobs side by side, in processes with one thread each that end when the process that started them does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from pathlib import Path

from paper.plan import Job, Plan, Train
from ssmt.errors import Stopped, UserError

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
Perform = Callable[[Job], str]


def work_through(plan: Plan, output: Path, processes: int, perform: Perform) -> Iterator[tuple[Job, str, bool]]:
    """Do what is not done yet. Yields each job as it ends, with what is to be said of it and whether it succeeded.

    A job that fails takes with it those that need it, and no others.
    """
    waiting = [job for job in plan.jobs if not job.result(output).exists()]
    if not waiting:
        return
    os.environ.update(ONE_THREAD)  # of the processes: it is read when torch is loaded
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        running: dict[Future[str], Job] = {}
        try:
            while waiting or running:
                for job in startable(waiting, list(running.values()), plan, processes):
                    waiting.remove(job)
                    running[pool.submit(perform, job)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    said, succeeded = _outcome(future)
                    yield job, said, succeeded
                    for lost in [other for other in waiting if not succeeded and job in other.needs]:
                        waiting.remove(lost)
                        yield lost, "what it needs has failed", False
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _outcome(future: Future[str]) -> tuple[str, bool]:
    """What a job has said, or why it failed; what ends all jobs is raised."""
    try:
        return future.result(), True
    except (Stopped, BrokenExecutor):
        raise
    except UserError as error:
        return str(error), False
    except Exception as error:  # a fault of ours: the night's other jobs are done all the same
        return f"{type(error).__name__}: {error}", False


def startable(waiting: Sequence[Job], running: Sequence[Job], plan: Plan, processes: int) -> list[Job]:
    """What to start now: in the plan's order, without what needs a job that is not done. Partners start together; until
    there is room for both, nothing goes before them, or they might wait for ever."""
    free = processes - len(running)
    started: list[Job] = []
    for job in waiting:
        if job in started or _are_missing(job.needs, waiting, running):
            continue
        partner = plan.partners.get(job) if isinstance(job, Train) and processes > 1 else None
        together = [job, partner] if partner is not None and partner in waiting else [job]
        if len(together) > free:
            break
        started += together
        free -= len(together)
    return started


def _are_missing(needs: Sequence[Job], *unfinished: Sequence[Job]) -> bool:
    return any(job in others for job in needs for others in unfinished)


def _begin() -> None:
    """In a new process."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # a training heeds it in its own way, and saves
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """However the parent ends, kill -9 included: a run that goes on unseen would be in the way of the next call."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
