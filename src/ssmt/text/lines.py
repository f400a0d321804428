"""Reading and writing raw text, one sentence a line.

This is the only door through which text enters the program, so the NFC normalisation happens here and nowhere else.
"""

from __future__ import annotations

import io
import os
import queue
import sys
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from safetensors import SafetensorError

from ssmt.errors import UserError

STANDARD_STREAM = "-"


def normalise(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def with_single_blanks(text: str) -> str:
    return " ".join(text.split())


def name_of(path: str | Path) -> str:
    """What messages call a file: its path, or a name for the standard stream."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def decode_lines(stream: Iterable[bytes], name: str, normalised: bool = True) -> Iterator[str]:
    """Lines of a UTF-8 stream as they come, NFC-normalised, without line ends.

    Only a line feed ends a line (a carriage return before it is dropped): `str.splitlines` would also cut at form
    feeds and Unicode separators, and then line i of one file is no longer line i of the other.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: not UTF-8 (byte {error.start + 1} of the line is 0x{raw[error.start]:02x}). "
                f"Convert the file first, for example: iconv -f LATIN1 -t UTF-8 FILE > NEW"
            ) from None
        yield normalise(line) if normalised else line


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


def require_file(path: str | Path) -> None:
    """Refuse a stream for what is read more than once."""
    is_stream = Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()
    if str(path) == STANDARD_STREAM or is_stream:
        raise UserError(f"{name_of(path)}: is read several times, so it must be a file. Save it to one first")


def stream_lines(path: str | Path, normalised: bool = True) -> Iterator[str]:
    """Lines of a file, or of standard input for `-`, one at a time; a model's own files are read as they are."""
    with open_for_reading(path) as stream:
        yield from decode_lines(stream, name_of(path), normalised)


def stream_blocks(path: str | Path, most: int) -> Iterator[list[str]]:
    """Lines in blocks of at most `most`, without waiting to fill one: whoever writes a line and waits for the answer
    gets it, and whoever writes a million gets them in large blocks."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=2 * most)

    def read() -> None:
        try:
            for line in stream_lines(path):
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # handed over to whoever reads the blocks
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    ended = False
    while not ended:
        block: list[str] = []
        item = waiting.get()
        while True:
            if isinstance(item, str):
                block.append(item)
            else:
                ended = True
            if ended or len(block) == most:
                break
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                break
        if block:
            yield block
        if isinstance(item, BaseException):
            raise item


def read_lines(path: str | Path, normalised: bool = True) -> list[str]:
    return list(stream_lines(path, normalised))


def read_parallel(first: str | Path, second: str | Path) -> tuple[list[str], list[str]]:
    """Two files whose lines belong together; unequal lengths are refused."""
    if str(first) == STANDARD_STREAM and str(second) == STANDARD_STREAM:
        raise UserError("Only one of the two files can be standard input")
    lines, others = read_lines(first), read_lines(second)
    require_equal_lengths(first, len(lines), second, len(others))
    return lines, others


def require_equal_lengths(first: str | Path, length: int, second: str | Path, other_length: int) -> None:
    if length != other_length:
        raise UserError(
            f"{name_of(first)} has {length:,} lines but {name_of(second)} has {other_length:,}: "
            f"line i of one must be line i of the other. Line {min(length, other_length) + 1:,} is the first without "
            f"a partner"
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that replaces `path` at once when all is written, and leaves no trace when it is not."""
    real = Path(os.path.realpath(path))  # what a symbolic link points to is replaced, not the link
    temporary = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    try:
        yield temporary
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
