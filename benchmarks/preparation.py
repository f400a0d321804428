"""What it costs to prepare millions of pairs: sentences a second of CPU time, and the peak of memory.

    python benchmarks/preparation.py                                   five million pairs of the demo's grammar
    python benchmarks/preparation.py --pairs 300000 --model bpe        fewer, and subwords on both sides
    python benchmarks/preparation.py --interrupt                       killed once in the middle, then gone on with
    python benchmarks/preparation.py --updates 5                       then some updates from what was prepared
    python benchmarks/preparation.py --json                            for machines

Pairs are drawn from the grammar once, as many as `--different`, and then repeated: what costs time is reading, encoding
and counting, whatever the text says. A preparation is a process of its own, whose CPU time is that which the system
reports, with that of the processes that encode. The memory of all of them is looked at twice a second: what they
share counts once. Standard error gets what is said, with the seconds since the beginning, and the CPU time of the
process that says it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ssmt.config import Config, compose
from ssmt.demo.corpus import SOURCE, TARGET, write_corpus
from ssmt.files import read_json
from ssmt.progress import TerminalReporter
from ssmt.text.corpus import Corpus
from ssmt.text.corpus_writer import CHUNK_LINES, CHUNKS_BETWEEN_SAVES, PROGRESS
from ssmt.text.preparation import TrainingFiles
from ssmt.text.workers import cores
from ssmt.training import run

SECONDS_BETWEEN_LOOKS = 0.5
ADOPT_ORPHANS = 36  # Linux's PR_SET_CHILD_SUBREAPER


@dataclass(frozen=True)
class Result:
    pairs: int
    characters: int  # of the targets
    processes: int
    cpu_seconds: float
    seconds: float
    pairs_per_cpu_second: float
    peak_megabytes: float  # of all processes together, with pages of files, which the system takes back when it needs
    own_megabytes: float  # the same without those
    pairs_before_interruption: int  # encoded and saved, and not encoded again
    bytes_on_disk: int
    training_megabytes: float | None  # of a process that trains: its own memory
    mapped_megabytes: float | None  # and pages of files


class Stopwatch(TerminalReporter):
    def __init__(self) -> None:
        super().__init__()
        self.begun = time.monotonic()

    def say(self, message: str) -> None:
        seconds, cpu = time.monotonic() - self.begun, time.process_time()
        super().say(f"{seconds:7.1f} s, {cpu:6.1f} s of CPU time: {message}")


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


class Watched:
    """A process of its own, and the most memory that it had at one time, with the processes that it has started."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.process = os.fork()
        if not self.process:
            try:
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        self.peaks = dict.fromkeys(("Pss", "Pss_Anon", "Pss_File"), 0.0)  # megabytes, as Linux counts them
        self.orphans: list[int] = []
        self.ended = threading.Event()
        self.watch = threading.Thread(target=self._look)
        self.watch.start()

    def _look(self) -> None:
        while True:
            of_processes = [memory(process) for process in descendants(self.process)]
            for kind in self.peaks:
                self.peaks[kind] = max(self.peaks[kind], sum(of.get(kind, 0.0) for of in of_processes))
            if self.ended.wait(SECONDS_BETWEEN_LOOKS):
                return

    def kill(self) -> None:
        """Those that it has started then end by themselves."""
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)  # or the system would not report their time
        _, *self.orphans = descendants(self.process)
        os.kill(self.process, signal.SIGKILL)

    def wait(self) -> int:
        """Its status."""
        _, status = os.waitpid(self.process, 0)
        for orphan in self.orphans:
            with suppress(ChildProcessError):  # the process had waited for it
                os.waitpid(orphan, 0)
        self.ended.set()
        self.watch.join()
        return os.waitstatus_to_exitcode(status)


def descendants(process: int) -> list[int]:
    """The process, and those that it has started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:  # it has ended
        return []
    return [process, *(other for child in children for other in descendants(int(child)))]


def memory(process: int) -> dict[str, float]:
    """In megabytes, by kind; what several processes share is divided among them."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}


def saved_pairs(directory: Path) -> int:
    """Of a preparation that is under way."""
    path = directory / "data" / "train.unfinished" / PROGRESS
    return int(read_json(path)["pairs"]) if path.exists() else 0


def kill_in_the_middle(preparing: Watched, directory: Path, pairs: int) -> int:
    """When half of the pairs are saved or, where so few are not saved before they are complete, at once. Returns how
    many are saved."""
    enough = pairs // 2 if pairs > 2 * CHUNK_LINES * CHUNKS_BETWEEN_SAVES else 0
    while not (directory / "data" / "train.unfinished").exists() or saved_pairs(directory) < enough:
        if (directory / "data" / "train").exists():
            return 0
        time.sleep(0.002)
    preparing.kill()
    return saved_pairs(directory)


def measured(
    files: TrainingFiles, pairs: int, directory: Path, config: Config, interrupt: bool, updates: int
) -> Result:
    """With `interrupt`, it is killed in the middle, and another goes on."""
    reporter, processes, kept = Stopwatch(), cores(), 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    preparing = [Watched(lambda: run.begin(files, directory, config, reporter))]
    if interrupt:
        kept = kill_in_the_middle(preparing[0], directory, pairs)
        if preparing[0].wait() == -signal.SIGKILL:
            reporter.say(f"Killed, with {kept:,} pairs saved")
            preparing.append(Watched(lambda: run.begin(files, directory, config, reporter)))
    assert preparing[-1].ended.is_set() or preparing[-1].wait() == 0, "the preparation has failed"
    seconds, after = time.monotonic() - reporter.begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    training = None
    if updates:
        reporter.say(f"Prepared, in {cpu:.1f} s of CPU time")
        training = Watched(lambda: run.train(directory, torch.device("cpu"), reporter))
        assert training.wait() == 0, "training has failed"
    corpus = Corpus(directory / "data" / "train")
    return Result(
        pairs=len(corpus),
        characters=int(corpus.characters.sum()),
        processes=processes,
        cpu_seconds=round(cpu, 2),
        seconds=round(seconds, 2),
        pairs_per_cpu_second=round(len(corpus) / cpu, 1),
        peak_megabytes=round(max(watched.peaks["Pss"] for watched in preparing), 1),
        own_megabytes=round(max(watched.peaks["Pss_Anon"] for watched in preparing), 1),
        pairs_before_interruption=kept,
        bytes_on_disk=sum(path.stat().st_size for path in (directory / "data" / "train").iterdir()),
        training_megabytes=None if training is None else round(training.peaks["Pss_Anon"], 1),
        mapped_megabytes=None if training is None else round(training.peaks["Pss_File"], 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--different", type=int, default=20_000, help="pairs that are drawn from the grammar")
    parser.add_argument("--model", default="ssmt")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--interrupt", action="store_true", help="kill the preparation once, and go on with it")
    parser.add_argument("--updates", type=int, default=0, help="of a training on what was prepared")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="section.key=value")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = [f"model={options.model}", "training.chrf_sentences=0", *options.settings]
    settings += [f"training.max_updates={options.updates}"] if options.updates else []
    config = compose(options.preset, settings=settings)
    with tempfile.TemporaryDirectory(prefix="preparation") as name:
        files = write_text(Path(name), options.pairs, options.different)
        result = measured(files, options.pairs, Path(name) / "run", config, options.interrupt, options.updates)
    if options.json:
        print(json.dumps(asdict(result)))
        return
    print("| measure | value |\n|---|---:|")
    for key, value in asdict(result).items():
        if value is not None:
            print(f"| {key.replace('_', ' ')} | {value:,} |")


if __name__ == "__main__":
    main()
