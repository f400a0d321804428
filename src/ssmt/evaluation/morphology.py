"""How close segments are to morphemes (the paper's Tables 5 and 6).

**Boundaries** (Table 5). A cut inside a word is right when the gold has it. Of the `predicted` cuts and the `gold` cuts
of a word, `matched` are in both.

**Identification** (Table 6: "how much overlap there is between the subwords in a particular segmentation and the
morphemes of a word"). A word's segments and its morphemes are compared as multisets of strings: `matched` is the sum
over strings of the smaller of the two counts. The script that the paper builds on (Moeng et al. 2021) counts a segment
as often as it was predicted, however often the word has it, so that recall can exceed 1; ours cannot.

**Micro** adds up the counts of all words and divides once: precision = matched / predicted, recall = matched / gold. A
word weighs what it has of cuts or morphemes, and each occurrence of a word counts. This is what the paper reports:
recall over precision is predicted over gold, and solving that for cuts (Table 5) and segments (Table 6: one more in
each word) gives 0.48 to 0.53 words per gold cut in every Xhosa and Zulu row. The gold sentences have 0.51, counting
words as often as they occur; the lists of distinct words have 0.37 and 0.39. (The Swati rows of Table 6 fit no such
data: fewer segments than morphemes, where Table 5 has more cuts than the gold.)

**Macro** is the mean over words of each word's precision, and of each word's recall; F1 is the harmonic mean of the two
means. Every word weighs the same. For boundaries this is the measure of Morfessor's own evaluation.

**Nothing out of nothing is 1**, everywhere: who predicts no cut has made no wrong one (precision 1), and in a word of
one morpheme none can be missed (recall 1). So the gold scores 100 against itself, and a system that never cuts has
micro precision 100, recall 0 and F1 0. Words of one morpheme do count: each cut in them is a wrong one. Words without a
gold segmentation do not count at all; their number is reported.

Intervals hold 95% of bootstrap samples of *lines* (sentences, or entries of a word list), as words of one sentence are
not independent. All scores are percentages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ssmt.evaluation.gold import Cuts, Gold, segments_of
from ssmt.evaluation.tables import Cell, Table
from ssmt.version import __version__

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pair = tuple[Floats, Floats]  # precision and recall

Measure = Literal["boundary", "identification"]
Average = Literal["micro", "macro"]
_SAMPLES_AT_ONCE = 64  # samples by lines of a word list: 64 x 10,000 counts are 5 MB


@dataclass(frozen=True, slots=True)
class Estimate:
    """A percentage and the interval that holds 95% of its bootstrap samples (None when none were drawn)."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class MorphologyScores:
    """All four readings of one segmentation, and a signature that says how they were made."""

    boundary_micro: PrecisionRecall
    boundary_macro: PrecisionRecall
    identification_micro: PrecisionRecall
    identification_macro: PrecisionRecall
    words: int
    words_without_gold: int
    signature: str

    def reading(self, measure: Measure, average: Average) -> PrecisionRecall:
        reading: PrecisionRecall = getattr(self, f"{measure}_{average}")
        return reading

    @property
    def boundary_point(self) -> tuple[float, float]:
        """Micro precision and recall of boundaries, for a plot."""
        return self.boundary_micro.precision.value, self.boundary_micro.recall.value


