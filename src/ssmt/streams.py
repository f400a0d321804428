"""The process's standard streams, where they are closed or can no longer be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def replace_closed_streams() -> None:
    """Where a standard stream is closed (`>&-`), the next file that is opened would take its number. In its place comes
    one that cannot be used, so that whoever needs it is told; messages go nowhere."""
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            setattr(sys, name, stream)


def write_nowhere(descriptors: Iterable[int]) -> None:
    """What is written there from now on is lost, and no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def give_up_unwritable_streams() -> None:
    """At the end. That a stream could not be written was said; the interpreter would try again, and say it again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            write_nowhere([stream.fileno()])
