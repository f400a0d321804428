"""What a service costs beyond the model, against loopback: throughput and latency, and what happens beyond its load.

    python benchmarks/serving.py [MODEL] [--clients 1 8 32] [--seconds 20] [--overload-seconds 300]

The same sentences go through the plain `Translator` (one call with all of them, and one call each), through the service
with batches across requests, and without, from so many clients that each send one sentence and wait for the answer.
Rates and latencies are of the wall, so the machine must be idle; processor time is the service's alone. Ratios are to
the plain Translator's one call in the same run. Then four times as many sentences a second as the service can carry
are sent for some minutes: what is accepted must be answered within the deadline, the rest refused at once, and memory
must not grow. The service is a process of its own, whose time and memory Linux tells. Without MODEL, a small one with
random weights is served.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

import torch

from random_models import made_up_text, random_ssmt
from ssmt.serve import server
from ssmt.serve.app import create_app
from ssmt.serve.limits import Limits
from ssmt.serve.service import Service
from ssmt.serve.worker import Batching
from ssmt.translator import Translator

WORDS = 12  # of a sentence, at most
NO_ANSWER = 0  # in the place of a status
SATURATING = 256  # clients that fill all batches
WARM_UP = 5.0  # seconds before what is measured
MEMORY_SAMPLES = 10  # of each measurement


@dataclass
class Outcome:
    """What clients saw: seconds of each answer, by status."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    wall: float = 0.0
    processor: float = 0.0  # seconds that the model's process took
    memory: list[float] = field(default_factory=list)  # mebibytes of it, from time to time

    def number(self, status: int) -> int:
        return len(self.seconds.get(status, []))

    def percentile(self, share: float, status: int = 200) -> float:
        taken = sorted(self.seconds.get(status, [0.0]))
        return taken[min(len(taken) - 1, int(share * len(taken)))]

    @property
    def processor_per_sentence(self) -> float:
        return self.processor / max(1, self.number(200))

    @property
    def throughput(self) -> float:
        return self.number(200) / self.wall


