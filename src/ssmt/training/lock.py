"""One process at a time in the directory of a run or a sweep, from the first byte that it writes to the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssmt.errors import UserError
from ssmt.files import reason

_holders: dict[tuple[int, int], int] = {}  # directories, by device and inode, and the thread that has each to itself
_handles: set[int] = set()  # of directories, open ones


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Have a directory, which is made if it is not there, to oneself; one that stays empty goes again.

    The lock is the directory's own and goes with the process, however that ends. Whoever has it can ask for it again.
    """
    is_new = not directory.exists()
    handle = _locked(directory)
    key = _identity(os.fstat(handle))
    try:
        if _has(key):
            yield
            return
        _holders[key] = threading.get_ident()
        try:
            yield
        finally:
            _holders.pop(key, None)
            if is_new:
                with suppress(OSError):  # it is not empty
                    directory.rmdir()
    finally:
        _close(handle)


def _locked(directory: Path) -> int:
    """A descriptor of the directory that holds its lock."""
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(directory, os.O_RDONLY)
        except OSError as error:
            raise UserError(f"{directory}: cannot be made ({reason(error)})") from None
        _handles.add(handle)
        try:
            identity = _identity(os.fstat(handle))
            if not _has(identity):
                _lock(handle, directory)
            if _identity(os.stat(directory)) == identity:
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            _close(handle)
            raise
        _close(handle)  # whoever had it has removed it meanwhile


def _lock(handle: int, directory: Path) -> None:
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{directory}: another process is at work there; wait for it, or stop it") from None
    except OSError:  # a file system without locks
        pass


def _close(handle: int) -> None:
    if handle in _handles:
        _handles.remove(handle)
        os.close(handle)


def _leave_to_parent() -> None:
    """In a forked process. A lock is held until the last copy of its descriptor is closed: a process that outlives a
    killed one, as those that encode do for a moment, must not hold it on."""
    for handle in tuple(_handles):
        _close(handle)
    _holders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _has(identity: tuple[int, int]) -> bool:
    return _holders.get(identity) == threading.get_ident()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