def evaluate_segmentation(
    gold: Gold, predicted: Sequence[Collection[int]], *, samples: int = 1000, seed: int = 0
) -> MorphologyScores:
    """Compare a segmentation, one set of cuts for each line of the gold, with the gold.

    Cuts are offsets of the line's text, from `read_segmented`, from `cuts_of` a model's segments, or from `cuts_above`
    a threshold. `samples` bootstrap samples give the intervals; 0 gives none.
    """
    boundary, identification = _count(gold, predicted)
    resampled = _resample(len(np.unique(boundary.line)), samples, seed)
    without_gold = sum(word.cuts is None for line in gold.lines for word in line.words)
    words = len(boundary.line)
    signature = f"context:{gold.context}|words:{words}|skipped:{without_gold}|empty:1|bs:{samples}|seed:{seed}"
    return MorphologyScores(
        boundary_micro=boundary.micro(resampled),
        boundary_macro=boundary.macro(resampled),
        identification_micro=identification.micro(resampled),
        identification_macro=identification.macro(resampled),
        words=words,
        words_without_gold=without_gold,
        signature=f"{signature}|version:{__version__}",
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """W words: the line each stands in (numbered without gaps), and what was matched, predicted and in the gold."""

    line: Ints  # (W,)
    matched: Floats  # (W,)
    predicted: Floats  # (W,)
    gold: Floats  # (W,)

    def micro(self, resampled: Sequence[Floats]) -> PrecisionRecall:
        per_line = self._per_line(self.matched, self.predicted, self.gold)

        def ratios(sums: Floats) -> Pair:
            matched, predicted, gold = np.moveaxis(sums, -1, 0)
            return _ratio(matched, predicted), _ratio(matched, gold)

        return _estimate(ratios(per_line.sum(axis=0)), [ratios(counts @ per_line) for counts in resampled])

    def macro(self, resampled: Sequence[Floats]) -> PrecisionRecall:
        precision, recall = _ratio(self.matched, self.predicted), _ratio(self.matched, self.gold)
        per_line = self._per_line(precision, recall, np.ones_like(precision))

        def means(sums: Floats) -> Pair:
            precision, recall, words = np.moveaxis(sums, -1, 0)
            return precision / words, recall / words

        return _estimate(means(per_line.sum(axis=0)), [means(counts @ per_line) for counts in resampled])

    def _per_line(self, *columns: Floats) -> Floats:
        return np.stack([np.bincount(self.line, column) for column in columns], axis=-1)  # (lines, columns)


def _count(gold: Gold, predicted: Sequence[Collection[int]]) -> tuple[_Counts, _Counts]:
    """Per-word counts of boundaries and of morphemes."""
    assert len(predicted) == len(gold.lines), "one set of cuts for each line"
    rows = []
    for index, (line, cuts) in enumerate(zip(gold.lines, map(frozenset, predicted), strict=True)):
        for word in line.words:
            if word.cuts is None:
                continue
            predicted_cuts = {cut - word.start for cut in range(word.start + 1, word.end) if cut in cuts}
            common = len(predicted_cuts & word.cuts)
            if predicted_cuts == word.cuts:
                shared = len(predicted_cuts) + 1
            else:
                shared = (Counter(segments_of(word.text, predicted_cuts)) & Counter(word.morphemes)).total()
            rows.append((index, common, len(predicted_cuts), len(word.cuts), shared))
    assert rows, "the gold has at least one annotated word"
    table = np.array(rows, dtype=np.float64)  # (W, 5)
    line_W = np.unique(table[:, 0], return_inverse=True)[1].astype(np.int64)
    _, common_W, predicted_W, gold_W, shared_W = table.T
    return _Counts(line_W, common_W, predicted_W, gold_W), _Counts(line_W, shared_W, predicted_W + 1, gold_W + 1)


def _resample(lines: int, samples: int, seed: int) -> list[Floats]:
    """How often each line is drawn in each sample, (samples, lines), in pieces."""
    rng = np.random.default_rng(seed)
    pieces = []
    for done in range(0, samples, _SAMPLES_AT_ONCE):
        size = min(_SAMPLES_AT_ONCE, samples - done)
        drawn = rng.integers(lines, size=(size, lines)) + np.arange(size)[:, None] * lines
        pieces.append(np.bincount(drawn.ravel(), minlength=size * lines).reshape(size, lines).astype(np.float64))
    return pieces


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.ones(np.shape(part)), where=whole > 0)


def _f1(precision: Floats, recall: Floats) -> Floats:
    total = precision + recall
    return np.divide(2 * precision * recall, total, out=np.zeros(np.shape(total)), where=total > 0)


def _estimate(pair: Pair, sampled: Sequence[Pair]) -> PrecisionRecall:
    def estimate(value: Floats, sampled: list[Floats]) -> Estimate:
        if not sampled:
            return Estimate(100 * float(value))
        low, high = np.percentile(np.concatenate(sampled), [2.5, 97.5])
        return Estimate(100 * float(value), 100 * float(low), 100 * float(high))

    return PrecisionRecall(
        estimate(pair[0], [precision for precision, _ in sampled]),
        estimate(pair[1], [recall for _, recall in sampled]),
        estimate(_f1(*pair), [_f1(*sample) for sample in sampled]),
    )


def finding(scores: Mapping[str, MorphologyScores]) -> str:
    """What came out, in a sentence; nothing of one system alone."""
    ranked = sorted(scores, key=lambda name: -scores[name].boundary_micro.f1.value)
    if len(ranked) < 2:
        return ""
    best, second = (f"{name} (F1 {scores[name].boundary_micro.f1.value:.1f})" for name in ranked[:2])
    return f"The cuts of {best} are the nearest to the morphemes, before those of {second}."


