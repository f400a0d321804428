"""Several processes that train together, forked from this one, which has everything imported. (torchrun starts them
with the same variables in their environment, but each would spend seconds on its imports.)"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torch.distributed import TCPStore

from ssmt.text.preparation import TrainingFiles
from ssmt.training import loop
from tests.fuzz.calls import Case
from tests.fuzz.runner import call, import_everything
from tests.fuzz.world import TINY

SECONDS = 300.0  # a process that takes longer waits for ever


def import_all() -> None:
    """Once, also what torch imports at its first step."""
    import_everything()
    import torch._dynamo  # noqa: F401


def train(files: TrainingFiles, output: str, *settings: str) -> list[str]:
    """The arguments of a training without dropout and without limits of its own."""
    names = {"--source": files.source, "--target": files.target}
    names |= {"--valid-source": files.valid_source, "--valid-target": files.valid_target}
    paths = [word for option, path in names.items() for word in (option, str(path))]
    given = [*TINY, "network.dropout=0", "training.patience=none", "training.process_timeout=1", *settings]
    chosen = [word for setting in given for word in ("--set", setting)]
    return ["train", "--output", output, "--preset", "tiny", "--device", "cpu", "--threads", "1", *paths, *chosen]


@dataclass
class Together:
    """The processes of one call."""

    place: Path
    name: str
    store: TCPStore | None = None
    running: dict[int, int] = field(default_factory=dict)  # process id -> rank
    statuses: dict[int, int] = field(default_factory=dict)  # rank -> status

    def kill(self, rank: int, number: signal.Signals) -> None:
        """The process, if it is still there."""
        for process, of in self.running.items():
            if of == rank:
                os.kill(process, number)

    def look(self) -> bool:
        """Whether some are still running."""
        for process in list(self.running):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self.statuses[self.running.pop(process)] = os.waitstatus_to_exitcode(status)
        return bool(self.running)

    def wait(self) -> list[int]:
        """The status of each, by rank."""
        deadline = time.monotonic() + SECONDS
        while self.look():
            if time.monotonic() > deadline:
                for process in self.running:
                    os.kill(process, signal.SIGKILL)
                raise AssertionError(f"ranks {sorted(self.running.values())} did not end:\n{self.messages()}")
            time.sleep(0.005)
        self.store = None  # its thread ends, before anything else is forked
        return [self.statuses[rank] for rank in sorted(self.statuses)]

    def messages(self) -> str:
        """What all of them said."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.place.glob(f"{self.name}-*.err")))


def start(
    count: int, arguments: list[str], place: Path, name: str, meanwhile: Callable[[int], None] = lambda rank: None
) -> Together:
    """`ssmt` with the same arguments in each of `count` processes; `meanwhile` is called in each before that."""
    import_all()
    together, starts = Together(place, name), list[int]()
    for rank in range(count):
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            port = int(os.read(told, 16))
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
            os.environ.update({key: str(value) for key, value in numbers.items()})
            os.environ.update(MASTER_ADDR="127.0.0.1", TORCHELASTIC_USE_AGENT_STORE="True")
            loop.LOG_EVERY = 1
            meanwhile(rank)
            call(Case(arguments), place, f"{name}-{rank}")
        os.close(told)
        together.running[child] = rank
        starts.append(tells)
    # As torchrun has one. Its thread must not be there when a process is forked, which could wait for ever for what the
    # thread held at that moment.
    together.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for tells in starts:
        os.write(tells, str(together.store.port).encode())
        os.close(tells)
    return together
