"""The public class: a trained model with raw text in and raw text out."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

from ssmt.config import Config, did_you_mean
from ssmt.devices import choose_device
from ssmt.directory import SEGMENTER, load_model, load_segmenter_config, weights_of
from ssmt.errors import LineError as LineError
from ssmt.errors import UserError
from ssmt.files import is_text
from ssmt.model.int8 import use_int8_weights
from ssmt.model.translation import TranslationModel
from ssmt.registry import kind_of
from ssmt.search.decode import BATCH_CHARACTERS
from ssmt.search.job import Hypothesis
from ssmt.search.options import MOST_HYPOTHESES, ScoreType, require_number, require_whole
from ssmt.search.options import SearchOptions as SearchOptions
from ssmt.segmentation import Segmentation as Segmentation
from ssmt.segmentation import Segmenter
from ssmt.segmentation import cut as cut
from ssmt.segmentation import join_segments as join_segments
from ssmt.text.alphabet import describe_characters
from ssmt.text.lines import normalise as normalise_text
from ssmt.text.lines import with_single_blanks

Method = Literal["viterbi", "posterior"]
DEFAULT_LENGTH_RATIO = 3.0  # of models whose training text is not known
SENTENCE_END = re.compile(r"((?<=[.!?…।؟])\s+|(?<=[。！？])\s*)")


@dataclass(frozen=True)
class Translation:
    """One translation; `score` is what the search's score type says."""

    text: str
    score: float
    segmentation: Segmentation | None = None  # where segments were asked for

    @property
    def segments(self) -> list[str]:
        assert self.segmentation is not None, "translated without segments"
        return self.segmentation.segments

    def joined(self, separator: str) -> str:
        """The text with a separator at the cuts that are a choice."""
        assert self.segmentation is not None, "translated without segments"
        return self.segmentation.joined(separator)


class Translations(NamedTuple):
    """The best translation of each source: its text, its segments (which joined are the text) and its score."""

    texts: list[str]
    segments: list[list[str]]
    scores: list[float]


class NBestTranslations(NamedTuple):
    """The n best translations of each source, best first."""

    texts: list[list[str]]
    segments: list[list[list[str]]]
    scores: list[list[float]]