@dataclass(frozen=True, eq=False)
class PrecisionRecallCurve:
    """Micro boundary scores (percentages) at every threshold that makes a difference, from high to low.

    At threshold t a word is cut wherever the posterior is at least t; recall rises along the arrays.
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    f1: Floats

    @cached_property
    def best(self) -> int:
        """Index of the best F1; of equals the one with the highest threshold, which cuts least."""
        return int(np.argmax(self.f1))

    @property
    def is_one_point(self) -> bool:
        """Whether the posteriors say no more than cut or no cut, as those of a model on subwords."""
        return len(self.thresholds) <= 2

    @property
    def best_threshold(self) -> float:
        return float(self.thresholds[self.best])

    @property
    def average_precision(self) -> float:
        """Area under the curve as a step function (a percentage)."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision) / 100)


def precision_recall_curve(gold: Gold, posteriors: Sequence[npt.NDArray[np.floating[Any]]]) -> PrecisionRecallCurve:
    """`posteriors[i][k]` is the probability that line i is cut at offset k, for k from 0 to its length inclusive."""
    assert len(posteriors) == len(gold.lines), "one array of posteriors for each line"
    inside_words, gold_inside_words = [], []
    for line, posterior in zip(gold.lines, posteriors, strict=True):
        assert len(posterior) == len(line.text) + 1, "one posterior for each offset, both ends included"
        inside = np.zeros(len(line.text) + 1, dtype=bool)
        for word in line.words:
            if word.cuts is not None:
                inside[word.start + 1 : word.end] = True
        is_gold = np.zeros(len(line.text) + 1, dtype=bool)
        is_gold[list(line.cuts)] = True
        inside_words.append(np.asarray(posterior, dtype=np.float64)[inside])
        gold_inside_words.append(is_gold[inside])
    posterior_N, is_gold_N = np.concatenate(inside_words), np.concatenate(gold_inside_words)
    assert not np.isnan(posterior_N).any(), "posteriors are numbers"
    if not len(posterior_N):  # words of one letter only: there is nothing to cut
        return PrecisionRecallCurve(np.full(1, np.inf), *(np.full(1, 100.0) for _ in range(3)))
    order = np.argsort(-posterior_N, kind="stable")
    posterior_N, is_gold_N = posterior_N[order], is_gold_N[order]
    last = np.append(posterior_N[1:] != posterior_N[:-1], True)  # of those with equal posteriors
    predicted = np.flatnonzero(last) + 1.0
    matched = np.cumsum(is_gold_N)[last].astype(np.float64)
    precision = matched / predicted
    recall = _ratio(matched, np.full_like(matched, is_gold_N.sum()))
    return PrecisionRecallCurve(posterior_N[last], 100 * precision, 100 * recall, 100 * _f1(precision, recall))


def cuts_above(posteriors: Sequence[npt.NDArray[np.floating[Any]]], threshold: float) -> list[Cuts]:
    """Cut wherever the posterior is at least the threshold, for example the best one of another file's curve."""
    return [
        frozenset(np.flatnonzero(np.asarray(posterior, dtype=np.float64) >= threshold).tolist())
        for posterior in posteriors
    ]


def as_dict(scores: Mapping[str, MorphologyScores]) -> dict[str, Any]:
    """For JSON, by system."""
    return {system: asdict(score) for system, score in scores.items()}


def as_table(
    scores: Mapping[str, MorphologyScores],
    measure: Measure = "boundary",
    average: Average = "micro",
    *,
    decimals: int = 2,
    intervals: bool = True,
) -> Table:
    """The paper's Table 5 (boundary) or 6 (identification), the best of each column bold as there."""
    readings = {system: score.reading(measure, average) for system, score in scores.items()}
    columns = [[getattr(reading, part) for reading in readings.values()] for part in ("precision", "recall", "f1")]
    cells = []
    for column in columns:
        numbers = [f"{estimate.value:.{decimals}f}" for estimate in column]
        best = max(numbers, key=float) if len(numbers) > 1 else ""  # one system alone is no best
        cells.append([_cell(estimate, best, decimals, intervals and estimate.low is not None) for estimate in column])
    rows = tuple((Cell(system), *row) for system, row in zip(readings, zip(*cells, strict=True), strict=True))
    notes = tuple(f"{system}: {score.signature}" for system, score in scores.items())
    if len({score.signature for score in scores.values()}) == 1:
        notes = (next(iter(scores.values())).signature,)
    title = "Morpheme boundaries" if measure == "boundary" else "Morpheme identification"
    return Table(("System", "P", "R", "F1"), rows, f"{title} ({average})", notes)


def _cell(estimate: Estimate, best: str, decimals: int, interval: bool) -> Cell:
    number = f"{estimate.value:.{decimals}f}"
    text = f"{number} [{estimate.low:.{decimals}f}, {estimate.high:.{decimals}f}]" if interval else number
    return Cell(text, bold=number == best)
