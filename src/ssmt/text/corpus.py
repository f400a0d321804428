"""Sentence pairs as numbers: prepared once into memory-mapped arrays, then read in batches.

Millions of pairs fit: what a training reads is mapped and not loaded, and what is written goes block by block.
"""

from __future__ import annotations

import copy
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ssmt.errors import UserError
from ssmt.files import read_json, require_regular
from ssmt.text.alignment import Alignment, evenly
from ssmt.text.batch import Batch, BatchSymbols, make_batch, padded
from ssmt.text.lines import read_lines
from ssmt.text.pairs import Group, repetitions
from ssmt.text.vocabulary import BothSides

CHUNK_IDS = 1 << 20
PAIRS_AT_ONCE = 64  # that an alignment is learnt from
LONGEST_JOINED = 500  # characters of a pair that is made of two
MOST_WEIGHT = 1000  # of a corpus
DTYPES = ("uint16", "uint32")  # of ids
CORPUS_LINES = "lines.npy"  # line numbers of a corpus's sentences; marks a directory as ours
GROUPS = "groups"  # .npy: the group of each pair; .json: the groups. Neither where there is but one without a name
Many = Sequence[npt.ArrayLike]  # ids of many lines
# Ids of both sides, and for each pair what names its draw: epoch and place in the corpus, whatever its company.
Resample = Callable[[Many, Many, Sequence[tuple[int, int]]], tuple[Many, Many]]


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

    def chunks(self, size: int = CHUNK_IDS) -> Iterator[npt.NDArray[np.int64]]:
        """The whole text in pieces of about `size` ids, cut at sentence ends."""
        for start, stop in self.spans(size):
            yield np.asarray(self.ids[self.offsets[start] : self.offsets[stop]], dtype=np.int64)

    def spans(self, size: int = CHUNK_IDS) -> Iterator[tuple[int, int]]:
        """The first sentence of each such piece, and the one after its last."""
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + size, side="right")) - 1
            stop = max(stop, start + 1)
            yield start, stop
            start = stop


def _load_numbers(path: Path) -> npt.NDArray[np.int64]:
    """A list of numbers: mapped, so that the processes of one machine share its memory, and which compares the file's
    size with what its header says."""
    require_regular(path)
    try:
        numbers = np.load(path, mmap_mode="r")
    except (tokenize.TokenError, SyntaxError) as error:  # a header that numpy takes for one of an old Python's
        raise ValueError(f"{path.name} has no header of numpy's: {error}") from None
    if numbers.dtype != np.int64 or numbers.ndim != 1:
        raise ValueError(f"{path.name} is no list of whole numbers")
    return np.asarray(numbers)


