"""Encodes sentence pairs into the files of a corpus, block by block: what is interrupted goes on."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ssmt.errors import Unfinished, UserError
from ssmt.files import read_json, reason
from ssmt.outputs import replacing, require_no_link
from ssmt.text.corpus import CORPUS_LINES, GROUPS, Many
from ssmt.text.pairs import Group, Pair
from ssmt.text.workers import worked

CHUNK_LINES = 10_000
CHUNKS_BETWEEN_SAVES = 10  # what an interruption loses at most, besides those under way
PROGRESS = "progress.json"  # of a corpus that is being written: how much of its files is whole
NUMBERS = ".numbers"  # lists of numbers end so until they are complete
Encode = Callable[[Sequence[str]], Many]


class Block(NamedTuple):
    """Encoded pairs: what they add to each file of a corpus that is being written."""

    pairs: int
    content: dict[str, bytes]


def ids_type(vocabulary: int) -> np.dtype[Any]:
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


def content_of(name: str, sequences: Many, dtype: np.dtype[Any]) -> dict[str, bytes]:
    """Sequences of ids as a side's two files have them."""
    arrays = [np.asarray(sequence, dtype=dtype) for sequence in sequences]
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return {f"{name}.ids": b"".join(array.tobytes() for array in arrays), f"{name}.lengths": lengths.tobytes()}


class CorpusWriter:
    """A corpus that is written block by block beside its place, and put there when it is complete.

    What was interrupted goes on after the last block that was saved: whoever has other pairs or another vocabulary than
    before removes what is unfinished first."""

    def __init__(self, directory: Path, types: Mapping[str, np.dtype[Any]]) -> None:
        """`types`: of the ids of the sides that are written."""
        self.directory, self.types = directory, types
        self.unfinished = unfinished_beside(directory)
        self.streams: dict[str, BinaryIO] = {}
        require_no_link(self.unfinished)
        self.unfinished.mkdir(parents=True, exist_ok=True)
        self.pairs, self.sizes = self._saved()
        for path in self.unfinished.iterdir():
            if path.name in self.sizes:
                os.truncate(path, self.sizes[path.name])  # without what came after the last block that was saved
            elif path.name != PROGRESS or not self.sizes:
                path.unlink()

    def _saved(self) -> tuple[int, dict[str, int]]:
        """How many pairs were saved, and the sizes of the files with them; none if the files are not such."""
        try:
            progress = read_json(self.unfinished / PROGRESS)
            pairs, sizes = progress["pairs"], progress["sizes"]
            numbers = [pairs, *sizes.values()]
            if not all(isinstance(number, int) and 0 <= number < 1 << 60 for number in numbers):
                return 0, {}
            for name, size in sizes.items():
                status = os.lstat(self.unfinished / name)
                if not stat.S_ISREG(status.st_mode) or status.st_size < size:
                    return 0, {}
        except (UserError, OSError, LookupError, TypeError, AttributeError, ValueError):
            return 0, {}
        return (pairs, sizes) if sizes else (0, {})

    def append(self, block: Block) -> None:
        for name, content in block.content.items():
            if name not in self.streams:
                self.streams[name] = open(self.unfinished / name, "ab")  # noqa: SIM115
            self.streams[name].write(content)
        self.pairs += block.pairs

    def save(self) -> None:
        """What is written so far stays, whatever happens."""
        for stream in self.streams.values():
            stream.flush()
            os.fsync(stream.fileno())
        self.sizes |= {name: stream.tell() for name, stream in self.streams.items()}
        with replacing(self.unfinished / PROGRESS) as temporary:
            temporary.write_text(json.dumps({"pairs": self.pairs, "sizes": self.sizes}))

    def finish(self) -> None:
        self.save()
        self.close()
        for name, dtype in self.types.items():
            lengths = np.fromfile(self.unfinished / f"{name}.lengths", dtype=np.int64)
            offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
            np.cumsum(lengths, out=offsets[1:])
            np.save(self.unfinished / f"{name}.offsets.npy", offsets)
            (self.unfinished / f"{name}.json").write_text(json.dumps({"dtype": dtype.name}))
        for path in self.unfinished.glob(f"*{NUMBERS}"):
            np.save(path.with_suffix(".npy"), np.fromfile(path, dtype=np.int64))
        (self.unfinished / PROGRESS).unlink()  # first: without it nothing of this is gone on with
        for path in (*self.unfinished.glob("*.lengths"), *self.unfinished.glob(f"*{NUMBERS}")):
            path.unlink()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.unfinished.rename(self.directory)

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()


