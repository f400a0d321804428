"""What a model can be asked to do to one text or one pair, with the options that it is asked with.

An operation can be compared: what is asked with equal options can be computed together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ssmt.search.options import SearchOptions
from ssmt.translator import Method, Translator

USUAL_BEAM = 5


class Input(NamedTuple):
    """A source, and a target or what a translation must begin with."""

    source: str
    target: str = ""

    @property
    def length(self) -> int:
        return len(self.source) + len(self.target)


class Operation(ABC):
    @abstractmethod
    def run(self, translator: Translator, inputs: Sequence[Input]) -> Sequence[Any]:
        """One result for each input."""

    @property
    def rows(self) -> int:
        """Hypotheses of a sentence, which all take time and memory."""
        return USUAL_BEAM

    @property
    def output(self) -> int:
        """Characters of a result that were asked for beyond what its input needs."""
        return 0


@dataclass(frozen=True)
class Translate(Operation):
    """Gives the translations of a source, best first."""

    options: SearchOptions = field(default_factory=SearchOptions)
    with_segments: bool = False

    @property
    def rows(self) -> int:
        candidates = self.options.candidates if self.options.search == "mbr" else 0
        return max(USUAL_BEAM, self.options.kept, candidates)

    @property
    def output(self) -> int:
        return max(self.options.min_length, self.options.max_length or 0)

    def run(self, translator: Translator, inputs: Sequence[Input]) -> Sequence[Any]:
        return translator.n_best_translations(
            [one.source for one in inputs],
            self.options,
            prefixes=[one.target for one in inputs],
            with_segments=self.with_segments,
        )


@dataclass(frozen=True)
class Score(Operation):
    """Gives the logarithm of a pair's probability."""

    best_path: bool = False
    allow_unknown: bool = False

    def run(self, translator: Translator, inputs: Sequence[Input]) -> Sequence[Any]:
        sources, targets = zip(*inputs, strict=True)
        return translator.score(sources, targets, self.best_path, self.allow_unknown)


@dataclass(frozen=True)
class Segment(Operation):
    """Gives the segmentations of a target, best first."""

    method: Method = "viterbi"
    threshold: float = 0.5
    n_best: int = 1
    allow_unknown: bool = False

    def run(self, translator: Translator, inputs: Sequence[Input]) -> Sequence[Any]:
        sources, targets = zip(*inputs, strict=True)
        if self.method == "posterior":
            cut = translator.posterior_segmentations(sources, targets, self.threshold, self.allow_unknown)
            return [[segmentation] for segmentation in cut]
        return translator.n_best_segmentations(sources, targets, self.n_best, self.allow_unknown)


@dataclass(frozen=True)
class Posteriors(Operation):
    """Gives the probability of a cut after each character of a target."""

    allow_unknown: bool = False

    def run(self, translator: Translator, inputs: Sequence[Input]) -> Sequence[Any]:
        sources, targets = zip(*inputs, strict=True)
        return translator.boundary_posteriors(sources, targets, self.allow_unknown)