@dataclass(frozen=True)
class Serving:
    """A service in a process of its own."""

    process: int
    port: int

    def seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def mebibytes(self) -> float:
        pages = int(Path(f"/proc/{self.process}/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 2**20


@contextmanager
def serving(batching: Batching, limits: Limits) -> Iterator[Serving]:
    """This script as a service, with the arguments that it was called with."""
    settings = json.dumps({"batching": asdict(batching), "limits": asdict(limits)})
    command = [sys.executable, __file__, *sys.argv[1:], "--serve", settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            yield Serving(service.pid, int(service.stdout.readline()))
        finally:
            service.terminate()


def serve(translator: Translator, settings: str) -> None:
    """The service: says its port when it listens, ends on SIGTERM."""
    said = json.loads(settings)
    limits = Limits(**said["limits"])
    service = Service([("en", "zu", translator)], limits, batching=Batching(**said["batching"]))
    listener = server.listen("127.0.0.1", 0)
    server.run(create_app(service), listener, limits, lambda: print(listener.getsockname()[1], flush=True))


def ask(service: Serving, sentences: Sequence[str], clients: int, seconds: float, rate: float | None = None) -> Outcome:
    """So many clients for so long, each with a connection of its own, one sentence at a time: as fast as answers come
    or, with a rate, so many a second from all of them."""
    outcome, lock, numbers = Outcome(), threading.Lock(), count()
    began, processor = time.monotonic(), service.seconds()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
        while True:
            with lock:
                number = next(numbers)
            if rate is not None:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            if number and time.monotonic() >= began + seconds:  # one is sent in any case
                break
            body = json.dumps({"q": sentences[number % len(sentences)], "source": "en", "target": "zu"})
            sent = time.monotonic()
            try:
                connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (http.client.HTTPException, OSError):
                status = NO_ANSWER
                connection.close()
            with lock:
                outcome.seconds.setdefault(status, []).append(time.monotonic() - sent)
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for part in range(1, MEMORY_SAMPLES + 1):
        time.sleep(max(0.0, began + seconds * part / MEMORY_SAMPLES - time.monotonic()))
        outcome.memory.append(service.mebibytes())
    for thread in threads:
        thread.join()
    outcome.wall, outcome.processor = time.monotonic() - began, service.seconds() - processor
    return outcome


def plain(translator: Translator, sentences: list[str], repetitions: int) -> tuple[Outcome, Outcome]:
    """The plain Translator: all in one call, and one call each."""
    together, alone = Outcome(), Outcome()
    for _ in range(repetitions):
        for outcome, calls in ((together, [sentences]), (alone, [[sentence] for sentence in sentences])):
            for call in calls:
                began, processor = time.monotonic(), time.process_time()
                translator.n_best_translations(call, with_segments=False)
                taken = time.monotonic() - began
                outcome.seconds.setdefault(200, []).extend([taken] * len(call))
                outcome.wall += taken
                outcome.processor += time.process_time() - processor
    return together, alone


def measure_load(translator: Translator, sentences: list[str], arguments: argparse.Namespace) -> None:
    """Prints the table."""
    together, alone = plain(translator, sentences, arguments.repetitions)
    print(f"{len(sentences)} sentences of {statistics.mean(map(len, sentences)):.0f} characters on average.\n")
    print("| | clients | sentences a second | ratio | processor time, ratio | p50 ms | p95 ms | p99 ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")

    def show(name: str, clients: str, outcome: Outcome) -> None:
        rate = outcome.throughput
        ratios = rate / together.throughput, outcome.processor_per_sentence / together.processor_per_sentence
        milliseconds = " | ".join(f"{1000 * outcome.percentile(share):.0f}" for share in (0.5, 0.95, 0.99))
        print(f"| {name} | {clients} | {rate:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} | {milliseconds} |", flush=True)

    show("Translator, one call", "", together)
    show("Translator, a call each", "", alone)
    for name, across in (("across requests", True), ("each request alone", False)):
        with serving(Batching(across_requests=across), Limits()) as service:
            ask(service, sentences, max(arguments.clients), min(WARM_UP, arguments.seconds))
            for clients in arguments.clients:
                outcome = ask(service, sentences, clients, arguments.seconds)
                show(name, str(clients), outcome)


def measure_overload(sentences: list[str], arguments: argparse.Namespace) -> None:
    """Four times as much as full batches can carry, from more clients than can be answered within the deadline."""
    limits, clients = Limits(deadline=arguments.deadline), arguments.most_clients
    with serving(Batching(), Limits()) as service:  # which refuses none of these: refused clients ask again at once
        ask(service, sentences, min(clients, SATURATING), min(WARM_UP, arguments.seconds))
        capacity = ask(service, sentences, min(clients, SATURATING), arguments.seconds).throughput
    rate = 4 * capacity
    print(f"\n{capacity:.1f} sentences a second from {min(clients, SATURATING)} clients.", flush=True)
    with serving(Batching(), limits) as service:
        ask(service, sentences, clients, min(WARM_UP, arguments.overload_seconds), rate)  # all connections are made
        outcome = ask(service, sentences, clients, arguments.overload_seconds, rate)
    answers = sum(map(len, outcome.seconds.values()))
    accepted, refused = outcome.number(200), outcome.number(503)

    def show(status: int) -> str:
        p50, p99, longest = (outcome.percentile(share, status) for share in (0.5, 0.99, 1.0))
        return f"p50 {p50:.3f} s, p99 {p99:.3f} s, longest {longest:.3f} s"

    print(
        f"\nOverload: {answers / outcome.wall:.1f} requests a second for {outcome.wall:.0f} seconds (asked for "
        f"{rate:.1f}, four times {capacity:.1f}) from {clients} clients, a deadline of {limits.deadline:g} s: "
        f"{accepted:,} accepted ({show(200)}), {refused:,} refused ({show(503)}), {answers - accepted - refused} "
        f"others; memory {', '.join(f'{mebibytes:.0f}' for mebibytes in outcome.memory)} MiB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="a model directory")
    parser.add_argument("--input", type=Path, help="source sentences, one a line; made up without it")
    parser.add_argument("--preset", default="small", help="of the model with random weights")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of it")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--repetitions", type=int, default=3, help="of the plain Translator")
    parser.add_argument("--overload-seconds", type=float, default=300.0, help="0: no overload")
    parser.add_argument("--most-clients", type=int, default=800, help="in the overload")
    parser.add_argument("--deadline", type=float, default=4.0, help="seconds, in the overload")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--overload-alone", action="store_true", help="no table")
    parser.add_argument("--serve", help=argparse.SUPPRESS)  # what the script calls itself with
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    translator = (
        Translator.load(arguments.model)
        if arguments.model
        else Translator(*random_ssmt(arguments.preset, *arguments.set))
    )
    if arguments.serve:
        return serve(translator, arguments.serve)
    if arguments.input:
        text = arguments.input.read_text(encoding="utf-8").splitlines()
    else:
        text = [" ".join(line.split()[:WORDS]) for line in made_up_text(arguments.sentences)]
    sentences = [line for line in text if line.strip()][: arguments.sentences]
    if not arguments.overload_alone:
        measure_load(translator, sentences, arguments)
    if arguments.overload_seconds:
        measure_overload(sentences, arguments)


if __name__ == "__main__":
    main()
