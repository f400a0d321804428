"""All searches: what each is called, runs, scores and takes, in one entry.

A new search is one file and one entry. Importing this brings no torch along: help texts read it too, so each entry
imports what it runs when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from ssmt.errors import UserError
from ssmt.search.options import ScoreType, SearchOptions

if TYPE_CHECKING:
    from ssmt.search.job import Hypothesis, Job

# Options that every search takes. (Samples have no beam either; a number of hypotheses says what to spend, and
# programs that compare searches give it to all.)
COMMON = ("search", "beam", "n_best", "min_length", "max_length")
_DEFAULTS = {field.name: field.default for field in fields(SearchOptions)}


@dataclass(frozen=True)
class Search:
    name: str
    summary: str  # for help
    run: Callable[[Job], list[list[Hypothesis]]]
    score_type: ScoreType | None = None  # none: that of the model's own `score`
    own_options: tuple[str, ...] = ()  # beyond those that all take
    # Sums of log-probabilities favour the short, and models of little text say things twice: what is usual against
    # both, chosen on validation text of Swati and Zulu (docs/decoding.md). The paper's searches have neither.
    length_penalty: float = 0.0
    repetition_penalty: float = 0.0
    repeated: int = 0  # symbols in a row that are a repetition where they stand a second time
    has_beam: bool = True
    hypotheses: Callable[[SearchOptions], int] = lambda options: options.beam  # of a sentence, at one time

    def completed(self, options: SearchOptions) -> SearchOptions:
        """The options with this search's own defaults; what would make no difference is refused."""
        for name, default in _DEFAULTS.items():
            if name not in (*COMMON, *self.own_options) and getattr(options, name) != default:
                takers = ", ".join(search.name for search in SEARCHES.values() if name in search.own_options)
                raise UserError(f"The search {self.name!r} has no {name.replace('_', ' ')}; it is for {takers}")
        if options.final_normalise is not None and options.stop != "paper":
            raise UserError(
                "Another normalisation of what is final goes with the paper's way to stop (stop: paper) only"
            )
        if self.name == "mbr" and options.candidates_from == "beam":
            for name in ("temperature", "seed"):
                if getattr(options, name) != _DEFAULTS[name]:
                    raise UserError(f"A {name} is of samples, and the candidates come from a beam")
        for name in ("length_penalty", "repetition_penalty"):
            if getattr(options, name) is None and name in self.own_options:
                options = replace(options, **{name: getattr(self, name)})
        return replace(options, search=self.name)


def _marginal(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.beam import beam_search

    scorer, repeated = job.new_scorer(job.options.beam), SEARCHES["marginal"].repeated
    return beam_search(scorer, job.request.sentences, job.options, repeated=repeated)


def _beam(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.beam import beam_search

    # In subwords, the same text can be written in several ways: the best counts.
    identity, repeated = job.model.vocabulary.decode, SEARCHES["beam"].repeated
    return beam_search(job.new_scorer(job.options.beam), job.request.sentences, job.options, identity, repeated)


def _dynamic(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.dynamic import dynamic_search

    return dynamic_search(job)


def _mixture(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.mixture import mixture_search

    return mixture_search(job)


def _sample(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.sampling import sample_strings

    options = job.options
    return sample_strings(job.new_scorer(options.n_best), job.seeds, options.n_best, options.temperature)


def _mbr(job: Job) -> list[list[Hypothesis]]:
    from ssmt.search.mbr import minimum_risk_search

    return minimum_risk_search(job)


SEARCHES: dict[str, Search] = {
    search.name: search
    for search in (
        Search(
            "marginal",
            "the exact sum over segmentations",
            _marginal,
            score_type="marginal",
            own_options=("length_penalty", "repetition_penalty"),
            length_penalty=1.5,
            repetition_penalty=0.3,
            repeated=8,  # characters
        ),
        Search(
            "dynamic",
            "the paper's decoding",
            _dynamic,
            score_type="path",
            own_options=("normalise", "stop", "final_normalise", "average_next"),
        ),
        Search("mixture", "its weak baseline", _mixture, score_type="tokens", own_options=("length_penalty",)),
        Search(
            "beam",
            "beam search over subwords",
            _beam,
            score_type="tokens",
            own_options=("length_penalty", "repetition_penalty"),
            length_penalty=1.5,
            repetition_penalty=0.5,
            repeated=3,  # subwords
        ),
        Search(
            "sample",
            "samples",
            _sample,
            own_options=("temperature", "seed"),
            has_beam=False,
            hypotheses=lambda options: options.n_best,
        ),
        Search(
            "mbr",
            "the candidate with the highest expected chrF",
            _mbr,
            own_options=("candidates", "candidates_from", "temperature", "seed"),
            has_beam=False,
            hypotheses=lambda options: options.candidates,
        ),
    )
}