class Translator:
    """A trained model: it translates, cuts words into segments, and gives probabilities.

        model = ssmt.Translator.load("runs/zulu")
        texts, segments, scores = model.translate(["I do understand."])
        model.translate(["I do understand."], n_best=3, beam=10)        # the three best of each sentence
        model.segment(["I do understand."], ["Ngiyaqonda."])            # [["Ngi", "ya", "qonda", "."]]
        model.score(["I do understand."], ["Ngiyaqonda."])              # [-7.1], the logarithm of p(target | source)
        model.boundary_posteriors(None, ["ngiyaqonda"])                 # how probable a cut is after each character

    Every method takes lists of sentences. What a caller can mend is a `ssmt.errors.UserError`.
    """

    def __init__(self, model: TranslationModel, config: Config, first: Segmenter | None = None) -> None:
        """`first`: how the first model cuts, of a model whose text another cuts."""
        self.model, self.config = model, config
        self.kind, self.vocabulary = kind_of(config), model.vocabulary
        self.segmenter = self.kind.segmenter(model, first)

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        name = type(self).__name__
        return f"<{name} of kind {self.config.model}: {parameters:,} parameters on {self.model.device}>"

    @classmethod
    def load(
        cls, directory: str | Path, device: str = "auto", pretokenised: bool = False, int8: bool = False
    ) -> Translator:
        """The model in a directory, on a device (auto, cpu, cuda, cuda:1, mps).

        `pretokenised`: sources will come already split into the model's subwords, with blanks between them.
        `int8`: weights of 8 bits, on CPU."""
        model, config = load_model(Path(directory), choose_device(device))
        first = None
        if kind_of(config).segments_first:
            of_weights = weights_of(Path(directory)).parent  # a run without any has those of what it began with
            load_segmenter_config(of_weights)
            first = cls.load(of_weights / SEGMENTER, device, pretokenised).segmenter
        if int8:
            use_int8_weights(model)
        if pretokenised:
            model.vocabulary = model.vocabulary.for_pretokenised()
        return cls(model, config, first)

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages that it can be asked for (`into`); none where it has but one."""
        return self.vocabulary.languages

    def into(self, language: str) -> Translator:
        """The same model, asked for one of its target languages: `model.into("ss").translate(...)`."""
        if not self.languages and language == self.config.text.target_language:
            return self
        other = copy.copy(self)
        other.model = self.model.into(language)
        other.vocabulary, other.segmenter = other.model.vocabulary, self.segmenter.into(language)
        return other

    def score_type(self, search: str | None = None, best_path: bool = False) -> ScoreType:
        """What the scores are of: those of a search or, without one, those of `score`."""
        return self.kind.score_type_of(None if search is None else self.kind.search(search), best_path)

    @overload
    def translate(
        self,
        sources: Iterable[str],
        options: SearchOptions | None = ...,
        *,
        n_best: Literal[1] | None = ...,
        prefixes: Iterable[str] | None = ...,
        batch_characters: int = ...,
        **settings: Any,
    ) -> Translations: ...

    @overload
    def translate(
        self,
        sources: Iterable[str],
        options: SearchOptions | None = ...,
        *,
        n_best: int,
        prefixes: Iterable[str] | None = ...,
        batch_characters: int = ...,
        **settings: Any,
    ) -> NBestTranslations: ...

    def translate(
        self,
        sources: Iterable[str],
        options: SearchOptions | None = None,
        *,
        n_best: int | None = None,
        prefixes: Iterable[str] | None = None,
        batch_characters: int = BATCH_CHARACTERS,
        **settings: Any,
    ) -> Translations | NBestTranslations:
        """Translate, by the model's own search by default (the exact marginal, for a model that segments). How: by
        `options`, or by their fields as settings (`beam=10, length_penalty=0.5`). With more than one translation of
        each source (`n_best=3`), every field of the answer is a list of lists."""
        chosen = _options(options, settings if n_best is None else settings | {"n_best": n_best})
        ranked = self.n_best_translations(sources, chosen, prefixes=prefixes, batch_characters=batch_characters)
        if chosen.n_best == 1:
            best = [translations[0] for translations in ranked]
            return Translations([one.text for one in best], [one.segments for one in best], [one.score for one in best])
        return NBestTranslations(
            [[one.text for one in translations] for translations in ranked],
            [[one.segments for one in translations] for translations in ranked],
            [[one.score for one in translations] for translations in ranked],
        )

    def n_best_translations(
        self,
        sources: Iterable[str],
        options: SearchOptions | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        with_segments: bool = True,
        batch_characters: int = BATCH_CHARACTERS,
        **settings: Any,
    ) -> list[list[Translation]]:
        """The n best translations of each source, best first; an empty source has one, which is empty.

        A source longer than the model's limit is translated in parts that end where its sentences end; it has one
        translation, and lengths are limited part by part. Without segments, the pass over the output that finds them
        is spared, and scores are those of the search as it stands (of subwords, of the derivation that it found).
        """
        self.vocabulary.require_language()
        chosen = _options(options, settings)
        search = self.kind.search(chosen.search)
        texts = [normalise_text(source) for source in _sentences(sources, "sources")]
        begun = [
            normalise_text(prefix)
            for prefix in _sentences([""] * len(texts) if prefixes is None else prefixes, "prefixes")
        ]
        if len(begun) != len(texts):
            raise UserError(f"There are {len(texts):,} sources but {len(begun):,} prefixes")
        parts_of_texts: list[list[str]] = []
        for number, (text, prefix) in enumerate(zip(texts, begun, strict=True), start=1):
            if unknown := self.vocabulary.unknown_characters(prefix):
                raise LineError("prefix", number, f"the model has never seen {describe_characters(unknown)}")
            parts_of_texts.append(self._parts(text, number) if text.strip() else [])
        all_parts = [part for parts in parts_of_texts for part in parts]
        hypotheses = self.kind.translate(
            self.model,
            all_parts,
            replace(chosen, search=search.name),
            self.config.text.length_ratio or DEFAULT_LENGTH_RATIO,
            [begun[row] if k == 0 else "" for row, parts in enumerate(parts_of_texts) for k in range(len(parts))],
            batch_characters,
        )
        hypotheses = [ranked[: chosen.n_best] for ranked in hypotheses]
        translated = iter(self._translations(all_parts, hypotheses, with_segments, batch_characters))
        results = []
        for parts in parts_of_texts:
            of_parts = [next(translated) for _ in parts]
            results.append(of_parts[0] if len(parts) == 1 else [_joined([ranked[0] for ranked in of_parts])])
        return results

    def _translations(
        self, sources: Sequence[str], n_best: list[list[Hypothesis]], with_segments: bool, batch_characters: int
    ) -> list[list[Translation]]:
        """Hypotheses as text, with segments where they are asked for."""
        hypotheses = [hypothesis for ranked in n_best for hypothesis in ranked]
        if with_segments:
            repeated = [source for source, ranked in zip(sources, n_best, strict=True) for _ in ranked]
            segmentations = self.segmenter.of_hypotheses(repeated, hypotheses, batch_characters)
            flat = iter([Translation(cut_text.text, cut_text.score, cut_text) for cut_text in segmentations])
        else:
            flat = iter([Translation(self.vocabulary.decode(text.symbols), text.score) for text in hypotheses])
        return [[next(flat) for _ in ranked] for ranked in n_best]

    def require_translatable(self, sources: Iterable[str]) -> int:
        """Refuse a source that the model cannot take, before others are translated for hours; how many there are."""
        number = 0
        for number, source in enumerate(sources, start=1):
            self._parts(normalise_text(source), number)
        return number

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
        sources: Iterable[str],
        targets: Iterable[str],
        best_path: bool = False,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[float]:
        """The natural logarithm of p(target | source): summed over all segmentations, or of the best one alone; of a
        model whose text is cut before, of the text as it is cut."""
        sources, texts = self._prepared(sources, targets, allow_unknown)
        if self.score_type(best_path=best_path) == "path":
            return [ranked[0].score for ranked in self.segmenter.n_best(sources, texts, 1, batch_characters)]
        return self.segmenter.log_probabilities(sources, texts, batch_characters)

    def segment(
        self,
        sources: Iterable[str] | None,
        targets: Iterable[str],
        method: Method = "viterbi",
        threshold: float = 0.5,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[str]]:
        """The segments of each target given its source: of the best path, or cut where the posterior probability of
        a boundary is at least a threshold (0.5 minimises the expected number of wrong boundaries).

        Without sources, each target is segmented as if its source were empty.
        """
        if method not in get_args(Method):
            raise UserError(f"There is no method {method!r}{did_you_mean(method, get_args(Method))}")
        if method == "posterior":
            segmentations = self.posterior_segmentations(sources, targets, threshold, allow_unknown, batch_characters)
        else:
            best = self.n_best_segmentations(sources, targets, 1, allow_unknown, batch_characters)
            segmentations = [ranked[0] for ranked in best]
        return [segmentation.segments for segmentation in segmentations]

    def n_best_segmentations(
        self,
        sources: Iterable[str] | None,
        targets: Iterable[str],
        n: int,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[Segmentation]]:
        """The n most probable segmentations of each target, best first; fewer where there are fewer (subwords of bpe
        and ulm have one)."""
        require_whole("n", n, 1, MOST_HYPOTHESES)
        return self.segmenter.n_best(*self._prepared(sources, targets, allow_unknown), n, batch_characters)

    def posterior_segmentations(
        self,
        sources: Iterable[str] | None,
        targets: Iterable[str],
        threshold: float = 0.5,
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[Segmentation]:
        """Each target cut where the posterior probability of a boundary is at least the threshold.

        Such a cut can leave a segment longer than the model could generate; its score is then NEG_INF."""
        require_number("threshold", threshold, 0, 1)
        return self.segmenter.by_posterior(
            *self._prepared(sources, targets, allow_unknown), threshold, batch_characters
        )

    def boundary_posteriors(
        self,
        sources: Iterable[str] | None,
        targets: Iterable[str],
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[float]]:
        """The probability of a cut after each character of each target."""
        return self.segmenter.boundary_posteriors(*self._prepared(sources, targets, allow_unknown), batch_characters)

    def _prepared(
        self, sources: Iterable[str] | None, targets: Iterable[str], allow_unknown: bool
    ) -> tuple[list[str], list[str]]:
        """A user's pairs, normalised and checked; without sources, empty ones."""
        self.vocabulary.require_language()
        blanks = with_single_blanks if self.config.text.single_blanks else str
        texts = [blanks(normalise_text(target)) for target in _sentences(targets, "targets")]
        given = [""] * len(texts)
        if sources is not None:
            given = [normalise_text(source) for source in _sentences(sources, "sources")]
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
                    f"the model has never seen {describe_characters(unknown)}; mend the text, or allow unknown "
                    f"characters, which count as <unk>",
                )


