"""Sentence pairs as numbers: prepared once into memory-mapped arrays, then read in batches.

Millions of pairs fit, because only the arrays of line offsets are ever wholly in memory.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ssmt.config import TextConfig
from ssmt.errors import UserError
from ssmt.files import name_of, read_json, reason, require_file, require_regular, temporary_beside
from ssmt.text.batch import Batch, BatchSymbols, make_batch
from ssmt.text.lines import read_lines, require_equal_lengths, stream_lines, with_single_blanks

CHUNK_LINES = 10_000
DTYPES = ("uint16", "uint32")  # of ids
CORPUS_LINES = "lines.npy"  # line numbers of a corpus's sentences; marks a directory as ours
Many = Sequence[npt.ArrayLike]  # ids of many lines
Encode = Callable[[Sequence[str]], Many]
Resample = Callable[[Many, Many, tuple[int, int]], tuple[Many, Many]]  # ids of both sides, what names the draw


class Sentences:
    """Sequences of ids, end to end in one memory-mapped file, with the offset of each."""

    def __init__(self, directory: Path, name: str) -> None:
        self.offsets = _load_numbers(directory / f"{name}.offsets.npy")
        meta = read_json(directory / f"{name}.json")
        dtype = meta.get("dtype") if isinstance(meta, dict) else None
        if dtype not in DTYPES:
            raise ValueError(f"{name}.json is not of a corpus")
        if len(self.offsets) == 0 or self.offsets[0] != 0 or (np.diff(self.offsets) < 0).any():
            raise ValueError(f"{name}.offsets.npy does not rise from 0")
        shape = (int(self.offsets[-1]),)
        # An empty file cannot be mapped.
        self.ids: npt.NDArray[Any] = np.empty(0, dtype=dtype)
        if shape[0]:
            require_regular(directory / f"{name}.ids")
            self.ids = np.memmap(directory / f"{name}.ids", dtype=dtype, mode="r", shape=shape)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[np.int64]:
        return np.asarray(self.ids[self.offsets[index] : self.offsets[index + 1]], dtype=np.int64)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def chunks(self, size: int = 1 << 20) -> Iterator[npt.NDArray[np.int64]]:
        """The whole text in pieces of about `size` ids, cut at sentence ends."""
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + size, side="right")) - 1
            stop = max(stop, start + 1)
            yield np.asarray(self.ids[self.offsets[start] : self.offsets[stop]], dtype=np.int64)
            start = stop


def _load_numbers(path: Path) -> npt.NDArray[np.int64]:
    """A list of numbers. (It is mapped first: that compares the file's size with what its header says.)"""
    require_regular(path)
    numbers = np.load(path, mmap_mode="r")
    if numbers.dtype != np.int64 or numbers.ndim != 1:
        raise ValueError(f"{path.name} is no list of whole numbers")
    return np.array(numbers)


class SentenceWriter:
    """Writes what `Sentences` reads, as it comes."""

    def __init__(self, directory: Path, name: str, vocabulary: int) -> None:
        self.directory, self.name = directory, name
        self.dtype = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)
        self.lengths = array("q", [0])  # a list would take several times the memory

    def __enter__(self) -> SentenceWriter:
        self.stream = open(self.directory / f"{self.name}.ids", "wb")
        return self

    def extend(self, sequences: Iterable[npt.ArrayLike]) -> None:
        for sequence in sequences:
            ids = np.asarray(sequence, dtype=self.dtype)
            self.stream.write(ids.tobytes())
            self.lengths.append(len(ids))

    def __exit__(self, *exception: object) -> None:
        self.stream.close()
        np.save(self.directory / f"{self.name}.offsets.npy", np.cumsum(np.array(self.lengths, dtype=np.int64)))
        (self.directory / f"{self.name}.json").write_text(json.dumps({"dtype": self.dtype.name}))


