"""Two hosts that train together: network namespaces with addresses of their own, a link between them that can be cut.

    sudo python benchmarks/hosts.py              all of these
    sudo python benchmarks/hosts.py --only cut   finish: a run to its end; pause: the link is cut and restored;
                                                 cut: it is cut for good, both end with a message, and the run goes on

Nothing here measures time. It needs root and `ip netns`; where it has not what it needs, it says so and ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ssmt.demo.corpus import SOURCE, TARGET, write_corpus

HOSTS = {"ssmt-a": "10.77.0.1", "ssmt-b": "10.77.0.2"}
LINK = "veth"  # in each of them
PORT = "29577"
SETTINGS = (
    *("text.source_vocabulary=300", "text.lexicon_size=300", "network.width=32", "network.heads=2"),
    *("network.feedforward=64", "network.dropout=0", "training.batch_characters=1500", "training.accumulate=2"),
    *("training.checkpoint_every=5", "training.validate_every=20", "training.chrf_sentences=4"),
)
SECONDS = 600.0  # for a scenario, on a busy machine
SCENARIOS = ("finish", "pause", "cut")


def missing() -> str | None:
    """What this script needs and has not."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "it needs Linux and the command ip"
    if os.geteuid() != 0:
        return "it needs root, to make network namespaces"
    made = subprocess.run(["ip", "netns", "add", "ssmt-probe"], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made here ({made.stderr.strip()})"
    ip("netns", "del", "ssmt-probe")
    return None


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def two_hosts() -> Iterator[None]:
    """Namespaces with one link between them."""
    for host in HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)  # of a run that was killed
    try:
        for host in HOSTS:
            ip("netns", "add", host)
        ip("link", "add", "ssmt-va", "type", "veth", "peer", "name", "ssmt-vb")
        for end, (host, address) in zip(("ssmt-va", "ssmt-vb"), HOSTS.items(), strict=True):
            ip("link", "set", end, "netns", host)
            ip("-n", host, "link", "set", end, "name", LINK)
            ip("-n", host, "address", "add", f"{address}/24", "dev", LINK)
            ip("-n", host, "link", "set", LINK, "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def switch(state: str) -> None:
    ip("-n", "ssmt-b", "link", "set", LINK, state)


def start(arguments: Sequence[str], place: Path) -> list[subprocess.Popen[bytes]]:
    """torchrun on both hosts; what each says is in a file."""
    processes = []
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": LINK, "OMP_NUM_THREADS": "1"}
    for rank, host in enumerate(HOSTS):
        torchrun = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"]
        torchrun += [f"--master-addr={HOSTS['ssmt-a']}", f"--master-port={PORT}", "-m", "ssmt"]
        command = ["ip", "netns", "exec", host, sys.executable, *torchrun, *arguments]
        with open(place / f"{host}.txt", "wb") as output:
            processes.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
    return processes


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    deadline = time.monotonic() + SECONDS
    try:
        return [process.wait(max(deadline - time.monotonic(), 0.1)) for process in processes]
    except subprocess.TimeoutExpired:
        raise SystemExit("a host has not ended") from None
    finally:
        for process in processes:
            process.kill()


def await_checkpoint(run: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    while not list((run / "checkpoints").glob("update-*")):
        if any(process.poll() is not None for process in processes):
            raise SystemExit("a host ended before its first checkpoint")
        time.sleep(0.05)


def messages(place: Path, host: str) -> str:
    return (place / f"{host}.txt").read_text(encoding="utf-8", errors="replace")


def scenario(name: str, place: Path, corpus: Path, updates: int) -> str:
    """What happened, in words."""
    run = place / name
    options = ("--source", "--target", "--valid-source", "--valid-target")
    files = [corpus / f"{part}.{ending}" for part in ("train", "dev") for ending in (SOURCE, TARGET)]
    arguments = ["train", "--output", str(run), "--preset", "tiny", "--device", "cpu", "--max-updates", str(updates)]
    arguments += [word for option, path in zip(options, files, strict=True) for word in (option, str(path))]
    timeout = "training.process_timeout=" + ("5" if name != "cut" else "0.5")
    arguments += [word for setting in (*SETTINGS, timeout) for word in ("--set", setting)]
    processes = start(arguments, place)
    if name != "finish":
        await_checkpoint(run, processes)
        switch("down")
    if name == "pause":
        time.sleep(10)
        switch("up")
    statuses = wait(processes)
    said = {host: messages(place, host) for host in HOSTS}
    if name != "cut":
        assert statuses == [0, 0], said
        assert f"{updates:,} updates are made" in said["ssmt-a"]
        return "both ended with status 0" + (", 10 seconds without a link notwithstanding" if name == "pause" else "")
    assert 0 not in statuses, said
    assert all("has lost contact with the other processes" in text for text in said.values()), said
    switch("up")
    statuses = wait(start(["train", "--output", str(run), "--resume", "--device", "cpu"], place))
    assert statuses == [0, 0], messages(place, "ssmt-a")
    return "both ended and said that contact was lost; resumed, the run came to its end"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SCENARIOS, action="append")
    parser.add_argument("--updates", type=int, default=60)
    options = parser.parse_args()
    if reason := missing():
        print(f"skipped: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="hosts") as name, two_hosts():
        write_corpus(Path(name) / "corpus", 600, held_out=20)
        for chosen in options.only or SCENARIOS:
            print(f"{chosen}: {scenario(chosen, Path(name), Path(name) / 'corpus', options.updates)}", flush=True)


if __name__ == "__main__":
    main()
