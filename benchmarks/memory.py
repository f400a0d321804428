"""The memory that a piece of work needs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity


def peak_memory(work: Callable[[], object]) -> float:
    """Megabytes of tensors that exist at one time while it runs, beyond those that there were before (weights)."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    assert profile.profiler is not None
    events = profile.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    peak: int = max(accumulate(size for _, size in changes))
    return peak / 2**20
