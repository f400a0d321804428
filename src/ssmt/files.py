"""Files: read as UTF-8, written at once or not at all, and named in every message about them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from safetensors import SafetensorError

from ssmt.errors import LineError, UserError

STANDARD_STREAM = "-"
# What files that are no UTF-8 text begin with, and how they become one.
OTHER_CONTENT = {
    b"\x1f\x8b": "compressed by gzip: gunzip -c FILE > NEW",
    b"\xfd7zXZ": "compressed by xz: xz -dc FILE > NEW",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: zstd -dc FILE > NEW",
    b"BZh": "compressed by bzip2: bzip2 -dc FILE > NEW",
    b"PK\x03\x04": "a zip archive: unzip FILE",
    b"\xff\xfe": "UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    b"\xfe\xff": "UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW",
}


def name_of(path: str | Path) -> str:
    """What messages call a file: its path, or a name for the standard stream."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


@dataclass
class Lines:
    """Which lines are being worked on: errors count from the first of them."""

    offset: int = 0


@contextmanager
def naming_lines(files: Mapping[str, str | Path | None]) -> Iterator[Lines]:
    """Errors about the i-th text of a kind become errors about a line of that kind's file."""
    lines = Lines()
    try:
        yield lines
    except LineError as error:
        where = f"{name_of(files[error.kind] or '')}, line {lines.offset + error.number}"
        raise UserError(f"{where}: {error.problem}") from None


@contextmanager
def open_for_reading(path: str | Path) -> Iterator[BinaryIO]:
    """A binary stream of a file or, for `-`, of standard input; what cannot be opened is a user's error."""
    if str(path) == STANDARD_STREAM:
        # A stream of its own: a thread that waits in sys.stdin would keep its lock, and the interpreter could not end.
        with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
            yield stream
        return
    try:
        file = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, a text file is needed") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        yield file


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a UTF-8 stream as they come, without line ends.

    Only a line feed ends a line (a carriage return before it is dropped): `str.splitlines` would also cut at form
    feeds and Unicode separators, and then line i of one file is no longer line i of the other.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            is_other = [what for start, what in OTHER_CONTENT.items() if number == 1 and raw.startswith(start)]
            if is_other:
                raise UserError(f"{name}: a text file is needed, and this is {is_other[0]}") from None
            raise UserError(
                f"{name}, line {number}: not UTF-8 (byte {error.start + 1} of the line is 0x{raw[error.start]:02x}). "
                f"Convert the file first, for example: iconv -f LATIN1 -t UTF-8 FILE > NEW"
            ) from None


def stream_raw_lines(path: str | Path) -> Iterator[str]:
    """Lines of a file, or of standard input for `-`, as they are."""
    with open_for_reading(path) as stream:
        yield from decode_lines(stream, name_of(path))


def require_file(path: str | Path) -> None:
    """Refuse a stream for what is read more than once."""
    is_stream = Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()
    if str(path) == STANDARD_STREAM or is_stream:
        raise UserError(f"{name_of(path)}: is read several times, so it must be a file. Save it to one first")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that replaces `path` at once when all is written, and leaves no trace when it is not."""
    real = Path(os.path.realpath(path))  # what a symbolic link points to is replaced, not the link
    temporary = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # safetensors makes files that only their owner can read
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, real)
    except (OSError, SafetensorError) as error:  # the latter is how safetensors reports a full disk
        raise UserError(f"{path}: cannot be written ({reason(error)}); what was there before is untouched") from error
    finally:
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
        with replacing(target) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            yield stream


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


def reason(error: Exception) -> str:
    """Why the system refused, without its number and file name."""
    return getattr(error, "strerror", None) or str(error)