class Corpus:
    """Prepared sentence pairs."""

    def __init__(self, directory: Path, symbols: BatchSymbols | None = None, resample: Resample | None = None) -> None:
        """`symbols`: of the vocabulary that the corpus is encoded in; only batches need them."""
        self.directory, self.symbols, self.resample = directory, symbols, resample
        try:
            self.source, self.target = Sentences(directory, "source"), Sentences(directory, "target")
            self.lines = _load_numbers(directory / CORPUS_LINES)
            self.characters = _load_numbers(directory / "characters.npy")
            parts = (self.source, self.target, self.lines, self.characters)
            if len({len(part) for part in parts}) > 1 or not len(self.lines):
                raise ValueError("its parts are not of one length")
            if (
                min(int(side.lengths.min()) for side in (self.source, self.target)) < 1
                or int(self.characters.min()) < 1
            ):
                raise ValueError("it has empty sentences")
        except (ValueError, KeyError, EOFError, TypeError, OverflowError, MemoryError, SyntaxError) as error:
            raise UserError(
                f"{directory}: the prepared data is damaged or missing ({error}); begin a new run"
            ) from None

    def __len__(self) -> int:
        return len(self.lines)

    def require_within(self, sizes: tuple[int, int]) -> None:
        """Refuse ids that vocabularies of these sizes do not have."""
        for side, size in zip((self.source, self.target), sizes, strict=True):
            if len(side.ids) and int(side.ids.max()) >= size:
                raise UserError(f"{self.directory}: was prepared with another vocabulary; begin a new run")

    def texts(self, indices: Iterable[int]) -> list[tuple[str, str]]:
        """The raw pairs, of a corpus that was written with them."""
        paths = [self.directory / f"{side}.txt" for side in ("source", "target")]
        for path in paths:
            require_regular(path)
        sources, targets = map(read_lines, paths)
        if not len(sources) == len(targets) == len(self):
            raise UserError(f"{self.directory}: its text and its numbers are not of one length; begin a new run")
        return [(sources[index], targets[index]) for index in indices]

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64], epoch: int = 0) -> Batch:
        """Some of the pairs; in each epoch in other subwords, where the corpus samples them."""
        assert self.symbols is not None
        sources: Many = [self.source[int(i)] for i in indices]
        targets: Many = [self.target[int(i)] for i in indices]
        if self.resample is not None:
            sources, targets = self.resample(sources, targets, (epoch, int(indices[0])))
        return make_batch(
            sources,
            targets,
            self.symbols,
            characters=int(self.characters[np.asarray(indices)].sum()),
            lines=self.lines[np.asarray(indices)].tolist(),
        )

    def batches(self, budget: int, seed: int | None = None, epoch: int = 0) -> list[npt.NDArray[np.int64]]:
        """The indices of each batch of one epoch: sentences of like length, `budget` characters with padding.

        With a seed, order and company are shuffled by seed and epoch; without, all is sorted by length.
        """
        lengths = self.characters
        if seed is None:
            order = np.lexsort((self.source.lengths, lengths))
        else:
            random = np.random.default_rng((seed, epoch))
            # Noise of a few characters gives a sentence new company in every epoch at little cost in padding.
            noisy = lengths * random.uniform(0.95, 1.05, len(lengths)) + random.uniform(0, 4, len(lengths))
            order = np.argsort(noisy, kind="stable")
        # Sources count too: a batch of short targets must not bring in very long sources.
        size = np.maximum(lengths, self.source.lengths)[order]
        batches, start = [], 0
        while start < len(order):
            widest = np.maximum.accumulate(size[start : start + budget])
            fits = widest * np.arange(1, len(widest) + 1) <= budget
            count = max(1, int(fits.argmin()) if not fits.all() else len(fits))
            batches.append(order[start : start + count])
            start += count
        if seed is not None:
            random.shuffle(batches)
        return batches


