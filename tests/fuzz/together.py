"""Trainings that meet in one directory, and trainings that are killed: the result is that of a run alone.

python -m tests.fuzz.together --pairs 20 --kills 100
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from safetensors.torch import load_file
from torch import equal

from ssmt.translator import Translator
from tests.fuzz.calls import Case
from tests.fuzz.runner import import_everything, start
from tests.fuzz.world import KINDS, TINY, build

UPDATES = 12


def train(world: Path, output: str, *more: str, kind: str = "ssmt") -> Case:
    settings = [*TINY, f"training.max_updates={UPDATES}", "training.checkpoint_every=1", f"model={kind}"]
    settings += ["training.average_last=2"]
    files = [
        (f"--{part}{side}", name)
        for part, name in (("", "train"), ("valid-", "valid"))
        for side in ("source", "target")
    ]
    paths = [
        word for option, name in files for word in (option, str(world / "files" / f"{name}.{option.split('-')[-1]}"))
    ]
    given = [word for setting in settings for word in ("--set", setting)]
    return Case(["train", "--output", output, "--preset", "tiny", *paths, *given, *more])


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def difference(one: Path, other: Path) -> str | None:
    """Of the models and the last checkpoints of two runs."""
    last = [sorted((run / "checkpoints").glob("update-*"))[-1] for run in (one, other)]
    for a, b in ((one / "model.safetensors", other / "model.safetensors"), last):
        if a.name != b.name:
            return f"{a.name} and {b.name}"
        weights, others = load_file(a), load_file(b)
        if weights.keys() != others.keys() or not all(equal(weights[name], others[name]) for name in weights):
            return f"{a.name} differs"
    if leftovers := [path.name for path in other.rglob(".*")]:
        return f"leftovers: {leftovers}"
    return None


def run_alone(world: Path, place: Path, kind: str = "ssmt") -> Path:
    name = f"alone-{kind}"
    assert wait(start(train(world, name, kind=kind), place, name)) == 0, (place / f"{name}.err").read_text()
    return place / name


def meet(world: Path, place: Path, alone: Path, rng: random.Random, name: str) -> str | None:
    """Two starts in one new directory; what went wrong, if anything did."""
    pause = rng.choice([0, 0, 0.01, 0.1, 0.5]) * rng.random()
    first = start(train(world, name), place, f"{name}-1")
    time.sleep(pause)
    second = start(train(world, name, *rng.choice([[], [], ["--resume"]])), place, f"{name}-2")
    statuses = [wait(first), wait(second)]
    said = [(place / f"{name}-{number}.err").read_text() for number in (1, 2)]
    if sorted(statuses) != [0, 2]:
        return f"statuses {statuses}: {said}"
    refusal = said[statuses.index(2)]
    if not any(words in refusal for words in ("another process is at work there", "already holds a run")):
        return f"refused with {refusal!r}"
    Translator.load(place / name, "cpu").translate(["we see a bird."])
    return difference(alone, place / name)


def kill(
    world: Path, place: Path, alone: Path, rng: random.Random, name: str, seconds: float, kind: str
) -> tuple[int, str | None]:
    """A run that is killed at random moments until it is over: how often, and what went wrong, if anything did."""
    kills = 0
    while True:
        child = start(train(world, name, "--resume", kind=kind), place, name)
        deadline = time.monotonic() + rng.random() * seconds
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
        if ended[0]:
            status = os.waitstatus_to_exitcode(ended[1])
            return kills, difference(alone, place / name) if status == 0 else (place / f"{name}.err").read_text()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=KINDS, help="of the models whose training is killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import_everything()
    rng = random.Random(options.seed)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="together") as name:
        place, world = Path(name), Path(name) / "world"
        build(world)
        undisturbed: dict[str, tuple[Path, float]] = {}  # runs alone and their seconds, by kind

        def alone_of(kind: str) -> tuple[Path, float]:
            if kind not in undisturbed:
                begun = time.monotonic()
                undisturbed[kind] = run_alone(world, place, kind), time.monotonic() - begun
            return undisturbed[kind]

        for number in range(options.pairs):
            problem = meet(world, place, alone_of("ssmt")[0], rng, f"pair-{number}")
            wrong += problem is not None
            print(f"pair {number}: {problem or 'one winner, the same as alone'}", flush=True)
            shutil.rmtree(place / f"pair-{number}")
        kills = 0
        for number in itertools.count():
            if kills >= options.kills:
                break
            kind = rng.choice(options.kinds)
            alone, seconds = alone_of(kind)
            count, problem = kill(world, place, alone, rng, f"kill-{number}", seconds, kind)
            kills, wrong = kills + count, wrong + (problem is not None)
            print(f"run {number} ({kind}), killed {count} times: {problem or 'the same as alone'}", flush=True)
            shutil.rmtree(place / f"kill-{number}")
    print(f"{options.pairs} pairs, {kills} kills: {wrong} differences")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
