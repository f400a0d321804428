"""Runs cases, each in a process of its own with a limit of time and memory, and says which broke the promise: whatever
is in a directory, a file or an option, the answer is a result or a message with status 2.

python -m tests.fuzz.runner --cases 10000 --seed 1 [--only spoilt_model] [--first 17 --cases 1 --keep]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tests.fuzz.calls import Case
from tests.fuzz.cases import case

SECONDS = 60.0  # a hang is what computes or waits for longer; while others have the processor it does neither
MEMORY = 1 << 30  # bytes beyond what the program takes with everything imported
MOST_MEMORY_ADDRESSED = 6 << 30


@dataclass
class Failure:
    number: int
    sort: str
    problem: str
    arguments: list[str]
    message: str

    def __str__(self) -> str:
        tail = "\n".join(f"    {line}" for line in self.message.splitlines()[-12:])
        return f"case {self.number} ({self.sort}): {self.problem}\n    ssmt {' '.join(self.arguments)[:400]!r}\n{tail}"


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()


def addressed() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


def progress_of(process: int) -> tuple[bool, float]:
    """Whether a process waits for something, and the seconds of the processor that all its threads have had."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
        state, *fields = stream.read().rpartition(")")[2].split()
    return state != "R", (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK")


def start(case: Case, place: Path, name: str = "") -> int:
    """The process of a call; what it writes is in `NAME.out` and `NAME.err`."""
    child = os.fork()
    if child == 0:
        call(case, place, name)
    return child


def call(case: Case, place: Path, name: str) -> NoReturn:
    """In the child: `ssmt` with its own arguments, directory and streams."""
    os.setsid()
    limit = addressed() + MOST_MEMORY_ADDRESSED
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    (place / f"{name}.in").write_bytes(case.stdin)
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, (ending, flags) in enumerate(((".in", os.O_RDONLY), (".out", new), (".err", new))):
        stream = os.open("/dev/full" if number in case.full else place / f"{name}{ending}", flags, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(place)
    sys.stdin, sys.stdout = io.TextIOWrapper(io.FileIO(0)), io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8", errors="backslashreplace")
    status: Any = 1
    try:
        import ssmt.cli

        ssmt.cli.app = command()
        sys.argv = ["ssmt", *case.arguments]
        ssmt.cli.main()
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception as error:
        os.write(2, f"Traceback: {error}".encode())
    os._exit(status if isinstance(status, int) else 1)


def outcome(case: Case, place: Path) -> tuple[int | None, int]:
    """The status of a call, none if it did not end; and its peak of memory beyond that of its parent."""
    before = resident()
    said = place / ".err"
    said.write_bytes(b"")
    child = start(case, place)
    waited, pause, is_ended = 0.0, 0.002, not case.ends_after
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), max(0, usage.ru_maxrss * 1024 - before)
        is_waiting, computed = progress_of(child)
        if max(waited, computed) > SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, 0
        if not is_ended and case.ends_after in said.read_bytes():
            os.kill(child, signal.SIGTERM)
            is_ended = True
        time.sleep(pause)
        waited, pause = waited + pause * is_waiting, min(0.05, pause * 1.2)


def not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def problem(case: Case, place: Path) -> tuple[str | None, str]:
    """What is wrong with a call, if anything is, and what it said."""
    status, memory = outcome(case, place)
    out = (place / ".out").read_bytes() if (place / ".out").exists() else b""
    said = (place / ".err").read_text(encoding="utf-8", errors="replace") if (place / ".err").exists() else ""
    if status is None:
        return f"a hang of {SECONDS:.0f} s", said
    if "Traceback" in said or status < 0:
        return f"a traceback, status {status}", said
    if status not in (0, 2):
        return f"status {status}", said
    if memory > MEMORY:
        return f"{memory >> 20} MiB", said
    if status == 2 and not said.strip() and 2 not in case.full:
        return "no message", said
    for path, content in case.untouched.items():
        if path.read_bytes() != content:
            return f"{path} has changed", said
    if status == 0 and 1 not in case.full:
        if case.lines is not None and out.count(b"\n") != case.lines:
            return f"{out.count(10)} lines of {case.lines}", said
        try:
            text = out.decode("utf-8")
            for part in [text] if case.json == "whole" else text.split("\n")[:-1] if case.json else []:
                json.loads(part, parse_constant=not_json)
        except ValueError as error:
            return f"invalid output: {error}", said
    return None, said


def failures(world: Path, numbers: range, seed: int, only: str = "", keep: bool = False) -> Iterator[Failure | None]:
    """What broke, a case at a time; none for one that did not."""
    with tempfile.TemporaryDirectory(prefix="fuzz", ignore_cleanup_errors=True) as scratch:
        for number in numbers:
            place = Path(scratch) / str(number)
            sort, made = case(number, seed, world, place, only)
            wrong, said = problem(made, place)
            if keep:
                print(place, made.arguments, wrong, said, sep="\n")
                shutil.copytree(place, f"fuzz-{number}", symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            yield Failure(number, sort, wrong, made.arguments, said) if wrong else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="a sort of cases")
    parser.add_argument("--keep", action="store_true", help="print each case, and keep what it was run on")
    options = parser.parse_args()
    import_everything()
    from tests.fuzz.world import build

    with tempfile.TemporaryDirectory(prefix="fuzz") as temporary:
        world = Path(temporary) / "world"
        build(world)  # here, and not by another process: what torch prepares at its first steps is then done for all
        begun, count, found = time.monotonic(), 0, Counter[str]()
        numbers = range(options.first, options.first + options.cases)
        for count, failure in enumerate(failures(world, numbers, options.seed, options.only, options.keep), start=1):
            if failure is not None:
                found[failure.problem.split(",")[0]] += 1
                print(failure, flush=True)
            if count % 200 == 0:
                print(f"{count} cases in {time.monotonic() - begun:.0f} s, {found.total()} failures", flush=True)
    print(f"{count} cases, seed {options.seed}: {found.total()} failures {dict(found)}")
    sys.exit(1 if found else 0)


@cache
def command() -> Any:
    """All verbs and options as typer makes them, once: it is a third of a short call."""
    from typer.main import get_command

    from ssmt.cli import app

    return get_command(app)


def import_everything() -> None:
    """Once, before any process is forked: imports are the longest part of a call."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import matplotlib.pyplot
    import torch

    import ssmt.backtranslation
    import ssmt.cli
    import ssmt.demo.comparison
    import ssmt.ensemble
    import ssmt.evaluation.report
    import ssmt.evaluation.sweep_decoding
    import ssmt.evaluation.sweep_training
    import ssmt.serve.app
    import ssmt.serve.server
    import ssmt.training.run
    import ssmt.translator  # noqa: F401

    command()
    torch.set_num_threads(1)
    matplotlib.use("svg")


if __name__ == "__main__":
    main()