class PairReader:
    """Numbered sentence pairs of two files, checked as they are read. Can be read any number of times."""

    def __init__(self, source: str | Path, target: str | Path, limits: TextConfig) -> None:
        self.source, self.target, self.limits = source, target, limits
        for path in (source, target):
            require_file(path)
        self.skipped = 0  # bad lines left out in the last reading

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        self.skipped = 0
        count = 0
        pairs = zip_longest(stream_lines(self.source), stream_lines(self.target))
        for count, (source, target) in enumerate(pairs, start=1):
            if source is None or target is None:
                remaining = 1 + sum(1 for _ in pairs)
                lengths = (count - 1, count - 1 + remaining)
                require_equal_lengths(self.source, lengths[target is None], self.target, lengths[source is None])
            if self.limits.single_blanks:
                target = with_single_blanks(target)
            problem = self._problem(count, source, target)
            if problem is None:
                yield count, source, target
            elif self.limits.skip_bad_lines:
                self.skipped += 1
            else:
                raise UserError(
                    f"{problem}. Mend it in both files, or leave such pairs out with text.skip_bad_lines=true"
                )
        if count == self.skipped:
            nothing = "is empty" if count == 0 else f"has {count:,} lines, and none of them can be used"
            raise UserError(f"{name_of(self.source)}: {nothing}")

    def _problem(self, number: int, source: str, target: str) -> str | None:
        for path, line, longest, key in (
            (self.source, source, self.limits.longest_source, "longest_source"),
            (self.target, target, self.limits.longest_target, "longest_target"),
        ):
            if not line.strip():
                return f"{name_of(path)}, line {number}: is empty"
            if len(line) > longest:
                return (
                    f"{name_of(path)}, line {number}: has {len(line):,} characters, more than the {longest:,} of "
                    f"text.{key}"
                )
        return None


def write_corpus(
    directory: Path,
    pairs: Iterable[tuple[int, str, str]],
    encode_sources: Encode,
    encode_targets: Encode,
    vocabulary_sizes: tuple[int, int],
    with_text: bool = False,
) -> None:
    """Encode numbered pairs once, into a directory that appears only when it is complete; `with_text` keeps the raw
    text beside the numbers."""
    unfinished = temporary_beside(directory)
    if directory.exists() and not (directory / CORPUS_LINES).exists():
        raise UserError(f"{directory}: exists and was not made by ssmt; choose another directory")
    lines, characters = array("q"), array("q")
    try:
        unfinished.mkdir(parents=True)
        with (
            SentenceWriter(unfinished, "source", vocabulary_sizes[0]) as sources,
            SentenceWriter(unfinished, "target", vocabulary_sizes[1]) as targets,
        ):
            remaining = iter(pairs)
            while chunk := list(islice(remaining, CHUNK_LINES)):
                sources.extend(encode_sources([source for _, source, _ in chunk]))
                targets.extend(encode_targets([target for _, _, target in chunk]))
                lines.extend(number for number, _, _ in chunk)
                characters.extend(len(target) + 1 for _, _, target in chunk)
                for side in (1, 2) if with_text else ():
                    with open(unfinished / f"{('source', 'target')[side - 1]}.txt", "a", encoding="utf-8") as stream:
                        stream.writelines(f"{pair[side]}\n" for pair in chunk)
        np.save(unfinished / CORPUS_LINES, np.array(lines, dtype=np.int64))
        np.save(unfinished / "characters.npy", np.array(characters, dtype=np.int64))
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    except OSError as error:
        raise UserError(f"{directory}: cannot be written ({reason(error)}); make room or move it") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_with_other_targets(
    original: Path, directory: Path, targets: Iterable[npt.ArrayLike], vocabulary_size: int
) -> None:
    """A copy of a corpus whose targets are encoded otherwise; it appears only when it is complete."""
    unfinished = temporary_beside(directory)
    try:
        shutil.copytree(original, unfinished, ignore=shutil.ignore_patterns("target.ids", "target.*.npy"))
        with SentenceWriter(unfinished, "target", vocabulary_size) as writer:
            writer.extend(targets)
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    except OSError as error:
        raise UserError(f"{directory}: cannot be written ({reason(error)}); make room or move it") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
