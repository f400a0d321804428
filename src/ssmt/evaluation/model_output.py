"""Models to be measured, and what they give: translations of lines, cuts and boundary posteriors of gold texts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssmt.config import LONGEST_TEXT, changed, did_you_mean
from ssmt.directory import load_description
from ssmt.errors import LineError, UserError, renumbered
from ssmt.evaluation.gold import Cuts, Gold, cuts_of
from ssmt.progress import Reporter, tracked
from ssmt.search.options import SearchOptions
from ssmt.text.lines import with_single_blanks
from ssmt.translator import Translation, Translator

Floats = npt.NDArray[np.float64]
LONGER = 4  # times the length of the model's longest line
BLOCK = 64  # lines between two steps of a progress bar


def language_to_ask(directory: str | Path, to: str | None) -> str | None:
    """What a model is asked for, to be measured on text in the language `to`: that language where it has several,
    nothing where it has one (which need not know its name).

    No weights are read, so that all models can be looked at before the first of them works."""
    vocabulary, config = load_description(Path(directory))
    several, one = vocabulary.languages, config.text.target_language
    if several and to is None:
        raise UserError(f"{directory}: translates into {', '.join(several)}; `to` says into which")
    known = several or ((one,) if one else ())
    if to is not None and known and to not in known:
        raise UserError(f"{directory}: translates into {', '.join(known)}, not into {to!r}{did_you_mean(to, known)}")
    return to if several else None


def load_for(directory: str | Path, to: str | None, device: str = "auto") -> Translator:
    """A model to be measured on text in the language `to`; none: the language of a model that has one."""
    language = language_to_ask(directory, to)
    translator = Translator.load(directory, device)
    return translator if language is None else translator.into(language)


def translate_lines(
    translator: Translator,
    sources: Sequence[str],
    *,
    search: str | None = None,
    beam: int = 5,
    length_penalty: float | None = None,
    repetition_penalty: float | None = None,
    with_segments: bool = False,
    reporter: Reporter | None = None,
    title: str = "translating",
) -> list[Translation]:
    """The best translation of each line; an empty line has an empty one."""
    options = SearchOptions(search, beam, length_penalty=length_penalty, repetition_penalty=repetition_penalty)
    starts = range(0, len(sources), BLOCK)
    translations: list[Translation] = []
    for first in tracked(reporter or Reporter(), starts, title, len(starts)):
        with renumbered(range(first + 1, len(sources) + 1)):
            block = sources[first : first + BLOCK]
            n_best = translator.n_best_translations(block, options, with_segments=with_segments)
        translations += [candidates[0] for candidates in n_best]
    return translations


def gold_cuts(translator: Translator, gold: Gold, *, conditioned: bool = True) -> list[Cuts]:
    """The most probable segmentation of each gold text, given its source where the file has one.

    Gold texts may hold characters that the model has never seen; they count as `<unk>`.
    """
    sources, patient = gold.sources if conditioned else None, _patient(translator)
    with renumbered(gold.line_numbers):
        _require_same_offsets(translator, gold)
        return [cuts_of(segments) for segments in patient.segment(sources, gold.texts, allow_unknown=True)]


def gold_posteriors(translator: Translator, gold: Gold, *, conditioned: bool = True) -> list[Floats]:
    """The probability of a cut at each offset of each gold text, both ends included."""
    sources, patient = gold.sources if conditioned else None, _patient(translator)
    with renumbered(gold.line_numbers):
        _require_same_offsets(translator, gold)
        return [offsets(row) for row in patient.boundary_posteriors(sources, gold.texts, allow_unknown=True)]


def _require_same_offsets(translator: Translator, gold: Gold) -> None:
    """A model that takes runs of blanks for one counts characters otherwise than the file."""
    if translator.config.text.single_blanks:
        for number, text in enumerate(gold.texts, start=1):
            if text != with_single_blanks(text):
                raise LineError(
                    "target", number, "this model takes runs of blanks for one blank; write one in the file"
                )


def _patient(translator: Translator) -> Translator:
    """The same model, taking longer lines than in training.

    Every word of a gold file is to be measured (the paper's has sentences of 1,176 characters), positions are
    sinusoids without an end, and a segmentation costs far less memory than an update."""
    limits = translator.config.text
    raised = {key: min(LONGER * getattr(limits, key), LONGEST_TEXT) for key in ("longest_source", "longest_target")}
    patient = copy.copy(translator)
    patient.config = changed(translator.config, {"text": raised}, "limits")
    return patient


def offsets(after_each_character: Sequence[float]) -> Floats:
    """From probabilities of a cut after each character to those of a cut at each offset: none lies before the text."""
    return np.array([0.0, *after_each_character])