def unfinished_beside(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.unfinished")


def require_ours(directory: Path) -> None:
    """A corpus replaces nothing but a corpus."""
    if directory.exists() and not (directory / CORPUS_LINES).exists():
        raise UserError(f"{directory}: exists and was not made by ssmt; choose another directory")


def write_corpus(
    directory: Path,
    pairs: Iterable[Pair],
    encode_sources: Encode,
    encode_targets: Encode,
    vocabulary_sizes: tuple[int, int],
    with_text: bool = False,
    groups: Sequence[Group] = (Group(),),
    tags: Callable[[Group], Sequence[int]] = lambda group: (),
    processes: int = 1,
    advance: Callable[[int], None] = lambda pairs: None,
) -> None:
    """Encode numbered pairs once, into a directory that appears only when it is complete; `with_text` keeps the raw
    text beside the numbers; `tags` are what stands in front of a group's sources; `advance` is told how many pairs are
    written. What was interrupted goes on."""
    require_ours(directory)
    types = dict(zip(("source", "target"), map(ids_type, vocabulary_sizes), strict=True))
    tags_of_group = [list(tags(group)) for group in groups]
    has_groups = list(groups) != [Group()]

    def encoded(chunk: list[Pair]) -> Block:
        sources: Many = encode_sources([pair.source for pair in chunk])
        if any(tags_of_group):
            sources = [[*tags_of_group[pair.group], *ids] for pair, ids in zip(chunk, sources, strict=True)]  # type: ignore[misc]
        content = content_of("source", sources, types["source"])
        content |= content_of("target", encode_targets([pair.target for pair in chunk]), types["target"])
        numbers = {"lines": [pair.number for pair in chunk], "characters": [len(pair.target) + 1 for pair in chunk]}
        if has_groups:
            numbers[GROUPS] = [pair.group for pair in chunk]
        content |= {f"{name}{NUMBERS}": np.array(of, dtype=np.int64).tobytes() for name, of in numbers.items()}
        if with_text:
            for name in ("source", "target"):
                content[f"{name}.txt"] = "".join(f"{getattr(pair, name)}\n" for pair in chunk).encode()
        return Block(len(chunk), content)

    try:
        writer = CorpusWriter(directory, types)
        try:
            remaining = islice(pairs, writer.pairs, None)
            chunks = iter(lambda: list(islice(remaining, CHUNK_LINES)), [])
            for number, block in enumerate(worked(encoded, chunks, processes), start=1):
                writer.append(block)
                if number % CHUNKS_BETWEEN_SAVES == 0:
                    writer.save()
                advance(writer.pairs)
            if has_groups:
                (writer.unfinished / f"{GROUPS}.json").write_text(json.dumps(list(groups)), encoding="utf-8")
            writer.finish()
        finally:
            writer.close()
    except OSError as error:
        raise Unfinished(f"{directory}: cannot be written ({reason(error)}); make room or move it") from error


def write_with_other_targets(
    original: Path, directory: Path, targets: Iterable[npt.ArrayLike], vocabulary_size: int
) -> None:
    """A copy of a corpus whose targets are encoded otherwise; it appears only when it is complete."""
    dtype = ids_type(vocabulary_size)
    shutil.rmtree(unfinished_beside(directory), ignore_errors=True)
    try:
        writer = CorpusWriter(directory, {"target": dtype})
        try:
            remaining = iter(targets)
            while chunk := list(islice(remaining, CHUNK_LINES)):
                writer.append(Block(len(chunk), content_of("target", chunk, dtype)))
            for path in original.iterdir():
                if path.name not in ("target.ids", "target.json", "target.offsets.npy"):
                    shutil.copy(path, writer.unfinished)
            writer.finish()
        finally:
            writer.close()
    except OSError as error:
        raise UserError(f"{directory}: cannot be written ({reason(error)}); make room or move it") from error
