"""Cutting target texts: by the lattice of a model that segments, or by the subwords of one whose text is cut before."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ssmt import lattice
from ssmt.errors import NotNumbersError, UserError, recognising_not_numbers
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.translation import TranslationModel
from ssmt.search.job import Hypothesis
from ssmt.search.options import ScoreType
from ssmt.text.alphabet import is_word_character
from ssmt.text.batch import Batch, batches_by_length, make_batch
from ssmt.text.pieces import segmented_line
from ssmt.text.subwords import TargetSubwords

Result = TypeVar("Result")
FEW_PATHS = 10  # segmentations of a text; more make a batch smaller


@dataclass(frozen=True)
class Segmentation:
    """One way to cut a text."""

    segments: list[str]
    score: float  # natural log-probability of the text cut in this way
    cuts_anywhere: bool = False  # whether cuts outside of words are a choice too, as those of subwords are

    @property
    def text(self) -> str:
        return "".join(self.segments)

    def joined(self, separator: str) -> str:
        """The text with a separator at the cuts that are a choice; those at blanks go unmarked."""
        return join_segments(self.segments, separator, self.cuts_anywhere)


def join_segments(segments: Sequence[str], separator: str, cuts_anywhere: bool = False) -> str:
    """In a lattice only cuts inside words are a choice: everywhere else there must be one."""

    def is_choice(before: str, after: str) -> bool:
        return " " not in (before, after) if cuts_anywhere else is_word_character(before) and is_word_character(after)

    pieces = list(segments[:1])
    for before, after in pairwise(segments):
        pieces.append(separator + after if is_choice(before[-1], after[0]) else after)
    return "".join(pieces)


def cut(text: str, ends: Sequence[bool]) -> list[str]:
    """The segments of a text that is cut after the marked characters (what marks `</s>` is left out)."""
    positions = [0, *(k + 1 for k in range(len(text)) if ends[k])]
    return [text[start:end] for start, end in pairwise(positions)]


class Segmenter(ABC):
    """How a model cuts texts given their sources, and how it reads them."""

    score_type: ScoreType  # of its segmentations
    cuts_anywhere: bool = False  # of its segmentations
    model: TranslationModel

    def into(self, language: str) -> Segmenter:
        """The same, of texts in one of the model's languages."""
        other = copy.copy(self)
        other.model = self.model.into(language)
        return other

    @abstractmethod
    def encode(self, sources: Sequence[str], texts: Sequence[str], batch_characters: int) -> Sequence[npt.ArrayLike]:
        """Targets as the model reads them, `</s>` at the end."""

    @abstractmethod
    def of_hypotheses(
        self, sources: Sequence[str], hypotheses: Sequence[Hypothesis], batch_characters: int
    ) -> list[Segmentation]:
        """What a search has found, as text that is cut."""

    def log_probabilities(self, sources: Sequence[str], texts: Sequence[str], batch_characters: int) -> list[float]:
        """log p of each target given its source: over all its segmentations, or as the model reads it."""
        encoded = self.encode(sources, texts, batch_characters)
        return log_probabilities(self.model, sources, texts, encoded, batch_characters)

    @abstractmethod
    def n_best(
        self, sources: Sequence[str], texts: Sequence[str], n: int, batch_characters: int
    ) -> list[list[Segmentation]]:
        """The n most probable segmentations of each text, best first; fewer where there are fewer."""

    @abstractmethod
    def by_posterior(
        self, sources: Sequence[str], texts: Sequence[str], threshold: float, batch_characters: int
    ) -> list[Segmentation]:
        """Each text cut where the posterior probability of a boundary is at least the threshold."""

    @abstractmethod
    def boundary_posteriors(
        self, sources: Sequence[str], texts: Sequence[str], batch_characters: int
    ) -> list[list[float]]:
        """The probability of a cut after each character of each text."""


