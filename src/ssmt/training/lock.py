"""One process at a time in the directory of a run, from the first byte that it writes to the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssmt.errors import UserError
from ssmt.files import reason

_holders: dict[tuple[int, int], int] = {}  # directories, by device and inode, and the thread that has each to itself


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
            del _holders[key]
            if is_new:
                with suppress(OSError):  # it is not empty
                    directory.rmdir()
    finally:
        os.close(handle)


def _locked(directory: Path) -> int:
    """A descriptor of the directory that holds its lock."""
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(directory, os.O_RDONLY)
        except OSError as error:
            raise UserError(f"{directory}: cannot be made ({reason(error)})") from None
        try:
            identity = _identity(os.fstat(handle))
            if not _has(identity):
                _lock(handle, directory)
            if _identity(os.stat(directory)) == identity:
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever had it has removed it meanwhile


def _lock(handle: int, directory: Path) -> None:
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{directory}: another process is training there; wait for it, or stop it") from None
    except OSError:  # a file system without locks
        pass


def _has(identity: tuple[int, int]) -> bool:
    return _holders.get(identity) == threading.get_ident()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
