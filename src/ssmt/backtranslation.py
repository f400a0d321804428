"""Text of the target language alone as sentence pairs: a model of the other direction writes their sources.

reverse = ssmt.Translator.load("runs/zu-en")
for pair, reason in backtranslate(reverse, ["Ngiyaqonda."]): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from ssmt.errors import LineError, UserError
from ssmt.search.options import SearchOptions
from ssmt.text.formats import RawPair
from ssmt.text.lines import normalise
from ssmt.translator import Translator

ORIGIN = "backtranslated"
BLOCK = 500  # lines that are translated together
SHORT = 20  # characters; lengths of shorter texts say little


@dataclass(frozen=True)
class Limits:
    """Which pairs are worth training on."""

    least_score: float | None = None  # nats a character of what the model wrote, `</s>` included; none: any
    ratio: float = 3.0  # times that one side may be longer than the other


@dataclass(frozen=True)
class Backtranslation:
    """A line of text with the source that was written for it."""

    pair: RawPair
    score: float  # of the source given the target, nats a character
    problem: str | None  # why it is left out, if it is


def backtranslate(
    reverse: Translator,
    lines: Iterable[str],
    options: SearchOptions | None = None,
    limits: Limits | None = None,
    file: str = "text",
) -> Iterator[Backtranslation]:
    """Every line with its source, or with the reason why it has none; several where options ask for several."""
    limits, options = limits or Limits(), options or SearchOptions()
    languages = reverse.vocabulary.language or reverse.config.text.target_language, reverse.config.text.source_language
    remaining, number = iter(lines), 0
    while block := [normalise(line) for line in islice(remaining, BLOCK)]:
        problems = [_problem(line, reverse) for line in block]
        good = [line for line, problem in zip(block, problems, strict=True) if problem is None]
        try:
            found = iter(reverse.n_best_translations(good, options, with_segments=False))
        except LineError as error:  # a sentence that cannot be cut in parts; `_problem` has seen the others
            raise UserError(f"{file}: {error.problem}") from None
        for line, problem in zip(block, problems, strict=True):
            number += 1
            if problem is not None:
                yield Backtranslation(RawPair(file, file, number, "", line, *languages, ORIGIN), 0.0, problem)
                continue
            for translation in next(found):
                score = translation.score / (len(translation.text) + 1)
                pair = RawPair(file, file, number, translation.text, line, *languages, ORIGIN)
                yield Backtranslation(pair, score, _doubt(pair, score, limits))


def _problem(line: str, reverse: Translator) -> str | None:
    """What keeps a line from being translated."""
    if not line.strip():
        return "empty"
    return "too long" if len(line) > reverse.config.text.longest_source else None


def _doubt(pair: RawPair, score: float, limits: Limits) -> str | None:
    """What makes a translation one not to learn from."""
    if not pair.source.strip():
        return "nothing written"
    lengths = sorted((max(len(pair.source), SHORT), max(len(pair.target), SHORT)))
    if lengths[1] > limits.ratio * lengths[0]:
        return "length ratio"
    return "score" if limits.least_score is not None and score < limits.least_score else None
