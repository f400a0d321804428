"""Gold morphemes and systems' segmentations as data: which offsets of which line are cut.

Two kinds of gold file, told apart by their number of columns:

    words.tsv       word TAB its morphemes joined by '-'
    sentences.tsv   source TAB target TAB the target with '|' between the morphemes of a word

A segmentation of a line, gold or predicted, is the set of offsets at which its text is cut (`Cuts`): offset k lies
before character k. That serves both kinds, since a word list is a file of very short lines.

What is measured are *words*: runs of word characters (letters and marks, as in the model's legal segments). A line of
either kind can hold several: `we-Venn` is `we` and `Venn`. Offsets beside a space, digit, hyphen or punctuation mark
are no choice of a segmenter that treats those as segments of their own, and gold files disagree with themselves about
them (`we-|Venn` but `phakelo-timali`), so cuts there count neither for nor against anyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Literal

from ssmt.errors import UserError
from ssmt.files import name_of
from ssmt.text.alphabet import is_word_character
from ssmt.text.lines import read_lines, require_equal_lengths

Cuts = frozenset[int]

SENTENCEPIECE = "▁"  # as a separator: pieces between spaces, and this mark where the text has a space
_SEPARATOR_OF = {2: "-", 3: "|"}  # by the number of columns


@dataclass(frozen=True, slots=True)
class GoldWord:
    """A word of a line, from offset `start` on, with its cuts counted from its own first character."""

    text: str
    start: int
    cuts: Cuts | None  # None: nobody has said where its morphemes are

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def morphemes(self) -> tuple[str, ...]:
        assert self.cuts is not None, "the word has no gold segmentation"
        return segments_of(self.text, self.cuts)


@dataclass(frozen=True, slots=True)
class GoldLine:
    """A sentence, or an entry of a word list, with its words in order."""

    number: int  # in its file, from 1
    text: str
    words: tuple[GoldWord, ...]
    source: str | None = None  # the sentence that it translates

    @property
    def cuts(self) -> Cuts:
        """Gold cuts inside words, as offsets of the line."""
        return frozenset(word.start + cut for word in self.words for cut in word.cuts or ())


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold file. `texts` are what a system must segment, `sources` what it may be conditioned on."""

    name: str
    context: Literal["words", "sentences"]
    lines: tuple[GoldLine, ...]

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]

    @property
    def line_numbers(self) -> list[int]:
        """Where the texts stand in the file."""
        return [line.number for line in self.lines]

    @property
    def sources(self) -> list[str] | None:
        sources = [line.source for line in self.lines if line.source is not None]
        return sources if self.context == "sentences" else None


def segments_of(text: str, cuts: Iterable[int]) -> tuple[str, ...]:
    """The pieces of a text that is cut at the given offsets."""
    return tuple(text[start:end] for start, end in pairwise([0, *sorted(cuts), len(text)]))


def cuts_of(segments: Sequence[str]) -> Cuts:
    """The offsets at which the given segments meet: the inverse of `segments_of`."""
    return frozenset(accumulate(map(len, segments[:-1]))) - {0, sum(map(len, segments))}


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each run of word characters."""
    spans, start = [], 0
    for is_word, run in groupby(text, key=is_word_character):
        end = start + sum(1 for _ in run)
        if is_word:
            spans.append((start, end))
        start = end
    return spans


def gold_line(text: str, cuts: Cuts | None, *, number: int = 1, source: str | None = None) -> GoldLine:
    """A line whose cuts (offsets of the line; None: not annotated) are given to the words they fall into."""
    words = [
        GoldWord(
            text[start:end],
            start,
            None if cuts is None else frozenset(cut - start for cut in cuts if start < cut < end),
        )
        for start, end in word_spans(text)
    ]
    return GoldLine(number, text, tuple(words), source)


def read_gold(path: str | Path) -> Gold:
    """A gold file of either kind. A row with an empty last column is kept but not scored: it has no gold."""
    lines = []
    columns = 0
    name = name_of(path)
    for number, row in enumerate(read_lines(path), start=1):
        fields = row.split("\t")
        if number == 1:
            columns = len(fields)
        if columns not in _SEPARATOR_OF:
            raise UserError(
                f"{name}, line {number}: {columns} columns between tabs, wanted 2 (word, morphemes joined by '-') or "
                f"3 (source, target, target with '|' between morphemes)"
            )
        if len(fields) != columns:
            raise UserError(f"{name}, line {number}: {len(fields)} columns between tabs, wanted {columns} as in line 1")
        *source, text, segmented = fields
        if not text.strip():
            raise UserError(f"{name}, line {number}: column {columns - 1}, which holds the text, is empty")
        cuts = None
        if segmented:
            cuts = parse_segmented(text, segmented, _SEPARATOR_OF[columns], where=f"{name}, line {number}")
        lines.append(gold_line(text, cuts, number=number, source=source[0] if source else None))
    if not any(word.cuts is not None for line in lines for word in line.words):
        raise UserError(f"{name}: holds no word with a gold segmentation")
    return Gold(name, "words" if columns == 2 else "sentences", tuple(lines))


def read_segmented(path: str | Path, texts: Sequence[str], *, separator: str = "|") -> list[Cuts]:
    """A system's segmentation of the given texts, line by line, with a separator wherever it cut.

    `separator` is any text without word characters: `|`, `-`, a space, `@@ ` (subword-nmt), or `SENTENCEPIECE` for
    pieces as sentencepiece prints them. Cuts between words may be marked or not. Of a line with tabs the last column is
    read, so that files in the gold's own format will do.
    """
    if not separator or any(map(is_word_character, separator)):
        raise UserError(
            f"The separator {separator!r} cannot be told from text: choose one without letters, such as '|'"
        )
    lines = read_lines(path)
    name = name_of(path)
    require_equal_lengths("the gold file", len(texts), path, len(lines))
    return [
        parse_segmented(text, line.rpartition("\t")[2], separator, where=f"{name}, line {number}")
        for number, (text, line) in enumerate(zip(texts, lines, strict=True), start=1)
    ]


def parse_segmented(text: str, segmented: str, separator: str, *, where: str) -> Cuts:
    """The offsets of `text` at which `segmented` has a separator; `where` (file and line) is for the error message."""
    if separator == SENTENCEPIECE:
        text, segmented, separator = text.replace(" ", "▁"), segmented.strip().removeprefix("▁"), " "
    segments = segmented.split(separator)
    if separator not in text and "".join(segments) == text:
        return cuts_of(segments)
    # The text itself holds separators (a hyphen inside a word), or it is misspelt: walk through both side by side.
    # A separator that the text has at this place is the text's own.
    cuts = set()
    at = i = 0  # in text, in segmented
    while i < len(segmented):
        if segmented.startswith(separator, i) and not text.startswith(separator, at):
            cuts.add(at)
            i += len(separator)
        elif at < len(text) and segmented[i] == text[at]:
            at, i = at + 1, i + 1
        else:
            break
    if at < len(text) or i < len(segmented):
        raise UserError(
            f"{where}: the segments do not spell the text: {_excerpt(segmented, i)} where the text has "
            f"{_excerpt(text, at)}. Only the separator {separator!r} may be added, nothing else changed"
        )
    return frozenset(cuts - {0, len(text)})


def _excerpt(text: str, at: int, width: int = 20) -> str:
    """The neighbourhood of an offset, from the start of its word on."""
    start = max(at - width, text.rfind(" ", 0, at) + 1, 0)
    return repr(text[start : at + width]) if text[start:] else "nothing"