def _options(options: SearchOptions | None, settings: dict[str, Any]) -> SearchOptions:
    """Settings over options; what is no option is refused with the nearest one."""
    known = {field.name for field in fields(SearchOptions)}
    for name in settings:
        if name not in known:
            raise UserError(f"A search has no option {name!r}{did_you_mean(name, known)}")
    return replace(options or SearchOptions(), **settings)


def _sentences(texts: Iterable[str], what: str) -> list[str]:
    """A string is a sequence of strings too: its letters."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        shown = f"one text: {texts[:40]!r}" if isinstance(texts, str) else repr(texts)
        raise UserError(f"{what} must be a list of sentences, and this is {shown}")
    sentences = list(texts)
    for number, text in enumerate(sentences, start=1):
        if not isinstance(text, str):
            raise UserError(f"{what} must be texts, and number {number} is {text!r}")
        if not is_text(text):
            raise UserError(f"{what}: number {number} has half of a character (a lone surrogate): {text[:40]!r}")
    return sentences


def _joined(parts: Sequence[Translation]) -> Translation:
    """The translation of a source that was translated in parts."""
    text, score = " ".join(part.text for part in parts), sum(part.score for part in parts)
    segments: list[str] = []
    for part in parts:
        if part.segmentation is None:
            return Translation(text, score)
        segments += [" ", *part.segments] if segments else part.segments
    anywhere = any(part.segmentation.cuts_anywhere for part in parts if part.segmentation)
    return Translation(text, score, Segmentation(segments, score, anywhere))
