"""Texts to finished hypotheses: batches of sources through any search."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ssmt.errors import NotNumbersError, recognising_not_numbers
from ssmt.model.translation import TranslationModel
from ssmt.search.job import Hypothesis, Job, NewScorer, Request
from ssmt.search.options import SearchOptions
from ssmt.search.table import Search
from ssmt.text.batch import batches_by_length, padded

LENGTH_ALLOWANCE = 20  # characters that any output may have beyond its source's share
USUAL_BEAM = 5  # more hypotheses than these make a batch smaller: each has its own memory
SHORT_SOURCE = 20  # characters; shorter ones count as so many, because a hypothesis of a word takes as much memory
BATCH_CHARACTERS = 6400  # of sources


def search_texts(
    model: TranslationModel,
    scorer: NewScorer,
    search: Search,
    sources: Sequence[str],
    options: SearchOptions,
    length_ratio: float,
    prefixes: Sequence[str] | None = None,
    batch_characters: int = BATCH_CHARACTERS,
) -> list[list[Hypothesis]]:
    """Finished hypotheses of each source, best first, in the order of the sources whatever the batches.

    An output has at most `options.max_length` characters, or what `length_ratio` allows for its source: runaway output
    ends.
    """
    options = search.completed(options)
    vocabulary = model.vocabulary
    encoded = vocabulary.encode_sources(sources)
    begun = [vocabulary.encode_prefix(prefix) for prefix in prefixes or [""] * len(sources)]
    usual = (math.ceil(length_ratio * len(source)) + LENGTH_ALLOWANCE for source in sources)
    most = [options.max_length or max(length, options.min_length) for length in usual]
    results: list[list[Hypothesis]] = [[] for _ in sources]
    budget = batch_characters * USUAL_BEAM // max(search.hypotheses(options), USUAL_BEAM)
    for rows in batches_by_length([max(len(source), SHORT_SOURCE) + 1 for source in sources], budget):
        request = Request(
            start_symbols=torch.full((len(rows),), vocabulary.start, device=model.device),
            max_length=torch.tensor([most[row] for row in rows], device=model.device),
            min_length=options.min_length,
            prefix=padded([begun[row] for row in rows], vocabulary.target_pad).to(model.device),
            prefix_length=torch.tensor([len(begun[row]) for row in rows], device=model.device),
        )
        source = padded([encoded[row] for row in rows], vocabulary.source_pad).to(model.device)
        seeds = [seed_of(sources[row], options.seed) for row in rows]
        of_batch = search_batch(model, scorer, search, source, request, options, seeds)
        for row, hypotheses in zip(rows, of_batch, strict=True):
            if not hypotheses or not all(math.isfinite(hypothesis.score) for hypothesis in hypotheses):
                raise NotNumbersError
            results[row] = hypotheses
    return results


@torch.inference_mode()
def search_batch(
    model: TranslationModel,
    scorer: NewScorer,
    search: Search,
    source: Tensor | None,
    request: Request,
    options: SearchOptions,
    seeds: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Finished hypotheses of each sentence, best first: at most `options.kept`. source (B, S), or none for strings
    that stand alone; seeds for samples."""
    with recognising_not_numbers():
        job = Job(model, model.encode(source), request, search.completed(options), scorer, seeds)
        return search.run(job)


def seed_of(text: str, seed: int) -> int:
    """A sentence's own seed: its samples do not depend on what else is translated."""
    return ((seed << 32) + zlib.crc32(text.encode())) % 2**63
