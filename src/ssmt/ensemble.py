"""Several models as one translator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from ssmt.config import changed
from ssmt.directory import vocabulary_digest, weights_of
from ssmt.errors import UserError
from ssmt.model.translation import TranslationModel
from ssmt.search.ensemble import SEARCHES, Ensemble, new_scorer
from ssmt.search.job import Hypothesis
from ssmt.translator import DEFAULT_LENGTH_RATIO, Translation, Translator


class EnsembleTranslator(Translator):
    """Several models that translate as one: the probability of each next symbol is the mean of theirs.

        model = ssmt.ensemble.EnsembleTranslator.of(["runs/one", "runs/two"])

    It translates; scores and segmentations of given texts are asked of single models. Segments of its translations are
    those of the first model.
    """

    def __init__(self, translators: Sequence[Translator]) -> None:
        first = translators[0]
        super().__init__(first.model, first.config, getattr(first.segmenter, "first", None))
        ensemble = Ensemble([translator.model for translator in translators])
        self.model = cast(TranslationModel, ensemble)  # all of it that searches over strings ask for
        ratios = [translator.config.text.length_ratio or DEFAULT_LENGTH_RATIO for translator in translators]
        self.config = changed(first.config, {"text": {"length_ratio": max(ratios)}}, "models")
        searches = tuple(name for name in self.kind.searches if name in SEARCHES)
        self.kind = replace(self.kind, scorer=partial(new_scorer, self.kind.scorer), searches=searches)

    @classmethod
    def of(
        cls, directories: Sequence[str | Path], device: str = "auto", pretokenised: bool = False, int8: bool = False
    ) -> EnsembleTranslator:
        """The models in some directories, which must have one kind and one vocabulary."""
        translators = [Translator.load(directory, device, pretokenised, int8) for directory in directories]
        for directory, translator in zip(directories, translators, strict=True):
            same_kind = translator.config.model == translators[0].config.model
            if not same_kind or _digest(directory) != _digest(directories[0]):
                raise UserError(
                    f"{directory}: is of another kind or vocabulary than {directories[0]}; models that translate "
                    f"together have the same, for example because each began with the same one"
                )
        return cls(translators)

    def _translations(
        self, sources: Sequence[str], n_best: list[list[Hypothesis]], with_segments: bool, batch_characters: int
    ) -> list[list[Translation]]:
        """The segmenter knows one model alone: the scores stay those of the search."""
        translated = super()._translations(sources, n_best, with_segments, batch_characters)
        return [
            [replace(one, score=found.score) for one, found in zip(ranked, hypotheses, strict=True)]
            for ranked, hypotheses in zip(translated, n_best, strict=True)
        ]

    def _prepared(
        self, sources: Iterable[str] | None, targets: Iterable[str], allow_unknown: bool
    ) -> tuple[list[str], list[str]]:
        raise UserError("Several models together translate; ask a single one for scores or segments of given texts")


def _digest(directory: str | Path) -> str:
    """Of the vocabulary that a model's weights are of: a run without any yet has those of what it began with."""
    return vocabulary_digest(weights_of(Path(directory)).parent)
