"""Reading raw text, one sentence a line.

This is the only door through which text enters the program, so the NFC normalisation happens here and nowhere else.
"""

from __future__ import annotations

import queue
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from ssmt.errors import UserError
from ssmt.files import STANDARD_STREAM, name_of, stream_raw_lines


def normalise(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def with_single_blanks(text: str) -> str:
    return " ".join(text.split())


def stream_lines(path: str | Path, normalised: bool = True) -> Iterator[str]:
    """Lines of a file, or of standard input for `-`, one at a time; a model's own files are read as they are."""
    lines = stream_raw_lines(path)
    return map(normalise, lines) if normalised else lines


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
