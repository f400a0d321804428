"""The public class: a trained model with raw text in and raw text out.

from ssmt import Translator
model = Translator.load("runs/zulu")
model.segment(["I do understand."], ["Ngiyaqonda."])   ->  [["Ngi", "ya", "qonda", "."]]
model.score(["I do understand."], ["Ngiyaqonda."])     ->  [-7.1]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from ssmt import lattice
from ssmt.config import Config
from ssmt.errors import UserError
from ssmt.model.directory import choose_device, load_model
from ssmt.model.ssmt import SSMT
from ssmt.search.beam import Hypothesis, SearchOptions
from ssmt.search.decode import Search, translate_texts
from ssmt.text.alphabet import Alphabet, describe_characters, is_word_character
from ssmt.text.corpus import Batch, batches_by_length, make_batch
from ssmt.text.lines import normalise as normalise_text
from ssmt.text.lines import with_single_blanks

Method = Literal["viterbi", "posterior"]
Result = TypeVar("Result")
DEFAULT_LENGTH_RATIO = 3.0  # of models whose training text is not known
SENTENCE_END = re.compile(r"(?<=[.!?…。！？।؟])\s+")


@dataclass(frozen=True)
class Segmentation:
    """One way to cut a text."""

    segments: list[str]
    score: float  # natural log-probability of the text cut in this way

    @property
    def text(self) -> str:
        return "".join(self.segments)

    def joined(self, separator: str) -> str:
        """The text with a separator at the cuts inside words; everywhere else a cut is forced and goes unmarked."""
        return join_segments(self.segments, separator)


def join_segments(segments: Sequence[str], separator: str) -> str:
    pieces = list(segments[:1])
    for before, after in pairwise(segments):
        inside_word = is_word_character(before[-1]) and is_word_character(after[0])
        pieces.append(separator + after if inside_word else after)
    return "".join(pieces)


@dataclass(frozen=True)
class Translation(Segmentation):
    """One translation with its segments; `score` is what the search's score type says."""


class Translations(NamedTuple):
    """The best translation of each source; with n_best > 1, each field is a list of lists."""

    texts: list[Any]
    segments: list[Any]
    scores: list[Any]


