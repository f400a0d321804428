"""What threads cost and bring in training, and what it costs that they sleep while they wait for each other.

    python benchmarks/threads.py --source train.en --target train.zu [--models demo-ssmt small-bpe]

Each round starts one process for every setting of OMP_NUM_THREADS and OMP_WAIT_POLICY, which are read once, when torch
is loaded; each process updates every model on the same batches for some seconds. The table has the median time of an
update over all rounds, by the wall clock and by the processor's. Without files, the text is made up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from random_models import made_up_text
from ssmt.config import Config, compose
from ssmt.demo.settings import config_of
from ssmt.directory import load_description
from ssmt.progress import Reporter
from ssmt.registry import build
from ssmt.text.corpus import Corpus
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from training import trainer_of

MODELS = [f"{size}-{kind}" for size in ("demo", "tiny", "small") for kind in ("bpe", "ssmt")]
BATCHES = 2  # of each model, again and again
VALID_LINES = 20


def settings_of_threads(threads: int) -> dict[str, dict[str, str]]:
    """The environments to compare, by their names."""
    return {
        f"{count} thread{'s' * (count > 1)}, {policy.lower()}": {
            "OMP_NUM_THREADS": str(count),
            "OMP_WAIT_POLICY": policy,
        }
        for count, policy in ((1, "PASSIVE"), (threads, "PASSIVE"), (threads, "ACTIVE"))
    }


def config_for(model: str, settings: list[str]) -> Config:
    size, _, kind = model.partition("-")
    return config_of(kind) if size == "demo" else compose(size, settings=[*settings, f"model={kind}"])


def times_of_updates(directory: Path, seconds: float) -> dict[str, list[float]]:
    """Seconds of each update of the run that is prepared in a directory, by both clocks, for so long."""
    vocabulary, config = load_description(directory)
    corpus = Corpus(directory / "data" / "train", vocabulary.batch_symbols)
    update = trainer_of(build(vocabulary, config))
    order = corpus.batches(config.training.batch_characters, seed=1, epoch=0)[:BATCHES]
    batches = cycle([corpus.batch(rows, 0) for rows in order])
    update(next(batches))  # warms up
    taken: dict[str, list[float]] = {"wall": [], "processor": []}
    while sum(taken["wall"]) < seconds:
        for batch in islice(batches, len(order)):
            began, began_processor = time.perf_counter(), time.process_time()
            update(batch)
            taken["wall"].append(time.perf_counter() - began)
            taken["processor"].append(time.process_time() - began_processor)
    return taken


def prepare(models: list[str], settings: list[str], text: tuple[list[str], list[str]], directory: Path) -> None:
    """A run for each model, ready to train; those that are there already stay."""
    directory.mkdir(parents=True, exist_ok=True)
    sides = {"train": slice(VALID_LINES, None), "valid": slice(VALID_LINES)}
    for part, rows in sides.items():
        for side, lines in zip(("source", "target"), text, strict=True):
            (directory / f"{part}.{side}").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")
    files = TrainingFiles(*(directory / f"{part}.{side}" for part in sides for side in ("source", "target")))
    for model in models:
        if not run.can_resume(directory / model):
            run.begin(files, directory / model, config_for(model, settings), Reporter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="SIZE-KIND")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all but the demo")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--lines", type=int, default=4000, help="of the text")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1.0, help="of a model, in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="for the prepared runs, which another call then finds there")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measured = {model: times_of_updates(arguments.measure / model, arguments.seconds) for model in arguments.models}
        print(json.dumps(measured))
        return
    if arguments.source and arguments.target:
        read = [path.read_text(encoding="utf-8").split("\n") for path in (arguments.source, arguments.target)]
        text = read[0][: arguments.lines], read[1][: arguments.lines]
    else:
        text = made_up_text(arguments.lines, seed=1), made_up_text(arguments.lines, seed=2)
    compared = settings_of_threads(arguments.threads)
    times: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary)
        prepare(arguments.models, arguments.set, text, directory)
        child = [sys.executable, __file__, "--measure", str(directory), "--seconds", str(arguments.seconds)]
        for _ in range(arguments.rounds):
            for name, environment in compared.items():
                done = subprocess.run(
                    [*child, "--models", *arguments.models],
                    env={**os.environ, **environment},
                    check=True,
                    stdout=subprocess.PIPE,
                )
                measured = json.loads(done.stdout)
                listed = (
                    f"{model} {1e3 * statistics.median(clocks['wall']):.0f}" for model, clocks in measured.items()
                )
                print(f"{name}: {', '.join(listed)} ms", file=sys.stderr, flush=True)
                for model, clocks in measured.items():
                    for clock, of_clock in clocks.items():
                        times.setdefault((model, name, clock), []).extend(of_clock)
    print(f"| ms of an update: wall clock (processor) | {' | '.join(compared)} |")
    print(f"|:--|{'--:|' * len(compared)}")
    for model in arguments.models:
        cells = (
            "{:.0f} ({:.0f})".format(*(1e3 * statistics.median(times[model, name, clock]) for clock in clocks))
            for name in compared
            for clocks in [("wall", "processor")]
        )
        print(f"| {model} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
