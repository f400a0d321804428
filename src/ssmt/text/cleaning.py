"""Which sentence pairs are better left out, and why. Each pair has at most one reason, the first that applies; what is
left out is counted and can be written down, so that nothing goes silently.

The pairs are read twice: once to see what is usual in this text (how long targets are for their sources, which scripts
they are written in, which letters follow which in either language), once to judge each pair by that.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median

from ssmt.config import CorpusConfig
from ssmt.errors import UserError
from ssmt.files import require_file
from ssmt.text.alphabet import is_word_character
from ssmt.text.formats import RawPair, files_of, stream_pairs

SHORT = 20  # characters; lengths of shorter texts say little
RARE_SCRIPT = 0.01  # of a side's letters: a script with fewer is foreign to it
LETTERS_SEEN = 5_000_000  # of each side, to learn from
FEWEST_LETTERS = 15  # of a text whose language is judged
EXAMPLES = 3  # of each reason
NEVER = ("Cc", "Cs", "Co", "Cn")  # categories of characters that no sentence has: controls, halves, private, unassigned


@dataclass(frozen=True)
class Limits:
    """How far a pair may be from what is usual."""

    longest: int = 1000  # characters of a side
    ratio: float = 3.0  # times the usual number of target characters for one of the source, or as many times fewer
    odd_characters: float = 0.2  # share of letters in foreign scripts
    few_letters: float = 0.4  # fewest letters among the characters that are no blanks
    other_language: float = 0.6  # nats a letter by which a side is more like the other language
    keep_repeated: bool = False
    keep_equal: bool = False


@dataclass
class Report:
    """What was left out, by reason, with the first places of each."""

    pairs: int = 0
    kept: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def count(self, raw: RawPair, reason: str | None) -> None:
        self.pairs += 1
        if reason is None:
            self.kept += 1
            return
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{raw.file}, line {raw.line}")

    def record(self) -> dict[str, object]:
        """For JSON."""
        left_out = {name: {"pairs": self.reasons[name], "first": self.examples[name]} for name in self.reasons}
        return {"pairs": self.pairs, "kept": self.kept, "left_out": left_out}


class Usual:
    """What is usual in a text, by one reading."""

    def __init__(self, pairs: Iterable[RawPair]) -> None:
        ratios: list[float] = []
        scripts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        trigrams: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        letters = [0, 0]
        for raw in pairs:
            if len(raw.source) >= SHORT and raw.target.strip():
                ratios.append(len(raw.target) / len(raw.source))
            for side, text in enumerate((raw.source, raw.target)):
                if letters[side] < LETTERS_SEEN:
                    words = _letters(text[: LETTERS_SEEN - letters[side]])
                    letters[side] += len(words)
                    scripts[side].update(script for c in words if (script := _script(c)))
                    trigrams[side].update(words[k : k + 3] for k in range(len(words) - 2))
        self.ratio = median(ratios) if ratios else None
        self.scripts = [
            {script for script, count in of_side.items() if count >= RARE_SCRIPT * of_side.total()}
            for of_side in scripts
        ]
        self.languages = [_Trigrams(of_side) for of_side in trigrams]

    def foreign_share(self, text: str, side: int) -> float:
        """Of a text's letters, those of scripts that its side of the text hardly has."""
        scripts = [script for c in _letters(text) if (script := _script(c))]
        return sum(script not in self.scripts[side] for script in scripts) / max(len(scripts), 1)

    def likeness_to_other(self, text: str, side: int) -> float:
        """By how many nats a letter a text is more probable in the other side's language than in its own."""
        words = _letters(text)
        if sum(map(str.isalpha, words)) < FEWEST_LETTERS:
            return -math.inf
        own, other = self.languages[side], self.languages[1 - side]
        return (other.log_probability(words) - own.log_probability(words)) / (len(words) - 2)


