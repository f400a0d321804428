"""A model's answers as JSON has them, on the command line and in the service alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssmt.translator import Segmentation, Translation

Record = dict[str, Any]


def has_content(source: str | None, target: str, empty_targets: bool = False) -> bool:
    """Whether a pair is worked on: one whose source is empty is not, nor is one whose target is, unless it may be."""
    return (source is None or bool(source.strip())) and (empty_targets or bool(target.strip()))


def translation_record(source: str, ranked: Sequence[Translation], score_type: str, n_best: int) -> Record:
    """The best translation of a source and, where several were asked for, all of them."""

    def described(translation: Translation) -> Record:
        segments = {} if translation.segmentation is None else {"segments": translation.segments}
        return {"translation": translation.text, **segments, "score": round(translation.score, 6)}

    record = {"source": source, **described(ranked[0]), "score_type": score_type}
    if n_best > 1:
        record["n_best"] = [described(one) | {"score_type": score_type} for one in ranked]
    return record


def segmentation_record(text: str, candidates: Sequence[Segmentation], score_type: str, n_best: int) -> Record:
    """The best way to cut a text and, where several were asked for, all of them."""
    described: list[Record] = [
        {"segments": candidate.segments, "score": round(candidate.score, 6), "score_type": score_type}
        for candidate in candidates
    ]
    return {"translation": text, **described[0]} | ({"n_best": described} if n_best > 1 else {})


def empty_segmentation_record(text: str, score_type: str) -> Record:
    """Of a text without content, which is not cut."""
    return {"translation": text, "segments": [], "score": None, "score_type": score_type}


def posteriors_record(probabilities: Sequence[float]) -> list[float]:
    """The probability of a cut after each character."""
    return [round(probability, 4) for probability in probabilities]


def score_record(source: str, target: str, score: float | None, score_type: str) -> Record:
    """The score of a pair; a pair without content has none."""
    rounded = None if score is None else round(score, 6)
    return {"source": source, "translation": target, "score": rounded, "score_type": score_type}
