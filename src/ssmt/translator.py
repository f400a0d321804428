"""The public class: a trained model with raw text in and raw text out.

from ssmt import Translator
model = Translator.load("runs/zulu")
model.segment(["I do understand."], ["Ngiyaqonda."])   ->  [["Ngi", "ya", "qonda", "."]]
model.score(["I do understand."], ["Ngiyaqonda."])     ->  [-7.1]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ssmt.config import Config
from ssmt.devices import choose_device
from ssmt.directory import SEGMENTER, load_model
from ssmt.errors import LineError as LineError
from ssmt.errors import UserError
from ssmt.model.int8 import use_int8_weights
from ssmt.model.translation import ScoreType, TranslationModel
from ssmt.registry import kind_of
from ssmt.search.beam import Hypothesis, SearchOptions
from ssmt.search.decode import SCORE_TYPES, Search, translate_texts
from ssmt.segmentation import Segmentation as Segmentation
from ssmt.segmentation import Segmenter, log_probabilities
from ssmt.segmentation import cut as cut
from ssmt.segmentation import join_segments as join_segments
from ssmt.text.alphabet import describe_characters
from ssmt.text.lines import normalise as normalise_text
from ssmt.text.lines import with_single_blanks
from ssmt.text.pieces import segmented_line
from ssmt.text.vocabulary import BothSides, SubwordVocabulary

Method = Literal["viterbi", "posterior"]
DEFAULT_LENGTH_RATIO = 3.0  # of models whose training text is not known
SENTENCE_END = re.compile(r"((?<=[.!?…।؟])\s+|(?<=[。！？])\s*)")


@dataclass(frozen=True)
class Translation(Segmentation):
    """One translation with its segments; `score` is what the search's score type says."""


class Translations(NamedTuple):
    """The best translation of each source; with n_best > 1, each field is a list of lists."""

    texts: list[Any]
    segments: list[Any]
    scores: list[Any]


