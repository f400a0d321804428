"""The processes that train together: one, or as many as `torchrun` has started.

Every process has the whole network and makes every update; of an update's sentences each gets a share, and
DistributedDataParallel adds up the gradients. The first process alone prepares, writes and speaks. What decides how a
run goes on (limits, signals, validations) is agreed on, so that all take the same way; a process that fails leaves word
of it where the others look when they lose contact, so that all end, and one of them says why.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous

from ssmt.devices import choose_device
from ssmt.errors import EndedElsewhere, UserError
from ssmt.files import count_in
from ssmt.progress import Reporter

Value = TypeVar("Value")
Indices = npt.NDArray[np.int64]  # of sentences

SECONDS_TO_MEET = 300  # until all processes have found each other
SECONDS_TO_ANSWER = 10
WORDS_OF_GLOO = ("gloo", "pair closure", "Connection closed by peer", "Connection reset by peer")
FAILURE = "failure"  # in the store: which process failed first, and with which status


def deal_out(batches: Sequence[Indices], processes: int) -> list[Indices]:
    """The sentences of an update's batches in parts: part i is for process i modulo their number.

    Where there are fewer batches than processes, each is cut, into parts of like length because it is sorted by length.
    A batch of few sentences has none for some of them: an empty part."""
    cuts = -(-processes // len(batches))
    return [batch[cut::cuts] for batch in batches for cut in range(cuts)]


class Processes:
    """One process on its own, which has nobody to ask. (What several do instead is in the class below.)"""

    rank = 0
    count = 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prepares, writes and speaks."""
        return self.rank == 0

    def reporter(self, reporter: Reporter) -> Reporter:
        return reporter if self.is_first else Reporter()

    def first_has(
        self, to_itself: Callable[[Path], AbstractContextManager[None]], directory: Path
    ) -> AbstractContextManager[None]:
        """The first process holds the lock of a directory, for all."""
        return to_itself(directory) if self.is_first else nullcontext()

    def first_does(self, work: Callable[[], None]) -> None:
        """Work of the first process that may take any time; the others wait for its end."""
        work()

    def connect(self, minutes: float) -> None:
        """From here on the processes can agree; whoever waits for another for so many minutes gives up."""

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The network as updates call it."""
        return network

    def adding_up(self, model: nn.Module, now: bool) -> AbstractContextManager[Any]:
        """Of each forward and backward pass: whether the gradients are then complete, and those of all are added."""
        return nullcontext()

    def total(self, number: float) -> float:
        """The sum of all processes' numbers."""
        return number

    def of_first(self, value: Value) -> Value:
        """What the first process has."""
        return value

    def gathered(self, value: Value) -> list[Value]:
        """What each process has."""
        return [value]

    def share(self, items: Sequence[Value]) -> Sequence[Value]:
        """Those that this process handles."""
        return items[self.rank :: self.count]

    def merged(self, results: Sequence[Value]) -> list[Value]:
        """The results for all items, in their order, from those for each process's share."""
        of_processes = self.gathered(results)
        return [of_processes[row % self.count][row // self.count] for row in range(sum(map(len, of_processes)))]


class Several(Processes):
    """One of the processes that torchrun has started: they meet in its store, and agree over gloo."""

    def __init__(self, device: str) -> None:
        self.rank, self.count = _number("RANK"), _number("WORLD_SIZE")
        self.local_rank = _number("LOCAL_RANK", 0)
        if self.rank >= self.count:
            raise UserError(f"RANK={self.rank}, WORLD_SIZE={self.count}: of so many processes none has this rank")
        super().__init__(_device_of(device, self.local_rank))
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=SECONDS_TO_MEET)))
        # torchrun's store outlives a restart: what processes that have ended left there is not for us.
        self.store = dist.PrefixStore(f"attempt {_restarts()}", store)  # type: ignore[attr-defined]
        self.works = 0  # of the first process, so far

    def first_does(self, work: Callable[[], None]) -> None:
        self.works += 1
        end = f"end of work {self.works}"
        if self.is_first:
            try:
                work()
            except BaseException as error:
                _outlive_the_others()
                self.store.set(end, str(_status_of(error)))
                raise
            self.store.set(end, "0")
            return
        while True:
            try:
                self.store.wait([end], timedelta(seconds=1))  # not longer: meanwhile Python hears no signal
                break
            except KeyboardInterrupt:
                raise EndedElsewhere(_status_of(KeyboardInterrupt())) from None
            except dist.DistStoreError:  # not yet
                if failure := self._failure():
                    raise failure from None
        if status := int(self.store.get(end)):
            raise EndedElsewhere(status)

    def connect(self, minutes: float) -> None:
        if dist.is_initialized():
            return
        timeout = timedelta(minutes=minutes)
        dist.init_process_group("gloo", store=self.store, rank=self.rank, world_size=self.count, timeout=timeout)
        self.of_gradients = None if self.device.type == "cpu" else dist.new_group(backend="nccl", timeout=timeout)

    def wrapped(self, network: nn.Module) -> nn.Module:
        """With `find_unused_parameters`, which costs little, a batch need not use every weight, and the order in which
        gradients are added does not change after the first update: a resumed run adds in the same order."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # what replaces `broadcast_buffers` is not in torch 2.10
            return nn.parallel.DistributedDataParallel(
                network, process_group=self.of_gradients, broadcast_buffers=False, find_unused_parameters=True
            )

    def adding_up(self, model: nn.Module, now: bool) -> AbstractContextManager[Any]:
        assert isinstance(model, nn.parallel.DistributedDataParallel)
        return nullcontext() if now else model.no_sync()

    def total(self, number: float) -> float:
        numbers = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(numbers)
        return numbers.item()

    def of_first(self, value: Value) -> Value:
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def gathered(self, value: Value) -> list[Value]:
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    # Ends

    def explained(self, error: BaseException) -> BaseException:
        """What is to be raised where this process has met with an error: itself, if the others shall not speak of it
        too; else that it ended because of another."""
        if isinstance(error, EndedElsewhere):
            return error
        if _is_loss_of_contact(error):
            return self._explained_loss(error)
        _outlive_the_others()
        mine = f"{self.rank} {_status_of(error)}"
        first = _answered(lambda: self.store.compare_set(FAILURE, "", mine).decode())
        return error if first in (mine, None) else EndedElsewhere(_status_of(error))

    def _failure(self) -> EndedElsewhere | None:
        """The end of another process that has said why."""
        found = self.store.get(FAILURE).decode() if self.store.check([FAILURE]) else None
        return EndedElsewhere(int(found.split()[1])) if found else None

    def _explained_loss(self, error: BaseException) -> BaseException:
        """If a process has failed, it has said so itself. If one was killed, or a machine or the network is gone, one
        process of each machine does."""
        if failure := _answered(self._failure):
            return failure
        if self.local_rank:
            return EndedElsewhere(2)
        _outlive_the_others()
        return UserError(
            f"Process {self.rank}, on {socket.gethostname()}, has lost contact with the other processes "
            f"({str(error).strip().splitlines()[0][:200]}): one was killed, or a machine or the network is gone. The "
            f"last whole checkpoint is kept; resume the run"
        )


@contextmanager
def together(device: str) -> Iterator[Processes]:
    """The processes that this one belongs to, on the device that is asked for."""
    if _number("WORLD_SIZE", 1) == 1:
        yield Processes(choose_device(device))
        return
    with _naming_where_to_meet():
        processes = Several(device)
    try:
        yield processes
    except BaseException as error:
        raised = processes.explained(error)
        if raised is error:
            raise
        raise raised from None
    else:
        if dist.is_initialized():  # after an error, some might not answer any more
            dist.destroy_process_group()


def is_restarted() -> bool:
    """Whether torchrun has started this process again, with the arguments of the first time, after some process had
    failed."""
    return _restarts() > 0


def _restarts() -> int:
    return _number("TORCHELASTIC_RESTART_COUNT", 0)


def _number(name: str, otherwise: int | None = None) -> int:
    """Of a variable that torchrun sets."""
    given = os.environ.get(name, "" if otherwise is None else str(otherwise))
    number = count_in(given)
    if number is None:
        raise UserError(
            f"{name}={given!r}: is set in the environment by torchrun, to a number; use it, or unset {name}"
        )
    return number


@contextmanager
def _naming_where_to_meet() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise UserError(
            f"Process {os.environ.get('RANK')} of {os.environ.get('WORLD_SIZE')} finds nobody at {address} "
            f"({str(error).strip().splitlines()[0][:200]}). Several processes are started by torchrun"
        ) from None


def _device_of(name: str, local_rank: int) -> torch.device:
    """One GPU for each process of a machine, or the CPU for all."""
    if ":" in name:
        raise UserError(f"device {name}: of several processes, each takes a GPU of its own; ask for cuda")
    device = choose_device(name)
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise UserError(f"device {device.type}: several processes train on cuda or cpu")
    if local_rank >= (there := torch.cuda.device_count()):
        raise UserError(f"This machine has {there} GPUs and more processes; each needs a GPU of its own")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _outlive_the_others() -> None:
    """As soon as one process has ended, torchrun ends the others by SIGTERM: whoever has to say why the training ends
    must not be one of them before it has."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _status_of(error: BaseException) -> int:
    """The status with which a process ends. (What the command line has to say of its options has one of its own.)"""
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, UserError | OSError) else int(getattr(error, "exit_code", 1))


def _is_loss_of_contact(error: BaseException) -> bool:
    """gloo's errors have no type of their own."""
    is_theirs = isinstance(error, RuntimeError) and any(word in str(error) for word in WORDS_OF_GLOO)
    return isinstance(error, dist.DistError) or is_theirs


def _answered(ask: Callable[[], Value | None]) -> Value | None:
    """What the store answers; nothing if it does not, which a network that is gone would let wait for long."""
    answers: list[Value | None] = []

    def wait() -> None:
        with suppress(RuntimeError):
            answers.append(ask())

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(SECONDS_TO_ANSWER)
    return answers[0] if answers else None
