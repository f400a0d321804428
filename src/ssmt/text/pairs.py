"""Sentence pairs of any number of corpora, checked as they are read, with what is known of where they come from."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ssmt.config import CorpusConfig, TextConfig
from ssmt.errors import UserError
from ssmt.files import require_file
from ssmt.text.formats import RawPair, files_of, stream_pairs
from ssmt.text.lines import with_single_blanks

MOST_GROUPS = 1 << 16
WORDS = slice(RawPair._fields.index("source_language"), None)  # of a raw pair: its languages and origin


class Group(NamedTuple):
    """What pairs have in common: their languages, and the corpus's weight and origin."""

    source_language: str | None = None
    target_language: str | None = None
    weight: float = 1.0
    origin: str | None = None
    tagged: bool = False


class Pair(NamedTuple):
    number: int  # among all pairs of the corpora, from 1: of two plain files, the line
    source: str
    target: str
    group: int = 0  # its place in the reader's groups


class PairReader:
    """Numbered sentence pairs of corpora, checked as they are read. Can be read any number of times."""

    def __init__(self, corpora: Sequence[CorpusConfig], limits: TextConfig) -> None:
        self.corpora, self.limits = corpora, limits
        for path in (path for corpus in corpora for path in files_of(corpus)):
            require_file(path)
        self.groups: list[Group] = []  # in the order of their first pairs; of all that was read so far
        self.sizes = array("q")  # pairs of each group in the last reading
        self.skipped = 0  # bad lines left out in the last reading

    @classmethod
    def of_files(cls, source: str | Path, target: str | Path, limits: TextConfig) -> PairReader:
        """The simplest case: two files of lines."""
        return cls([CorpusConfig(source=(str(source),), target=(str(target),))], limits)

    def __iter__(self) -> Iterator[Pair]:
        self.skipped, self.sizes = 0, array("q", [0] * len(self.groups))
        number, file = 0, ""
        places = {group: place for place, group in enumerate(self.groups)}
        for corpus in self.corpora:
            words, place = None, 0  # of the last pair: nearly always those of the next
            for raw in stream_pairs(corpus):
                number, file = number + 1, file or raw.file
                target = with_single_blanks(raw.target) if self.limits.single_blanks else raw.target
                if problem := self._problem(raw, target):
                    if not self.limits.skip_bad_lines:
                        raise UserError(problem)
                    self.skipped += 1
                    continue
                if raw[WORDS] != words:
                    group = self._group(corpus, raw)
                    if group not in places:
                        places[group] = self._new(group, raw)
                    words, place = raw[WORDS], places[group]
                self.sizes[place] += 1
                yield Pair(number, raw.source, target, place)
        if number == self.skipped:
            files = [path for corpus in self.corpora for path in files_of(corpus)]
            nothing = "is empty" if number == 0 else f"has {number:,} lines, and none of them can be used"
            raise UserError(f"{file or files[0]}: {nothing}")

    def place(self, number: int) -> str:
        """The file of the target and the line of a pair, for messages; reads up to there."""
        raws = (raw for corpus in self.corpora for raw in stream_pairs(corpus))
        raw = next(islice(raws, number - 1, None))
        return f"{raw.other}, line {raw.line}"

    def _new(self, group: Group, raw: RawPair) -> int:
        """The place of a group that was not there before."""
        if len(self.groups) == MOST_GROUPS:
            raise UserError(f"{raw.file}, line {raw.line}: more than {MOST_GROUPS:,} languages and origins")
        first = self.groups[0] if self.groups else group
        for side in ("source", "target"):
            key = f"{side}_language"
            if (getattr(first, key) is None) != (getattr(group, key) is None):
                raise UserError(
                    f"{raw.file}, line {raw.line}: of some pairs the {side} language is known and of others not; name "
                    f"the {key} of every corpus"
                )
        self.groups.append(group)
        self.sizes.append(0)
        return len(self.groups) - 1

    def _group(self, corpus: CorpusConfig, raw: RawPair) -> Group:
        """What a pair says of itself, its corpus's word, and that of the whole run, whichever is there first."""
        return Group(
            raw.source_language or corpus.source_language or self.limits.source_language,
            raw.target_language or corpus.target_language or self.limits.target_language,
            corpus.weight,
            corpus.origin or raw.origin,
            corpus.tagged,
        )

    def _problem(self, raw: RawPair, target: str) -> str | None:
        fits = len(raw.source) <= self.limits.longest_source and len(target) <= self.limits.longest_target
        if fits and raw.source.strip() and target.strip():
            return None
        for file, line, longest, key in (
            (raw.file, raw.source, self.limits.longest_source, "longest_source"),
            (raw.other, target, self.limits.longest_target, "longest_target"),
        ):
            wrong = None
            if not line.strip():
                wrong = "is empty" if raw.file != raw.other else f"its {key.removeprefix('longest_')} is empty"
            elif len(line) > longest:
                wrong = f"has {len(line):,} characters, more than the {longest:,} of text.{key}"
            if wrong:
                where = "Mend it" + (" in both files" if raw.file != raw.other else "")
                return (
                    f"{file}, line {raw.line}: {wrong}. {where}, or leave such pairs out with text.skip_bad_lines=true"
                )
        return None


def repetitions(groups: Sequence[Group], sizes: Sequence[float], temperature: float) -> list[float]:
    """How many times each group's pairs are taken, so that languages are balanced and all together are as many as the
    weights make of them.

    A pair of languages with the share p of the pairs gets p ** (1/temperature) of them, in proportion: at 1 its own
    share, at a high temperature nearly the same as every other."""
    weighted = [group.weight * size for group, size in zip(groups, sizes, strict=True)]
    of_languages: dict[tuple[str | None, str | None], float] = {}
    for group, size in zip(groups, weighted, strict=True):
        of_languages[group[:2]] = of_languages.get(group[:2], 0.0) + size
    total = sum(weighted)
    if temperature == 1 or len(of_languages) == 1 or not total:
        return [group.weight for group in groups]
    shares = {languages: (size / total) ** (1 / temperature) for languages, size in of_languages.items()}
    factor = {
        languages: total * share / sum(shares.values()) / max(of_languages[languages], 1e-9)
        for languages, share in shares.items()
    }
    return [group.weight * factor[group[:2]] for group in groups]
