"""Files: read as UTF-8, and named in every message about them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn, cast

import zstandard

from ssmt.errors import LineError, UserError

STANDARD_STREAM = "-"
LONGEST_LINE = 1 << 24  # bytes: what is longer is no text, and would fill the memory before anybody could say so
LARGEST_DESCRIPTION = 1 << 26  # bytes of a model's file that is no tensor
DEEPEST = 100  # lists in lists, of JSON
LARGEST_NUMBER = 1e100  # that was measured
COMPRESSED_BLOCK = 1 << 12  # bytes that are decompressed together: a few can become very many
DAMAGED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError)  # what decompressors raise
# What files that are no UTF-8 text begin with, and how they become one.
OTHER_CONTENT = {
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


# What streams have held, by their names, while they can be read several times.
_KEPT: ContextVar[dict[str, IO[bytes]] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_streams() -> Iterator[None]:
    """Within this, standard input and pipes can be read several times: what they hold is kept in temporary files."""
    if _KEPT.get() is not None:
        yield
        return
    kept: dict[str, IO[bytes]] = {}
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for copy in kept.values():
            copy.close()


def _keep(path: str | Path, kept: dict[str, IO[bytes]]) -> None:
    if str(path) not in kept:
        copy = tempfile.NamedTemporaryFile(prefix="ssmt-")  # noqa: SIM115 (closed by `keeping_streams`)
        with open_for_reading(path) as stream:
            if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not stream.isatty():
                raise UserError(f"{name_of(path)}: is a device, and may have no end; a file or a pipe is needed")
            shutil.copyfileobj(stream, copy)
        copy.flush()
        kept[str(path)] = cast(IO[bytes], copy)


def require_file(path: str | Path) -> None:
    """Refuse a stream for what is read more than once, unless streams are kept."""
    is_stream = Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()
    if str(path) == STANDARD_STREAM or is_stream:
        if (kept := _KEPT.get()) is not None:
            return _keep(path, kept)
        raise UserError(f"{name_of(path)}: is read several times, so it must be a file. Save it to one first")


@contextmanager
def open_for_reading(path: str | Path) -> Iterator[BinaryIO]:
    """A binary stream of a file or, for `-`, of standard input; what cannot be opened is a user's error."""
    if copy := (_KEPT.get() or {}).get(str(path)):
        path = copy.name
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
    except (OSError, ValueError) as error:  # the latter: a name with a null byte
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    with file:
        yield file


class _Zstandard(io.RawIOBase):
    """What a stream of one frame or several holds. (The package's own reader takes half a frame for a whole one.)"""

    def __init__(self, compressed: BinaryIO) -> None:
        self.compressed, self.ready, self.waiting = compressed, memoryview(b""), b""
        self.frame = zstandard.ZstdDecompressor().decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            block = self.waiting or self.compressed.read(COMPRESSED_BLOCK)
            if self.frame.eof and block:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            if not block:
                if not self.frame.eof:
                    raise EOFError("it ends in the middle")
                return 0
            self.ready = memoryview(self.frame.decompress(block))  # of which a piece is no copy: it can be very long
            self.waiting = self.frame.unused_data
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count


# By what a compressed file begins with.
_DECOMPRESSED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda stream: io.BufferedReader(_Zstandard(stream)),
}


def decompressed(stream: BinaryIO) -> BinaryIO:
    """What a stream holds: itself, or what gzip, bzip2, xz or zstd have packed. Its first bytes tell, not a name."""
    begins_with = cast(io.BufferedReader, stream).peek(8)
    for start, opened in _DECOMPRESSED.items():
        if begins_with.startswith(start):
            return cast(BinaryIO, opened(stream))
    return stream


def decompressed_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a stream that may be compressed; damage is named by file and line."""
    number = 0
    try:
        for number, line in enumerate(whole_lines(decompressed(stream)), start=1):  # noqa: B007 (used in the message)
            yield line
    except DAMAGED as error:
        raise UserError(f"{name}, line {number + 1}: cannot be read; the file is damaged ({reason(error)})") from None


def whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends; of one that has none, no more than shows that it is too long."""
    return iter(lambda: stream.readline(LONGEST_LINE + 1), b"")


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a UTF-8 stream as they come, without line ends.

    Only a line feed ends a line (a carriage return before it is dropped): `str.splitlines` would also cut at form
    feeds and Unicode separators, and then line i of one file is no longer line i of the other.
    """
    for number, raw in enumerate(stream, start=1):
        if len(raw) > LONGEST_LINE:
            raise UserError(f"{name}, line {number}: is longer than {LONGEST_LINE:,} bytes; is this a text file?")
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
        yield from decode_lines(decompressed_lines(stream, name_of(path)), name_of(path))


# What a directory of ours holds


def require_regular(path: Path) -> None:
    """Refuse what is no plain file in the place of one: a pipe is waited for without an end, a device has none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: is no plain file")


def read_description(path: Path) -> bytes:
    """The whole content of a file that describes a model."""
    require_regular(path)
    with open_for_reading(path) as stream:
        content = stream.read(LARGEST_DESCRIPTION + 1)
    if len(content) > LARGEST_DESCRIPTION:
        raise UserError(f"{path}: is larger than {LARGEST_DESCRIPTION:,} bytes; no model's file is")
    return content


def read_description_lines(path: Path) -> list[str]:
    """The lines of such a file, as they are."""
    content = read_description(path)
    return list(decode_lines(whole_lines(io.BytesIO(content)), str(path)))


def read_json(path: Path) -> Any:
    """The value in such a file."""
    try:
        return parse_json("\n".join(read_description_lines(path)))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: not JSON ({error})") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text. Whatever is wrong with it is a ValueError."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    try:
        value = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level = [value]
    for _ in range(DEEPEST):  # what Python can read, it cannot always write again
        inside = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        if not (level := [one for several in inside for one in several]):
            return value
    raise ValueError("nested too deep")


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON that every program can read: a number that is not finite, which JSON has not, becomes null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_text(value: object) -> bool:
    """Whether this is a string that can be written as UTF-8: JSON can hold halves of characters."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def count_in(text: str) -> int | None:
    """A count as files have it, none for what is no such number. (Python refuses thousands of digits with an error.)"""
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def is_number(value: object) -> bool:
    """Whether this is a number such as programs measure, and neither a switch nor what no table or plot can show."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def reason(error: Exception) -> str:
    """Why the system refused, without its number and file name."""
    return getattr(error, "strerror", None) or str(error)