class _Trigrams:
    """How probable three letters in a row are in a language: relative frequencies, with a little for every other."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts, self.total = counts, counts.total() + len(counts) + 1

    def log_probability(self, letters: str) -> float:
        return sum(math.log((self.counts.get(letters[k : k + 3], 0) + 1) / self.total) for k in range(len(letters) - 2))


def _letters(text: str) -> str:
    """Words in small letters, with a blank around each."""
    return " " + " ".join("".join(c if is_word_character(c) else " " for c in text.lower()).split()) + " "


@lru_cache(maxsize=1 << 16)
def _script(character: str) -> str | None:
    """The first word of a letter's name, which is its script; none of what is no letter."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else None


def _plain(text: str) -> str:
    """A text without what may differ between two writings of the same: case, punctuation and blanks."""
    return "".join(c for c in text.casefold() if c.isalnum() or is_word_character(c)) or text.strip()


class Cleaner:
    """Judges the pairs of corpora, one after the other; none that is in held-out text is kept."""

    def __init__(
        self, corpora: Sequence[CorpusConfig], held_out: Sequence[CorpusConfig] = (), limits: Limits | None = None
    ) -> None:
        self.corpora, self.limits = corpora, limits or Limits()
        for path in (path for corpus in corpora for path in files_of(corpus)):
            require_file(path)
        self.held_out: tuple[set[str], set[str]] = (set(), set())
        for corpus in held_out:
            for raw in stream_pairs(corpus):
                self.held_out[0].add(_plain(raw.source))
                self.held_out[1].add(_plain(raw.target))
        self.usual = Usual(self._raw())
        self.seen: set[int] = set()
        self.report = Report()
        self.reasons: dict[str, Callable[[RawPair], bool]] = {
            "empty": lambda raw: not raw.source.strip() or not raw.target.strip(),
            "too long": lambda raw: max(len(raw.source), len(raw.target)) > self.limits.longest,
            "odd characters": self._is_odd,
            "few letters": self._has_few_letters,
            "equal sides": lambda raw: not self.limits.keep_equal and _plain(raw.source) == _plain(raw.target),
            "length ratio": self._is_lopsided,
            "other language": self._is_other_language,
            "in held-out text": lambda raw: (
                _plain(raw.source) in self.held_out[0] or _plain(raw.target) in self.held_out[1]
            ),
            "repeated": self._is_repeated,
        }

    def _raw(self) -> Iterator[RawPair]:
        return (raw for corpus in self.corpora for raw in stream_pairs(corpus))

    def __iter__(self) -> Iterator[tuple[RawPair, str | None]]:
        """Every pair with the reason to leave it out, if there is one."""
        self.seen, self.report = set(), Report()
        for raw in self._raw():
            reason = next((name for name, applies in self.reasons.items() if applies(raw)), None)
            self.report.count(raw, reason)
            yield raw, reason
        if not self.report.pairs:
            raise UserError(f"{next(files_of(self.corpora[0]))}: is empty")

    def _is_odd(self, raw: RawPair) -> bool:
        for side, text in enumerate((raw.source, raw.target)):
            if "\ufffd" in text or any(unicodedata.category(c) in NEVER and c != "\t" for c in text):
                return True
            if self.usual.foreign_share(text, side) > self.limits.odd_characters:
                return True
        return False

    def _has_few_letters(self, raw: RawPair) -> bool:
        for text in (raw.source, raw.target):
            visible = [c for c in text if not c.isspace()]
            letters = sum(unicodedata.category(c)[0] in "LM" for c in visible)
            if letters < self.limits.few_letters * len(visible):
                return True
        return False

    def _is_lopsided(self, raw: RawPair) -> bool:
        if self.usual.ratio is None or max(len(raw.source), len(raw.target)) < SHORT:
            return False
        off = (len(raw.target) / len(raw.source)) / self.usual.ratio
        return not 1 / self.limits.ratio <= off <= self.limits.ratio

    def _is_other_language(self, raw: RawPair) -> bool:
        sides = enumerate((raw.source, raw.target))
        return any(self.usual.likeness_to_other(text, side) > self.limits.other_language for side, text in sides)

    def _is_repeated(self, raw: RawPair) -> bool:
        pair = hash((raw.source, raw.target, raw.target_language))
        was_there = pair in self.seen
        self.seen.add(pair)
        return was_there and not self.limits.keep_repeated