class LatticeSegmenter(Segmenter):
    """Weighs all segmentations of a text against each other."""

    score_type: ScoreType = "path"

    def __init__(self, model: SSMT, first: Segmenter | None = None) -> None:
        self.model: SSMT = model

    def encode(self, sources: Sequence[str], texts: Sequence[str], batch_characters: int) -> Sequence[npt.ArrayLike]:
        return self.model.vocabulary.encode_targets(texts)

    def of_hypotheses(
        self, sources: Sequence[str], hypotheses: Sequence[Hypothesis], batch_characters: int
    ) -> list[Segmentation]:
        """Those of a search over strings get the best segmentation of their string."""
        vocabulary = self.model.vocabulary
        strings = [row for row, hypothesis in enumerate(hypotheses) if hypothesis.ends is None]
        texts = [vocabulary.decode(hypotheses[row].symbols) for row in strings]
        best = self.n_best([sources[row] for row in strings], texts, 1, batch_characters)
        segments_of_row = {row: ranked[0].segments for row, ranked in zip(strings, best, strict=True)}
        for row, hypothesis in enumerate(hypotheses):
            if hypothesis.ends is not None:
                bounds = pairwise([0, *hypothesis.ends])
                pieces = [vocabulary.decode(hypothesis.symbols[start:end]) for start, end in bounds]
                segments_of_row[row] = [piece for piece in pieces if piece]  # specials have no text
        return [Segmentation(segments_of_row[row], hypothesis.score) for row, hypothesis in enumerate(hypotheses)]

    def n_best(
        self, sources: Sequence[str], texts: Sequence[str], n: int, batch_characters: int
    ) -> list[list[Segmentation]]:
        def of_batch(scores: Tensor, batch: Batch) -> list[list[tuple[float, list[bool]]]]:
            paths = lattice.n_best(scores, batch.target_lengths, n)
            return [
                [(score, ends) for score, ends in zip(*row, strict=True) if score > lattice.NEG_INF / 2]
                for row in zip(paths.scores.tolist(), paths.ends.tolist(), strict=True)
            ]

        budget = batch_characters * FEW_PATHS // max(n, FEW_PATHS)  # each path has its own memory
        paths_of_texts = self._over_lattices(sources, texts, of_batch, budget)
        for text, paths in zip(texts, paths_of_texts, strict=True):
            if not paths:
                raise UserError(f"The model finds no segmentation of this text possible: {text[:60]!r}")
        return [
            [Segmentation(cut(text, ends), score) for score, ends in paths]
            for text, paths in zip(texts, paths_of_texts, strict=True)
        ]

    def by_posterior(
        self, sources: Sequence[str], texts: Sequence[str], threshold: float, batch_characters: int
    ) -> list[Segmentation]:
        """Such a cut can leave a segment longer than the model could generate; its score is then NEG_INF."""

        def of_batch(scores: Tensor, batch: Batch) -> list[tuple[float, list[bool]]]:
            ends = lattice.posteriors(scores, batch.target_lengths).boundaries >= threshold
            in_word = self.model.segments.get_buffer("is_word")[batch.target]
            ends[:, :-1] |= ~(in_word[:, :-1] & in_word[:, 1:])  # elsewhere than inside a word, a cut is no choice
            ends.scatter_(1, (batch.target_lengths - 1).unsqueeze(1), True)
            ends &= torch.arange(ends.shape[1], device=ends.device) < batch.target_lengths.unsqueeze(1)
            return list(zip(lattice.path_score(scores, ends).tolist(), ends.tolist(), strict=True))

        scored_ends = self._over_lattices(sources, texts, of_batch, batch_characters)
        return [Segmentation(cut(text, ends), score) for text, (score, ends) in zip(texts, scored_ends, strict=True)]

    def boundary_posteriors(
        self, sources: Sequence[str], texts: Sequence[str], batch_characters: int
    ) -> list[list[float]]:
        def of_batch(scores: Tensor, batch: Batch) -> list[list[float]]:
            boundaries = lattice.posteriors(scores, batch.target_lengths).boundaries.clamp(0, 1).tolist()
            lengths = batch.target_lengths.tolist()
            return [row[: length - 1] for row, length in zip(boundaries, lengths, strict=True)]

        return self._over_lattices(sources, texts, of_batch, batch_characters)

    def _over_lattices(
        self,
        sources: Sequence[str],
        texts: Sequence[str],
        of_batch: Callable[[Tensor, Batch], list[Result]],
        batch_characters: int,
    ) -> list[Result]:
        encoded = self.model.vocabulary.encode_targets(texts)
        return over_batches(
            self.model,
            sources,
            texts,
            encoded,
            lambda batch: of_batch(_numbers(self.model.lattice(batch)), batch),
            batch_characters,
        )