class Translator:
    def __init__(self, model: TranslationModel, config: Config, segmenter: Segmenter | None = None) -> None:
        """`segmenter`: the first model of one whose text another cuts."""
        self.model, self.config = model, config
        self.kind, self.vocabulary = kind_of(config), model.vocabulary
        self.segmenter = segmenter or self.kind.segmenter(model)

    @classmethod
    def load(
        cls, directory: str | Path, device: str = "auto", pretokenised: bool = False, int8: bool = False
    ) -> Translator:
        """`pretokenised`: sources will come already split into the model's subwords, with blanks between them.
        `int8`: weights of 8 bits, on CPU."""
        models = [load_model(Path(directory), choose_device(device))]
        if int8:
            use_int8_weights(models[0][0])
        if kind_of(models[0][1]).segments_first:
            models.append(load_model(Path(directory) / SEGMENTER, choose_device(device)))
        for model, _ in models if pretokenised else ():
            model.vocabulary = model.vocabulary.for_pretokenised()
        return cls(*models[0], *(kind_of(config).segmenter(model) for model, config in models[1:]))

    def score_type(self, search: Search | None = None, best_path: bool = False) -> ScoreType:
        """What the scores are of: those of a search or, without one, those of `score`."""
        if search is None and best_path and self.kind.score_type == "marginal":
            return "path"
        return self.kind.score_type if search is None else SCORE_TYPES.get(search, self.kind.score_type)

    def translate(
        self,
        sources: Sequence[str],
        beam: int = 5,
        search: Search | None = None,
        n_best: int = 1,
        **options: Any,
    ) -> Translations:
        """Translate, by the model's own search by default (the exact marginal, for a model that segments); the options
        are those of `n_best_translations`."""
        found = self.n_best_translations(sources, n_best, beam, search, **options)
        fields = [[[getattr(one, name) for one in few] for few in found] for name in ("text", "segments", "score")]
        return Translations(*(fields if n_best > 1 else ([few[0] for few in field] for field in fields)))

    def n_best_translations(
        self,
        sources: Sequence[str],
        n: int = 1,
        beam: int = 5,
        search: Search | None = None,
        *,
        length_penalty: float | None = None,
        min_length: int = 0,
        max_length: int | None = None,
        prefixes: Sequence[str] | None = None,
        normalise: Literal["segments", "characters", "none"] = "segments",
        stop: Literal["safe", "paper"] = "safe",
        final_normalise: Literal["segments", "characters", "none"] | None = None,
        average_next: bool = False,
        temperature: float = 1.0,
        seed: int = 0,
        batch_characters: int = 6400,
    ) -> list[list[Translation]]:
        """The n best translations of each source, best first; an empty source has one, which is empty.

        A source longer than the model's limit is translated in parts that end where its sentences end; it has one
        translation, and lengths are limited part by part. `search` is one of the model's own. `normalise`, `stop`,
        `final_normalise` and `average_next` are for dynamic decoding, `temperature` and `seed` for sampling.
        """
        search = self.kind.search(search)
        texts = [normalise_text(source) for source in sources]
        begun = [normalise_text(prefix) for prefix in prefixes or [""] * len(texts)]
        if len(begun) != len(texts):
            raise UserError(f"There are {len(texts):,} sources but {len(begun):,} prefixes")
        settings = SearchOptions(
            beam, n, length_penalty, min_length, normalise, stop, temperature, final_normalise, average_next
        )
        parts: list[list[str]] = []
        for number, (text, prefix) in enumerate(zip(texts, begun, strict=True), start=1):
            if unknown := self.vocabulary.unknown_characters(prefix):
                raise LineError("prefix", number, f"the model has never seen {describe_characters(unknown)}")
            parts.append(self._parts(text, number) if text.strip() else [])
        flat = [part for few in parts for part in few]
        found = translate_texts(
            self.model,
            flat,
            search,
            settings,
            self.config.text.length_ratio or DEFAULT_LENGTH_RATIO,
            max_length,
            [begun[i] if k == 0 else "" for i, few in enumerate(parts) for k in range(len(few))],
            seed,
            batch_characters,
        )
        segmented = iter(self._segmented(flat, [few[:n] for few in found], batch_characters))
        results = []
        for few in parts:
            translated = [next(segmented) for _ in few]
            results.append(translated[0] if len(few) == 1 else [_joined([one[0] for one in translated])])
        return results

    def _segmented(
        self, sources: Sequence[str], found: list[list[Hypothesis]], batch_characters: int
    ) -> list[list[Translation]]:
        """Hypotheses as text with segments."""
        hypotheses = [one for few in found for one in few]
        repeated = [source for source, few in zip(sources, found, strict=True) for _ in few]
        texts = [self.vocabulary.decode(one.symbols) for one in hypotheses]
        if isinstance(self.vocabulary, SubwordVocabulary):
            flat = self._cut_as_text(self.vocabulary, repeated, texts, hypotheses, batch_characters)
        else:
            flat = self._cut_as_found(repeated, texts, hypotheses, batch_characters)
        translations = iter(flat)
        return [[next(translations) for _ in few] for few in found]

    def _cut_as_found(
        self, sources: Sequence[str], texts: Sequence[str], found: Sequence[Hypothesis], batch_characters: int
    ) -> list[Translation]:
        """Those of a search over strings get the best segmentation of their string."""
        strings = [row for row, one in enumerate(found) if one.ends is None]
        best = self.segmenter.n_best(
            [sources[row] for row in strings], [texts[row] for row in strings], 1, batch_characters
        )
        by_lattice = {row: few[0].segments for row, few in zip(strings, best, strict=True)}
        return [
            Translation(by_lattice[row] if one.ends is None else _pieces(one, self.vocabulary), one.score)
            for row, one in enumerate(found)
        ]

    def _cut_as_text(
        self,
        vocabulary: SubwordVocabulary,
        sources: Sequence[str],
        texts: Sequence[str],
        found: Sequence[Hypothesis],
        batch_characters: int,
    ) -> list[Translation]:
        """A search over subwords can write a text in other subwords than the text itself is cut into. Segments and
        score are then those of the latter, so that `score` agrees."""
        encoded = self._encode_targets(sources, texts, batch_characters)
        own = [np.asarray(ids)[:-1].tolist() for ids in encoded]
        others = [row for row, one in enumerate(found) if one.symbols != own[row]]
        scores = log_probabilities(
            self.model,
            [sources[row] for row in others],
            [texts[row] for row in others],
            [encoded[row] for row in others],
            batch_characters,
        )
        rescored = dict(zip(others, scores, strict=True))
        return [
            Translation(vocabulary.segments(ids), rescored.get(row, one.score), self.segmenter.cuts_anywhere)
            for row, (one, ids) in enumerate(zip(found, own, strict=True))
        ]

    def _encode_targets(
        self, sources: Sequence[str], texts: Sequence[str], batch_characters: int
    ) -> Sequence[npt.ArrayLike]:
        """Targets as the model reads them; where a first model cuts them, as it does given their sources."""
        if self.kind.segments_first:
            found = self.segmenter.n_best(sources, texts, 1, batch_characters)
            texts = [segmented_line(few[0].segments) for few in found]
        return self.vocabulary.encode_targets(texts)

    def _parts(self, source: str, number: int) -> list[str]:
        """A source as it is, or in parts of at most the model's limit that end at sentence ends."""
        longest = self.config.text.longest_source
        if len(source) <= longest:
            return [source]
        first, *others = SENTENCE_END.split(source.strip())
        parts = [first]
        for gap, sentence in zip(others[::2], others[1::2], strict=True):
            if len(parts[-1]) + len(gap) + len(sentence) <= longest:
                parts[-1] += gap + sentence
            else:
                parts.append(sentence)
        too_long = max(map(len, parts))
        if too_long > longest:
            raise LineError(
                "source", number, f"has a sentence of {too_long:,} characters, the model takes {longest:,} at most"
            )
        return parts

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        best_path: bool = False,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[float]:
        """The natural logarithm of p(target | source): summed over all segmentations, or of the best one alone; of a
        model whose text is cut before, of the text as it is cut."""
        sources, texts = self._prepared(sources, targets, allow_unknown)
        if self.score_type(best_path=best_path) == "path":
            return [few[0].score for few in self.segmenter.n_best(sources, texts, 1, batch_characters)]
        encoded = self._encode_targets(sources, texts, batch_characters)
        return log_probabilities(self.model, sources, texts, encoded, batch_characters)

    def segment(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        method: Method = "viterbi",
        threshold: float = 0.5,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[str]]:
        """The segments of each target given its source: of the best path, or cut where the posterior probability of
        a boundary exceeds a threshold (which, at 0.5, minimises the expected number of wrong boundaries).

        Without sources, each target is segmented as if its source were empty.
        """
        if method == "posterior":
            found = self.posterior_segmentations(sources, targets, threshold, allow_unknown, batch_characters)
        else:
            found = [
                best[0] for best in self.n_best_segmentations(sources, targets, 1, allow_unknown, batch_characters)
            ]
        return [segmentation.segments for segmentation in found]

    def n_best_segmentations(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        n: int,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[Segmentation]]:
        """The n most probable segmentations of each target, best first; fewer where there are fewer (subwords of bpe
        and ulm have one)."""
        return self.segmenter.n_best(*self._prepared(sources, targets, allow_unknown), n, batch_characters)

    def posterior_segmentations(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        threshold: float = 0.5,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[Segmentation]:
        """Each target cut where the posterior probability of a boundary exceeds the threshold.

        Such a cut can leave a segment longer than the model could generate; its score is then NEG_INF."""
        return self.segmenter.by_posterior(
            *self._prepared(sources, targets, allow_unknown), threshold, batch_characters
        )

    def boundary_posteriors(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[float]]:
        """The probability of a cut after each character of each target."""
        return self.segmenter.boundary_posteriors(*self._prepared(sources, targets, allow_unknown), batch_characters)

    def _prepared(
        self, sources: Sequence[str] | None, targets: Sequence[str], allow_unknown: bool
    ) -> tuple[list[str], list[str]]:
        """A user's pairs, normalised and checked; without sources, empty ones."""
        blanks = with_single_blanks if self.config.text.single_blanks else str
        texts = [blanks(normalise_text(target)) for target in targets]
        given = [""] * len(texts) if sources is None else [normalise_text(source) for source in sources]
        self._check(given, texts, allow_unknown)
        return given, texts

    def _check(self, sources: Sequence[str], targets: Sequence[str], allow_unknown: bool) -> None:
        if len(sources) != len(targets):
            raise UserError(f"There are {len(sources):,} sources but {len(targets):,} targets")
        limits = self.config.text
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1):
            for kind, text, longest in (
                ("source", source, limits.longest_source),
                ("target", target, limits.longest_target),
            ):
                if len(text) > longest:
                    raise LineError(kind, number, f"has {len(text):,} characters, the model takes {longest:,} at most")
                if "\n" in text:
                    raise LineError(kind, number, "has a line break inside; give one sentence a line")
            unknown = [] if allow_unknown else self.vocabulary.unknown_characters(target)
            if unknown:
                raise LineError(
                    "target",
                    number,
                    f"the model has never seen {describe_characters(unknown)}; mend the text, or accept such "
                    f"characters as <unk> with --allow-unknown (allow_unknown=True in Python)",
                )


def _pieces(found: Hypothesis, vocabulary: BothSides) -> list[str]:
    """The segments of a search that decides on them; one of specials alone has no text and is left out."""
    pieces = [vocabulary.decode(found.symbols[start:end]) for start, end in pairwise([0, *(found.ends or [])])]
    return [piece for piece in pieces if piece]


def _joined(parts: Sequence[Translation]) -> Translation:
    """The translation of a source that was translated in parts."""
    segments: list[str] = []
    for part in parts:
        segments += [" ", *part.segments] if segments else part.segments
    return Translation(segments, sum(part.score for part in parts), any(part.cuts_anywhere for part in parts))
