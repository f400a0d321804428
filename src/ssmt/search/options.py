"""What a search can be asked for, checked where it is said. Needs no torch: the command line's help reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ssmt.errors import UserError

# Of a string, the sum over its segmentations; of a string with its segmentation; of a derivation, symbol by symbol.
ScoreType = Literal["marginal", "path", "tokens"]
Normalise = Literal["segments", "characters", "none"]
Stop = Literal["safe", "paper"]
Candidates = Literal["samples", "beam"]

MOST_HYPOTHESES = 10_000  # each has its own cache: more would fill any memory
LONGEST_OUTPUT = 1_000_000  # characters
STRONGEST_PENALTY = 10.0
STRONGEST_FINE = 1000.0


@dataclass(frozen=True)
class SearchOptions:
    """How to translate. What a search has not is refused by `ssmt.search.table.Search.check`."""

    search: str | None = None  # none: the model's own
    beam: int = 5
    n_best: int = 1
    # A finished hypothesis is ranked by score / length ** penalty; none given: by what is usual for the search.
    length_penalty: float | None = None
    # What each symbol costs, in its hypothesis' rank, that goes on with a repetition of what the hypothesis has said
    # before; none given: by what is usual for the search.
    repetition_penalty: float | None = None
    min_length: int = 0  # characters
    max_length: int | None = None  # characters; none: by the source's length
    normalise: Normalise = "segments"  # of dynamic decoding
    stop: Stop = "safe"  # of dynamic decoding
    # What else the original's dynamic decoding can do: rank finished hypotheses by another normalisation (none given:
    # the same), and average the score of a segment that begins with that of the segment before it.
    final_normalise: Normalise | None = None
    average_next: bool = False
    temperature: float = 1.0  # of sampling
    seed: int = 0  # of sampling
    candidates: int = 50  # of minimum-risk decoding: how many translations it chooses from
    candidates_from: Candidates = "samples"  # or the best of a beam of that size

    def __post_init__(self) -> None:
        require_whole("beam", self.beam, 1, MOST_HYPOTHESES)
        require_whole("n_best", self.n_best, 1, MOST_HYPOTHESES)
        require_whole("candidates", self.candidates, 1, MOST_HYPOTHESES)
        require_whole("min_length", self.min_length, 0, LONGEST_OUTPUT)
        require_whole("seed", self.seed, 0)
        if self.max_length is not None:
            require_whole("max_length", self.max_length, 1, LONGEST_OUTPUT)
            if self.max_length < self.min_length:
                raise UserError(f"max_length is {self.max_length:,}, and min_length {self.min_length:,}")
        if self.length_penalty is not None:
            require_number("length_penalty", self.length_penalty, -STRONGEST_PENALTY, STRONGEST_PENALTY)
        if self.repetition_penalty is not None:
            require_number("repetition_penalty", self.repetition_penalty, 0, STRONGEST_FINE)
        require_number("temperature", self.temperature, 1e-3, 1e3)
        for name, value, choices in (
            ("normalise", self.normalise, get_args(Normalise)),
            ("stop", self.stop, get_args(Stop)),
            ("candidates_from", self.candidates_from, get_args(Candidates)),
            ("final_normalise", self.final_normalise, (None, *get_args(Normalise))),
        ):
            if value not in choices:
                raise UserError(f"{name} is {value!r}; it can be {', '.join(map(str, choices))}")

    @property
    def kept(self) -> int:
        """Finished hypotheses to keep."""
        return max(self.beam, self.n_best)


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        bounds = f"of {least:,} or more" if most is None else f"from {least:,} to {most:,}"
        raise UserError(f"{name} is {value!r}; it must be a whole number {bounds}")


def require_number(name: str, value: object, least: float, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        raise UserError(f"{name} is {value!r}; it must be a number from {least:g} to {most:g}")
