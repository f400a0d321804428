"""The allocator of a training process on CPU."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h
MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the process keep memory that it frees, where its C library is glibc; returns whether that was possible.

    By default a large tensor's memory goes back to the system when the tensor dies, and the next update takes it anew,
    page by page, each cleared by the kernel: up to a fifth of an update's time. Batches are alike, so that what one
    update has freed is what the next one needs.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, MOST))
