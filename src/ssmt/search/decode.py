"""One batch of sources to finished hypotheses, by any of the searches."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.translation import ScoreType, TranslationModel
from ssmt.model.translation import Search as Search
from ssmt.registry import scorer_for
from ssmt.search.beam import Hypothesis, Limits, SearchOptions, beam_search
from ssmt.search.dynamic import dynamic_search
from ssmt.search.marginal import sample_strings
from ssmt.search.mixture import MixtureScorer
from ssmt.text.corpus import batches_by_length, padded

LENGTH_ALLOWANCE = 20  # characters that any output may have beyond its source's share
USUAL_BEAM = 5  # more hypotheses than these make a batch smaller: each has its own memory
SHORT_SOURCE = 20  # characters; shorter ones count as so many, because a hypothesis of a word takes as much memory

# By search: of the string, the sum over its segmentations; of the string with its segmentation; or of the derivation,
# symbol by symbol.
SCORE_TYPES: dict[Search, ScoreType] = {
    "marginal": "marginal",
    "dynamic": "path",
    "mixture": "tokens",
    "beam": "tokens",
}
# Sums of log-probabilities favour the short. Where few symbols make a sentence it is usual to divide by their number
# (fairseq by default, with which the paper's baselines were made); the marginal of a string needs no such help.
LENGTH_PENALTIES: dict[Search, float] = {"beam": 1.0}
# Options that only some searches have. (Samples have no beam either; a number of hypotheses says what to spend, and
# programs that compare searches give it to all.)
SEARCHES_WITH: dict[str, tuple[Search, ...]] = {
    "length_penalty": ("marginal", "mixture", "beam"),
    "normalise": ("dynamic",),
    "stop": ("dynamic",),
    "final_normalise": ("dynamic",),
    "average_next": ("dynamic",),
    "temperature": ("sample",),
}


def check_options(search: Search, options: SearchOptions) -> None:
    """Refuse what would make no difference."""
    for name, searches in SEARCHES_WITH.items():
        if search not in searches and getattr(options, name) != getattr(SearchOptions, name):
            raise UserError(f"The search {search!r} has no {name.replace('_', ' ')}; it is for {', '.join(searches)}")
    if options.final_normalise is not None and options.stop != "paper":
        raise UserError("Another normalisation of what is final goes with the paper's way to stop (stop: paper) only")


def translate_texts(
    model: TranslationModel,
    sources: Sequence[str],
    search: Search,
    options: SearchOptions,
    length_ratio: float,
    max_length: int | None = None,
    prefixes: Sequence[str] | None = None,
    seed: int = 0,
    batch_characters: int = 6400,
) -> list[list[Hypothesis]]:
    """Finished hypotheses of each source, best first, in the order of the sources whatever the batches.

    An output has at most `max_length` characters, or what `length_ratio` allows for its source: runaway output ends.
    """
    check_options(search, options)
    vocabulary = model.vocabulary
    encoded = vocabulary.encode_sources(sources)
    begun = [vocabulary.encode_prefix(prefix) for prefix in prefixes or [""] * len(sources)]
    most = [max_length or math.ceil(length_ratio * len(source)) + LENGTH_ALLOWANCE for source in sources]
    results: list[list[Hypothesis]] = [[] for _ in sources]
    rows_of_one = options.n_best if search == "sample" else options.beam
    budget = batch_characters * USUAL_BEAM // max(rows_of_one, USUAL_BEAM)
    for rows in batches_by_length([max(len(source), SHORT_SOURCE) + 1 for source in sources], budget):
        limits = Limits(
            max_length=torch.tensor([most[row] for row in rows], device=model.device),
            min_length=options.min_length,
            prefix=padded([begun[row] for row in rows], vocabulary.target_pad).to(model.device),
            prefix_length=torch.tensor([len(begun[row]) for row in rows], device=model.device),
        )
        source = padded([encoded[row] for row in rows], vocabulary.source_pad).to(model.device)
        seeds = [seed_of(sources[row], seed) for row in rows]
        for row, found in zip(rows, decode(model, source, limits, search, options, seeds), strict=True):
            results[row] = found
    return results


@torch.inference_mode()
def decode(
    model: TranslationModel,
    source: Tensor,
    limits: Limits,
    search: Search,
    options: SearchOptions,
    seeds: Sequence[int],
) -> list[list[Hypothesis]]:
    """Finished hypotheses of each sentence, best first: at most `options.kept`. source (B, S); seeds for `sample`."""
    memory = model.encode(source)
    B = len(source)
    if options.length_penalty is None:
        options = replace(options, length_penalty=LENGTH_PENALTIES.get(search, 0.0))

    if search == "sample":
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        return sample_strings(
            scorer_for(model, memory, options.n_best, limits), generators, options.n_best, options.temperature
        )
    if search in ("marginal", "beam"):  # in subwords, the same text can be written in several ways: the best counts
        identity = model.vocabulary.decode if search == "beam" else None
        return beam_search(scorer_for(model, memory, options.beam, limits), B, options, identity)
    assert isinstance(model, SSMT)
    if search == "mixture":
        mixture = MixtureScorer(model, memory, options.beam, limits)
        return [[mixture.decode(one) for one in found] for found in beam_search(mixture, B, options)]
    return dynamic_search(model, memory, limits, options)


def seed_of(text: str, seed: int) -> int:
    """A sentence's own seed: its samples do not depend on what else is translated."""
    return ((seed << 32) + zlib.crc32(text.encode())) % 2**63
