"""Outputs: written at once or not at all, and named in every message about them."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from safetensors import SafetensorError

from ssmt.errors import UserError
from ssmt.files import STANDARD_STREAM, reason

TEMPORARY = ".tmp"


def require_no_link(path: Path) -> None:
    """Refuse to write into a directory that is somewhere else."""
    if path.is_symlink():
        raise UserError(f"{path}: is a link, and a run writes only into its own directory; link the whole run instead")


def remove_leftovers(directory: Path) -> None:
    """Remove what killed processes have left half written, below a directory that nobody else writes to."""
    for inside, folders, files in os.walk(directory):
        for name in [name for name in folders if _is_temporary(name)]:
            shutil.rmtree(Path(inside) / name, ignore_errors=True)
            folders.remove(name)
        for name in filter(_is_temporary, files):
            (Path(inside) / name).unlink(missing_ok=True)


def _is_temporary(name: str) -> bool:
    """Ours, and those that safetensors writes beside ours before it renames them."""
    return (name.startswith(".") and name.endswith(TEMPORARY)) or re.fullmatch(r"\.tmp[A-Za-z0-9]{6}", name) is not None


def temporary_beside(path: Path) -> Path:
    """A name that no other process and no other thread uses."""
    return path.with_name(f".{path.name[:40]}.{os.getpid()}.{secrets.token_hex(4)}{TEMPORARY}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that replaces `path` at once when all is written, and leaves no trace when it is not.

    A link is replaced, and not what it points to."""
    temporary = temporary_beside(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # safetensors makes files that only their owner can read
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError, UnicodeEncodeError) as error:  # safetensors reports a full disk in its own way
        raise UserError(f"{path}: cannot be written ({reason(error)}); what was there before is untouched") from error
    finally:
        with suppress(OSError):  # where nothing could be written, nothing is there
            temporary.unlink(missing_ok=True)


@contextmanager
def open_for_writing(path: str | Path) -> Iterator[TextIO]:
    """A text stream: standard output for `-`, else a file that appears only when it is complete.

    What exists and is not a plain file (a named pipe, a terminal, /dev/stdout) is written to as it is.
    """
    target = Path(path)
    if str(path) == STANDARD_STREAM:
        with _naming_failures("standard output"):
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # like files, whatever the terminal's locale
            yield sys.stdout
            sys.stdout.flush()
    elif target.is_dir():
        raise UserError(f"{path}: is a directory; name a file in it")
    elif target.exists() and not target.is_file():
        with _naming_failures(str(path)), open(target, "w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        real = Path(os.path.realpath(path))  # what a user's link points to is replaced, not the link
        with open_in_directory(real) as stream:
            yield stream


@contextmanager
def open_in_directory(path: Path) -> Iterator[TextIO]:
    """A text stream for one of the files that the program writes into a directory: it appears only when it is
    complete, and replaces whatever is there. (A pipe in its place would be waited for without an end.)"""
    with (
        _unwinding_first(),
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


class _Terminated(BaseException):
    """A signal that ends the process has come."""


@contextmanager
def _unwinding_first() -> Iterator[None]:
    """Meanwhile a signal that would end the process at once ends it when everything half-written is removed."""

    def unwind(number: int, frame: FrameType | None) -> NoReturn:
        raise _Terminated(number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, unwind)
    came = None
    try:
        yield
    except _Terminated as end:
        (came,) = end.args
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
    if came is not None:
        os.kill(os.getpid(), came)


def require_place(path: str | Path) -> None:
    """Refuse an output that cannot be written, before the work for it is done."""
    if str(path) != STANDARD_STREAM and not Path(path).parent.is_dir():
        raise UserError(f"{path}: its directory does not exist; make it first")


def require_other_file(output: str | Path, *inputs: str | Path | None) -> None:
    """Refuse an output that is one of the inputs: it would replace them."""
    for path in inputs:
        if path is not None and Path(output).is_file() and Path(path).is_file() and os.path.samefile(output, path):
            raise UserError(f"{output}: is read here and would be replaced; name another file to write to")


@contextmanager
def _naming_failures(name: str) -> Iterator[None]:
    """Errors of the system become errors of the user that name the file; a reader who went away is neither's."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{name}: cannot be written ({reason(error)})") from error
