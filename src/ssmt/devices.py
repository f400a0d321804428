"""What a model can run on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ssmt.errors import UserError

THREADS = "OMP_NUM_THREADS"  # whoever sets it has chosen how many threads torch takes
ALL_THREADS = torch.get_num_threads()
SMALL_NETWORK = 6_000_000  # parameters, below which a second thread brings nothing (docs/performance.md)


def has_bf16(device: torch.device) -> bool:
    """Of a cuda device: older ones only emulate it."""
    return torch.version.hip is not None or torch.cuda.get_device_properties(device).major >= 8


def choose_device(name: str) -> torch.device:
    """`auto` takes the first that is there of cuda, mps, cpu."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, there in available.items() if there)
    kind, _, number = name.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    is_there = ":" not in name or number in map(str, range(count))
    if not available.get(kind, False) or not is_there:
        has = f"device {name}: this machine has {', '.join(k for k, there in available.items() if there)}"
        raise UserError(f"{has}{_hint(kind)}")
    return torch.device(name)


def _hint(kind: str) -> str:
    """Why a device that people ask for is not there."""
    if kind in ("cuda", "gpu") and not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return (
            f". The PyTorch that is installed ({torch.__version__}) cannot use a GPU; "
            f"https://pytorch.org/get-started/locally has builds that can"
        )
    return ". A GPU is called cuda" if kind == "gpu" else ""


@contextmanager
def threads_for(parameters: int, device: torch.device) -> Iterator[str]:
    """Train a small network with one thread on a CPU, unless another number was chosen; gives the number in words."""
    before = torch.get_num_threads()
    is_chosen = THREADS in os.environ or before != ALL_THREADS
    lowered = device.type == "cpu" and parameters < SMALL_NETWORK and before > 1 and not is_chosen
    if lowered:
        torch.set_num_threads(1)
    try:
        why = f" of {before} (more would bring a network of this size nothing)" if lowered else ""
        yield f"threads: {torch.get_num_threads()}{why}"
    finally:
        torch.set_num_threads(before)


def total_memory() -> float:
    """Bytes of the machine's memory; unbounded where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