class Translator:
    def __init__(self, model: SSMT, config: Config) -> None:
        self.model, self.config = model, config
        self.vocabulary = model.vocabulary

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto", pretokenised: bool = False) -> Translator:
        """`pretokenised`: sources will come already split into the model's subwords, with blanks between them."""
        model, config = load_model(Path(directory), choose_device(device))
        if pretokenised:
            model.vocabulary = model.vocabulary.for_pretokenised()
        return cls(model, config)

    def translate(
        self,
        sources: Sequence[str],
        beam: int = 5,
        search: Search = "marginal",
        n_best: int = 1,
        **options: Any,
    ) -> Translations:
        """Translate, by the exact marginal by default; the options are those of `n_best_translations`."""
        found = self.n_best_translations(sources, n_best, beam, search, **options)
        fields = [[[getattr(one, name) for one in few] for few in found] for name in ("text", "segments", "score")]
        return Translations(*(fields if n_best > 1 else ([few[0] for few in field] for field in fields)))

    def n_best_translations(
        self,
        sources: Sequence[str],
        n: int = 1,
        beam: int = 5,
        search: Search = "marginal",
        *,
        length_penalty: float = 0.0,
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
        translation. `normalise`, `stop`, `final_normalise` and `average_next` are for dynamic decoding, `temperature`
        and `seed` for sampling.
        """
        texts = [normalise_text(source) for source in sources]
        begun = [normalise_text(prefix) for prefix in prefixes or [""] * len(texts)]
        if len(begun) != len(texts):
            raise UserError(f"There are {len(texts):,} sources but {len(begun):,} prefixes")
        settings = SearchOptions(
            beam, n, length_penalty, min_length, normalise, stop, temperature, final_normalise, average_next
        )
        parts: list[list[str]] = []
        for number, (text, prefix) in enumerate(zip(texts, begun, strict=True), start=1):
            if unknown := self.vocabulary.alphabet.unknown_characters(prefix):
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
        segmented = iter(self._segmented(flat, [few[:n] for few in found]))
        results = []
        for few in parts:
            translated = [next(segmented) for _ in few]
            results.append(translated[0] if len(few) == 1 else [_joined([one[0] for one in translated])])
        return results

    def _segmented(self, sources: Sequence[str], found: list[list[Hypothesis]]) -> list[list[Translation]]:
        """Hypotheses as text; those of a search over strings get the best segmentation of their string."""
        alphabet = self.vocabulary.alphabet
        texts = [[alphabet.decode(one.symbols) for one in few] for few in found]
        unsegmented = [(i, k) for i, few in enumerate(found) for k, one in enumerate(few) if one.ends is None]
        # As they are, and not as a user's text: normalised, they could be other strings, even of unknown characters.
        best = self._best_segmentations([sources[i] for i, _ in unsegmented], [texts[i][k] for i, k in unsegmented], 1)
        by_lattice = {place: few[0].segments for place, few in zip(unsegmented, best, strict=True)}
        return [
            [
                Translation(by_lattice[i, k] if one.ends is None else _pieces(one, alphabet), one.score)
                for k, one in enumerate(few)
            ]
            for i, few in enumerate(found)
        ]

    def _parts(self, source: str, number: int) -> list[str]:
        """A source as it is, or in parts of at most the model's limit that end at sentence ends."""
        longest = self.config.text.longest_source
        if len(source) <= longest:
            return [source]
        parts = [""]
        for sentence in SENTENCE_END.split(source):
            joined = f"{parts[-1]} {sentence}" if parts[-1] else sentence
            if len(joined) <= longest:
                parts[-1] = joined
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
        """The natural logarithm of p(target | source), summed over all segmentations, or of the best one alone."""

        def of_batch(scores: Tensor, batch: Batch) -> list[float]:
            total = lattice.best_path if best_path else lattice.marginal
            result = total(scores, batch.target_lengths)
            return (result[0] if isinstance(result, tuple) else result).tolist()

        return self._over_lattices(*self._prepared(sources, targets, allow_unknown), of_batch, batch_characters)

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
        """The n most probable segmentations of each target, best first; fewer where there are fewer."""
        return self._best_segmentations(*self._prepared(sources, targets, allow_unknown), n, batch_characters)

    def _best_segmentations(
        self, sources: Sequence[str], texts: Sequence[str], n: int, batch_characters: int = 8000
    ) -> list[list[Segmentation]]:
        def of_batch(scores: Tensor, batch: Batch) -> list[list[tuple[float, list[bool]]]]:
            paths = lattice.n_best(scores, batch.target_lengths, n)
            return [
                [(score, ends) for score, ends in zip(*row, strict=True) if score > lattice.NEG_INF / 2]
                for row in zip(paths.scores.tolist(), paths.ends.tolist(), strict=True)
            ]

        found = self._over_lattices(sources, texts, of_batch, batch_characters)
        return [
            [Segmentation(cut(text, ends), score) for score, ends in paths]
            for text, paths in zip(texts, found, strict=True)
        ]

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
        sources, texts = self._prepared(sources, targets, allow_unknown)

        def of_batch(scores: Tensor, batch: Batch) -> list[tuple[float, list[bool]]]:
            ends = lattice.posteriors(scores, batch.target_lengths).boundaries > threshold
            in_word = self.model.segments.get_buffer("is_word")[batch.target]
            ends[:, :-1] |= ~(in_word[:, :-1] & in_word[:, 1:])  # elsewhere than inside a word, a cut is no choice
            ends.scatter_(1, (batch.target_lengths - 1).unsqueeze(1), True)
            return list(zip(lattice.path_score(scores, ends).tolist(), ends.tolist(), strict=True))

        found = self._over_lattices(sources, texts, of_batch, batch_characters)
        return [Segmentation(cut(text, ends), score) for text, (score, ends) in zip(texts, found, strict=True)]

    def boundary_posteriors(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        allow_unknown: bool = False,
        batch_characters: int = 8000,
    ) -> list[list[float]]:
        """The probability of a cut after each character of each target."""

        def of_batch(scores: Tensor, batch: Batch) -> list[list[float]]:
            boundaries = lattice.posteriors(scores, batch.target_lengths).boundaries.clamp(0, 1).tolist()
            lengths = batch.target_lengths.tolist()
            return [row[: length - 1] for row, length in zip(boundaries, lengths, strict=True)]

        return self._over_lattices(*self._prepared(sources, targets, allow_unknown), of_batch, batch_characters)

    @torch.inference_mode()
    def _over_lattices(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        of_batch: Callable[[Tensor, Batch], list[Result]],
        batch_characters: int,
    ) -> list[Result]:
        """One result for each prepared pair, computed in batches of like length and given back in order."""
        results: list[Result | None] = [None] * len(targets)
        encoded_sources = self.vocabulary.encode_sources(sources)
        encoded_targets = self.vocabulary.encode_targets(targets)
        for rows in batches_by_length([len(target) + 1 for target in targets], batch_characters):
            batch = make_batch(
                [encoded_sources[row] for row in rows],
                [encoded_targets[row] for row in rows],
                self.vocabulary.source_pad,
                self.vocabulary.target_pad,
            ).to(self.model.device)
            for row, result in zip(rows, of_batch(self.model.lattice(batch), batch), strict=True):
                results[row] = result
        return results  # type: ignore[return-value]

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
            unknown = [] if allow_unknown else self.vocabulary.alphabet.unknown_characters(target)
            if unknown:
                raise LineError(
                    "target",
                    number,
                    f"the model has never seen {describe_characters(unknown)}; mend the text, or accept such "
                    f"characters as <unk> with --allow-unknown (allow_unknown=True in Python)",
                )


class LineError(UserError):
    """A bad text, by its place in the input; the command line knows which file that is."""

    def __init__(self, kind: str, number: int, problem: str) -> None:
        super().__init__(f"{kind} {number}: {problem}")
        self.kind, self.number, self.problem = kind, number, problem


def _pieces(found: Hypothesis, alphabet: Alphabet) -> list[str]:
    """The segments of a search that decides on them; one of specials alone has no text and is left out."""
    pieces = [alphabet.decode(found.symbols[start:end]) for start, end in pairwise([0, *(found.ends or [])])]
    return [piece for piece in pieces if piece]


def _joined(parts: Sequence[Translation]) -> Translation:
    """The translation of a source that was translated in parts."""
    segments: list[str] = []
    for part in parts:
        segments += [" ", *part.segments] if segments else part.segments
    return Translation(segments, sum(part.score for part in parts))


def cut(text: str, ends: Sequence[bool]) -> list[str]:
    """The segments of a text that is cut after the marked characters (what marks `</s>` is left out)."""
    positions = [0, *(k + 1 for k in range(len(text)) if ends[k])]
    return [text[start:end] for start, end in pairwise(positions)]
