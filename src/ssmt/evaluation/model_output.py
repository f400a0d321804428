"""What a model gives to be measured: translations of lines, cuts and boundary posteriors of gold texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ssmt.evaluation.composition import Segment, trim
from ssmt.evaluation.gold import Cuts, Gold, cuts_of
from ssmt.progress import Reporter, tracked
from ssmt.search.decode import Search
from ssmt.translator import LineError, Translator

Floats = npt.NDArray[np.float64]
BLOCK = 64  # lines between two steps of a progress bar


def translate_lines(
    translator: Translator,
    sources: Sequence[str],
    *,
    search: Search = "marginal",
    beam: int = 5,
    reporter: Reporter | None = None,
    title: str = "translating",
) -> list[str]:
    """The best translation of each line; an empty line has an empty one."""
    starts = range(0, len(sources), BLOCK)
    translations: list[str] = []
    for first in tracked(reporter or Reporter(), starts, title, len(starts)):
        try:
            found = translator.n_best_translations(sources[first : first + BLOCK], beam=beam, search=search)
        except LineError as error:
            raise LineError(error.kind, first + error.number, error.problem) from None
        translations += [few[0].text for few in found]
    return translations


def gold_cuts(translator: Translator, gold: Gold, *, conditioned: bool = True) -> list[Cuts]:
    """The most probable segmentation of each gold text, given its source where the file has one.

    Gold texts may hold characters that the model has never seen; they count as `<unk>`.
    """
    sources = gold.sources if conditioned else None
    return [cuts_of(segments) for segments in translator.segment(sources, gold.texts, allow_unknown=True)]


def gold_posteriors(translator: Translator, gold: Gold, *, conditioned: bool = True) -> list[Floats]:
    """The probability of a cut at each offset of each gold text, both ends included."""
    sources = gold.sources if conditioned else None
    return [offsets(row) for row in translator.boundary_posteriors(sources, gold.texts, allow_unknown=True)]


def offsets(after_each_character: Sequence[float]) -> Floats:
    """From probabilities of a cut after each character to those of a cut at each offset: none lies before the text."""
    return np.array([0.0, *after_each_character])


def word_segmenter(translator: Translator, lines: Iterable[str]) -> Segment:
    """A segmenter of the words of the given lines, each cut once and without a source, as the words are one by one.

    A word longer than the model takes stays whole.
    """
    longest = translator.config.text.longest_target
    words = {trim(token) for line in lines for token in line.split()} - {""}
    known = sorted(word for word in words if len(word) <= longest)
    segments = dict(zip(known, translator.segment(None, known, allow_unknown=True), strict=True))
    return lambda word: segments.get(word, [word])