class SubwordSegmenter(Segmenter):
    """Cuts a text as its subwords are cut, in one way and without a doubt, whatever its source."""

    score_type: ScoreType = "tokens"
    cuts_anywhere = True

    def __init__(self, model: SubwordTransformer, first: Segmenter | None = None) -> None:
        self.model: SubwordTransformer = model

    def encode(self, sources: Sequence[str], texts: Sequence[str], batch_characters: int) -> Sequence[npt.ArrayLike]:
        return self.model.vocabulary.encode_targets(texts)

    def of_hypotheses(
        self, sources: Sequence[str], hypotheses: Sequence[Hypothesis], batch_characters: int
    ) -> list[Segmentation]:
        """A search can write a text in other subwords than the text itself is cut into. Segments and score are then
        those of the latter, so that `log_probabilities` agrees."""
        vocabulary = self.model.vocabulary
        texts = [vocabulary.decode(hypothesis.symbols) for hypothesis in hypotheses]
        encoded = self.encode(sources, texts, batch_characters)
        symbols = [np.asarray(ids)[:-1].tolist() for ids in encoded]
        others = [row for row, hypothesis in enumerate(hypotheses) if hypothesis.symbols != symbols[row]]
        rescored = log_probabilities(
            self.model,
            [sources[row] for row in others],
            [texts[row] for row in others],
            [encoded[row] for row in others],
            batch_characters,
        )
        scores = [hypothesis.score for hypothesis in hypotheses]
        for row, score in zip(others, rescored, strict=True):
            scores[row] = score
        return [
            Segmentation(vocabulary.segments(ids), score, self.cuts_anywhere)
            for ids, score in zip(symbols, scores, strict=True)
        ]

    def n_best(
        self, sources: Sequence[str], texts: Sequence[str], n: int, batch_characters: int
    ) -> list[list[Segmentation]]:
        scores = self.log_probabilities(sources, texts, batch_characters)
        return [
            [Segmentation(self._cut(text), score, self.cuts_anywhere)]
            for text, score in zip(texts, scores, strict=True)
        ]

    def by_posterior(
        self, sources: Sequence[str], texts: Sequence[str], threshold: float, batch_characters: int
    ) -> list[Segmentation]:
        return [ranked[0] for ranked in self.n_best(sources, texts, 1, batch_characters)]

    def boundary_posteriors(
        self, sources: Sequence[str], texts: Sequence[str], batch_characters: int
    ) -> list[list[float]]:
        return [
            [float(k == len(segment)) for segment in self._cut(text) for k in range(1, len(segment) + 1)]
            for text in texts
        ]

    def _cut(self, text: str) -> list[str]:
        target = self.model.vocabulary.target
        assert isinstance(target, TargetSubwords), "pieces are cut by the segmenter that made them"
        return target.cut(text)


class PieceSegmenter(SubwordSegmenter):
    """Cuts a text as a first model does, which has cut the training text of this one too."""

    score_type: ScoreType = "path"
    cuts_anywhere = False

    def __init__(self, model: SubwordTransformer, first: Segmenter | None = None) -> None:
        super().__init__(model)
        assert first is not None
        self.first = first

    def into(self, language: str) -> Segmenter:
        other = super().into(language)
        assert isinstance(other, PieceSegmenter)
        other.first = self.first.into(language)
        return other

    def encode(self, sources: Sequence[str], texts: Sequence[str], batch_characters: int) -> Sequence[npt.ArrayLike]:
        best = self.first.n_best(sources, texts, 1, batch_characters)
        return self.model.vocabulary.encode_targets([segmented_line(ranked[0].segments) for ranked in best])

    def n_best(
        self, sources: Sequence[str], texts: Sequence[str], n: int, batch_characters: int
    ) -> list[list[Segmentation]]:
        return self.first.n_best(sources, texts, n, batch_characters)

    def by_posterior(
        self, sources: Sequence[str], texts: Sequence[str], threshold: float, batch_characters: int
    ) -> list[Segmentation]:
        return self.first.by_posterior(sources, texts, threshold, batch_characters)

    def boundary_posteriors(
        self, sources: Sequence[str], texts: Sequence[str], batch_characters: int
    ) -> list[list[float]]:
        return self.first.boundary_posteriors(sources, texts, batch_characters)


def log_probabilities(
    model: TranslationModel,
    sources: Sequence[str],
    texts: Sequence[str],
    encoded: Sequence[npt.ArrayLike],
    batch_characters: int,
) -> list[float]:
    """log p of each target, as it is encoded, given its source."""
    return over_batches(
        model, sources, texts, encoded, lambda batch: _numbers(model.log_probability(batch)).tolist(), batch_characters
    )


def _numbers(scores: Tensor) -> Tensor:
    """Scores as they are, if they are numbers."""
    if not scores.isfinite().all():
        raise NotNumbersError
    return scores


@torch.inference_mode()
def over_batches(
    model: TranslationModel,
    sources: Sequence[str],
    texts: Sequence[str],
    encoded: Sequence[npt.ArrayLike],
    of_batch: Callable[[Batch], list[Result]],
    batch_characters: int,
) -> list[Result]:
    """One result for each pair, computed in batches of like length and given back in order."""
    vocabulary = model.vocabulary
    results: list[Result | None] = [None] * len(texts)
    encoded_sources = vocabulary.encode_sources(sources)
    # Sources count too: many short targets must not bring in very long sources at once.
    sizes = [max(len(text) + 1, len(ids)) for text, ids in zip(texts, encoded_sources, strict=True)]  # type: ignore[arg-type]
    for rows in batches_by_length(sizes, batch_characters):
        batch = make_batch(
            [encoded_sources[row] for row in rows],
            [encoded[row] for row in rows],
            vocabulary.batch_symbols,
        ).to(model.device)
        with recognising_not_numbers():
            results_of_batch = of_batch(batch)
        for row, result in zip(rows, results_of_batch, strict=True):
            results[row] = result
    return results  # type: ignore[return-value]
