"""What it costs to prepare millions of pairs: sentences a second of CPU time, and the peak of memory.

    python benchmarks/preparation.py                                   five million pairs of the demo's grammar
    python benchmarks/preparation.py --pairs 300000 --model bpe        fewer, and subwords on both sides
    python benchmarks/preparation.py --interrupt                       killed once in the middle, then gone on with
    python benchmarks/preparation.py --json                            for machines

Pairs are drawn from the grammar once, as many as `--different`, and then repeated: what costs time is reading, encoding
and counting, whatever the text says. Each preparation is a process of its own, whose CPU time and largest resident set
are those that the system reports, for itself and for the processes that encode.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from ssmt.config import compose
from ssmt.demo.corpus import SOURCE, TARGET, write_corpus
from ssmt.progress import Reporter
from ssmt.text.corpus import Corpus
from ssmt.text.preparation import TrainingFiles
from ssmt.text.workers import cores
from ssmt.training import run


@dataclass(frozen=True)
class Result:
    pairs: int
    characters: int  # of the targets
    processes: int
    cpu_seconds: float
    seconds: float
    pairs_per_cpu_second: float
    peak_megabytes: float  # the largest resident set of the process that reads, learns and writes
    largest_megabytes: float  # and of the largest of all processes, those that encode included
    bytes_on_disk: int


def write_text(directory: Path, pairs: int, different: int) -> TrainingFiles:
    """As many pairs as asked for, from `different` ones."""
    write_corpus(directory / "once", min(pairs, different), held_out=100)
    files = [directory / f"train.{ending}" for ending in (SOURCE, TARGET)]
    for path in files:
        once = (directory / "once" / path.name).read_bytes()
        lines = once.count(b"\n")
        with open(path, "wb") as stream:
            for _ in range(pairs // lines):
                stream.write(once)
            stream.write(b"".join(line + b"\n" for line in once.split(b"\n")[: pairs % lines]))
    return TrainingFiles(*files, *(directory / "once" / f"dev.{ending}" for ending in (SOURCE, TARGET)))


def started(files: TrainingFiles, directory: Path, model: str, preset: str) -> int:
    """A process of its own, so that its memory is its own."""
    child = os.fork()
    if child:
        return child
    try:
        run.begin(files, directory, compose(preset, settings=[f"model={model}"]), Reporter())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def measured(files: TrainingFiles, directory: Path, model: str, preset: str, interrupt: bool) -> Result:
    """With `interrupt`, it is killed when it has begun to encode, and another goes on."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = started(files, directory, model, preset)
    if interrupt:
        while not (directory / "data" / "train.unfinished").exists() and not (directory / "config.json").exists():
            time.sleep(0.002)
        if not (directory / "config.json").exists():
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            process = started(files, directory, model, preset)
    _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the preparation has failed"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    corpus = Corpus(directory / "data" / "train")
    return Result(
        pairs=len(corpus),
        characters=int(corpus.characters.sum()),
        processes=cores(),
        cpu_seconds=round(cpu, 2),
        seconds=round(time.monotonic() - begun, 2),
        pairs_per_cpu_second=round(len(corpus) / cpu, 1),
        peak_megabytes=round(usage.ru_maxrss / 1024, 1),
        largest_megabytes=round(after.ru_maxrss / 1024, 1),
        bytes_on_disk=sum(path.stat().st_size for path in (directory / "data" / "train").iterdir()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--different", type=int, default=20_000, help="pairs that are drawn from the grammar")
    parser.add_argument("--model", default="ssmt")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--interrupt", action="store_true", help="kill the preparation once, and go on with it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="preparation") as name:
        files = write_text(Path(name), options.pairs, options.different)
        result = measured(files, Path(name) / "run", options.model, options.preset, options.interrupt)
    if options.json:
        print(json.dumps(asdict(result)))
        return
    print("| measure | value |\n|---|---:|")
    for key, value in asdict(result).items():
        print(f"| {key.replace('_', ' ')} | {value:,} |")


if __name__ == "__main__":
    main()