class Corpus:
    """Prepared sentence pairs."""

    def __init__(self, directory: Path, symbols: BatchSymbols | None = None, resample: Resample | None = None) -> None:
        """`symbols`: of the vocabulary that the corpus is encoded in; only batches need them."""
        self.directory, self.symbols, self.resample = directory, symbols, resample
        self.alignment: Alignment | None = None  # of the pairs, which batches bring along
        try:
            self.source, self.target = Sentences(directory, "source"), Sentences(directory, "target")
            self.lines = _load_numbers(directory / CORPUS_LINES)
            self.characters = _load_numbers(directory / "characters.npy")
            self.groups, self.group_of_pair = _load_groups(directory, len(self.lines))
            parts = (self.source, self.target, self.lines, self.characters, self.group_of_pair)
            if len({len(part) for part in parts}) > 1 or not len(self.lines):
                raise ValueError("its parts are not of one length")
            if (
                min(int(side.lengths.min()) for side in (self.source, self.target)) < 1
                or int(self.characters.min()) < 1
            ):
                raise ValueError("it has empty sentences")
            self.rows = np.arange(len(self.lines))  # those that batches are made of
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
        starts = {} if self.symbols is None else self.symbols.starts
        if unknown := [str(code) for group in self.groups if starts and (code := group.target_language) not in starts]:
            raise UserError(
                f"{self.directory}: has text in {unknown[0]}, which the model does not know; begin a new run"
            )

    @property
    def languages(self) -> list[str]:
        """The target languages that are named, in the order of their codes."""
        return sorted({group.target_language for group in self.groups if group.target_language})

    def only(self, language: str) -> Corpus:
        """The same corpus, with batches of one target language."""
        is_wanted = np.array([group.target_language == language for group in self.groups])
        part = copy.copy(self)
        part.rows = np.flatnonzero(is_wanted[self.group_of_pair])
        return part

    def target_weights(self, times: Sequence[float]) -> Iterator[npt.NDArray[np.float64]]:
        """For each of the target's chunks, how many times each id counts, by the group of its pair."""
        of_pair = np.array(times, dtype=np.float64)[self.group_of_pair]
        for start, stop in self.target.spans():
            yield np.repeat(of_pair[start:stop], self.target.lengths[start:stop])

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
        first, last = self._parts(indices)
        is_joined = first != last
        rows = np.concatenate([first, last[is_joined]])
        sources: Many = [self.source[int(row)] for row in rows]
        targets: Many = [self.target[int(row)] for row in rows]
        if self.resample is not None:
            sources, targets = self.resample(sources, targets, [(epoch, int(row)) for row in rows])
        if is_joined.any():
            sources, targets = _joined(sources, targets, np.flatnonzero(is_joined), self.symbols)
        starts = self.symbols.starts
        batch = make_batch(
            sources,
            targets,
            self.symbols,
            languages=[self.groups[group].target_language for group in self.group_of_pair[first]] if starts else None,
            characters=int(self.characters[rows].sum()),
            lines=self.lines[rows].tolist(),
        )
        if self.alignment is None or batch.source is None:
            return batch
        return replace(batch, alignment=self.alignment.of(batch.source, batch.target))

    def learn_alignment(self, vocabulary: BothSides) -> None:
        """From its own pairs, or a part of them where they are many; batches have it from then on."""
        assert self.symbols is not None
        chosen = np.array(evenly(len(self)))
        by_length = chosen[np.argsort(self.characters[chosen], kind="stable")]
        alignment, symbols = Alignment(vocabulary), self.symbols
        alignment.learn(
            (
                padded([self.source[int(row)] for row in rows], symbols.source_pad),
                padded([self.target[int(row)] for row in rows], symbols.target_pad),
            )
            for rows in np.array_split(by_length, -(-len(by_length) // PAIRS_AT_ONCE))
        )
        self.alignment = alignment

    def batches(
        self, budget: int, seed: int | None = None, epoch: int = 0, temperature: float = 1.0, joined: float = 0.0
    ) -> list[npt.NDArray[np.int64]]:
        """The indices of each batch of one epoch: sentences of like length, `budget` characters with padding.

        With a seed, order and company are shuffled by seed and epoch, and an epoch has each pair as often as its
        corpus's weight and the balance of languages (`temperature`) ask for, a share of them `joined` to another;
        without, each is there once, and all is sorted by length.
        """
        if seed is None:
            order = self.rows[np.lexsort((self.source.lengths[self.rows], self.characters[self.rows]))]
        else:
            random = np.random.default_rng((seed, epoch))
            drawn = self._drawn(temperature, random)
            if joined:
                drawn = self._with_joined(drawn, joined, min(LONGEST_JOINED, budget), random)
            lengths = self.characters_of(drawn)
            # Noise of a few characters gives a sentence new company in every epoch at little cost in padding.
            noisy = lengths * random.uniform(0.95, 1.05, len(lengths)) + random.uniform(0, 4, len(lengths))
            order = drawn[np.argsort(noisy, kind="stable")]
        size = self._sizes_of(order)
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

    def _drawn(self, temperature: float, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """The pairs of an epoch: of a group that it has 2.3 times, all twice and each once more by chance."""
        sizes = np.bincount(self.group_of_pair, minlength=len(self.groups)).tolist()
        times = np.array(repetitions(self.groups, sizes, temperature))
        if (times == 1).all():
            return np.arange(len(self))
        times_of_pair = times[self.group_of_pair]
        whole = np.floor(times_of_pair)
        count = (whole + (random.random(len(self)) < times_of_pair - whole)).astype(np.int64)
        return np.repeat(np.arange(len(self)), count) if count.any() else np.arange(len(self))

    # Two pairs that are read as one are an index too, beyond those of pairs: len(self) * (1 + first) + last.

    def _with_joined(
        self, drawn: npt.NDArray[np.int64], share: float, longest: int, random: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """The pairs of an epoch, about a share of them joined two and two, if they are of one group and not too long
        together."""
        shuffled = random.permutation(drawn)
        chosen = shuffled[: int(len(shuffled) * share) // 2 * 2]
        by_group = chosen[np.argsort(self.group_of_pair[chosen], kind="stable")]
        first, last = by_group[::2], by_group[1::2]
        together = len(self) * (1 + first) + last
        is_short = self._sizes_of(together) <= longest
        fits = (self.group_of_pair[first] == self.group_of_pair[last]) & is_short & (first != last)
        return np.concatenate([shuffled[len(chosen) :], together[fits], first[~fits], last[~fits]])

    def _parts(
        self, indices: Sequence[int] | npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The first pair and the last that each index stands for; of most, both are one."""
        numbers = np.asarray(indices, dtype=np.int64)
        first, last = np.divmod(numbers, len(self))
        return np.where(first == 0, last, first - 1), last

    def _of_all_parts(self, of_pairs: npt.NDArray[np.int64], indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        first, last = self._parts(indices)
        return np.asarray(of_pairs[first] + np.where(first != last, of_pairs[last], 0))

    def _sizes_of(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What each takes of a batch's budget. Sources count too: a batch of short targets must not bring in very long
        sources."""
        return np.maximum(self.characters_of(indices), self._of_all_parts(self.source.lengths, indices))

    def characters_of(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many characters the target of each has, `</s>` included (or, between two that are joined, a blank)."""
        return self._of_all_parts(self.characters, indices)


def _joined(
    sources: Many, targets: Many, firsts: npt.NDArray[np.int64], symbols: BatchSymbols
) -> tuple[list[npt.ArrayLike], list[npt.ArrayLike]]:
    """The pairs in the places `firsts`, each with its own of those that stand behind all that are to remain."""
    remaining = len(sources) - len(firsts)
    new_sources, new_targets = list(sources[:remaining]), list(targets[:remaining])
    between = [] if symbols.blank is None else [symbols.blank]
    for place, other in zip(firsts.tolist(), range(remaining, len(sources)), strict=True):
        source, target = np.asarray(sources[other]), np.asarray(targets[other])
        untagged = source[~np.isin(source, list(symbols.tags))]
        new_sources[place] = np.concatenate([np.asarray(sources[place])[:-1], untagged])
        new_targets[place] = np.concatenate([np.asarray(targets[place])[:-1], between, target]).astype(np.int64)
    return new_sources, new_targets


def _load_groups(directory: Path, pairs: int) -> tuple[list[Group], npt.NDArray[np.int64]]:
    if not (directory / f"{GROUPS}.json").exists():
        return [Group()], np.zeros(pairs, dtype=np.int64)
    groups = [Group(*fields) for fields in read_json(directory / f"{GROUPS}.json")]
    of_pair = _load_numbers(directory / f"{GROUPS}.npy")
    if len(of_pair) and not 0 <= int(of_pair.min()) <= int(of_pair.max()) < len(groups):
        raise ValueError("a pair is of no group")
    for source_language, target_language, weight, origin, _ in groups:
        words = (source_language, target_language, origin)
        if not all(word is None or isinstance(word, str) for word in words) or not 0 < weight <= MOST_WEIGHT:
            raise ValueError(f"{GROUPS}.json is not of a corpus")
    return groups, of_pair
