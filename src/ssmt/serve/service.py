"""The models that are served, and what all interfaces do with them: texts are cut into sentences, which go to the
worker of their model, and are put together again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ssmt.config import language_code
from ssmt.directory import load_description
from ssmt.errors import UserError
from ssmt.search.options import SearchOptions
from ssmt.serve.keys import Keys
from ssmt.serve.languages import served
from ssmt.serve.limits import Accounts, Limits, Refusal
from ssmt.serve.markup import Fragment, as_markup, fragments, is_address
from ssmt.serve.metrics import Metrics
from ssmt.serve.operations import Input, Operation, Translate
from ssmt.serve.sentences import Split, split_sentences
from ssmt.serve.worker import Batching, Worker
from ssmt.text.lines import normalise
from ssmt.translator import Translator

Form = Literal["text", "html", "xml"]
DETECTED_FROM = 1_000  # characters of a text
TELLS_ALONE = 40  # characters of a text whose language is detected without the others of its request
TELLING = 3  # characters of a subword, on average, in a word that is likely of the language


@dataclass(frozen=True)
class Place:
    """Where a model is, and which languages it is for."""

    source: str
    target: str
    directory: Path

    @classmethod
    def parse(cls, text: str) -> list[Place]:
        """`DIR`, whose model knows its languages (each target language is a place), or `en-zu=DIR` (`pt-BR:zu=DIR` for
        codes with a hyphen)."""
        languages, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            vocabulary, config = load_description(Path(text))
            source, targets = config.text.source_language, vocabulary.languages or (config.text.target_language,)
            places = [cls(source, target, Path(text)) for target in targets if source and target]
            if not places:
                example = f"en-{targets[0] or 'zu'}={text}"
                raise UserError(f"{text}: does not say which languages it is for; name it as {example}")
            return places
        try:
            source, target = languages.split(":" if ":" in languages else "-")
            place = cls(language_code(source), language_code(target), Path(path))
        except ValueError:
            raise UserError(
                f"{text}: expected languages and a directory, such as en-zu={path or 'DIR'} or pt-BR:zu={path or 'DIR'}"
            ) from None
        several = load_description(place.directory)[0].languages
        if several and place.target not in several:
            raise UserError(f"{text}: the model translates into {', '.join(several)}, not into {place.target}")
        return [place]


class ServedModel:
    """A pair of languages, the model that is asked for its target, and the worker, which all pairs of a model share."""

    def __init__(self, source: str, target: str, translator: Translator, worker: Worker) -> None:
        self.source, self.target, self.translator, self.worker = source, target, translator, worker
        self.name = f"{source}-{target}"

    @property
    def longest_source(self) -> int:
        return self.translator.config.text.longest_source

    def fit(self, text: str) -> float:
        """How well a text is written in the subwords of the source language: the share of its letters that are in words
        of one subword, or of long ones."""
        words = re.findall(r"\w+", text[:DETECTED_FROM])
        letters = sum(map(len, words))
        pieces = self.translator.vocabulary.source.encode(words)
        unknown = self.translator.vocabulary.source.unk
        telling = sum(
            len(word)
            for word, ids in zip(words, pieces, strict=True)
            if unknown not in ids and (len(ids) <= 2 or len(word) >= TELLING * (len(ids) - 1))  # one id is `</s>`
        )
        return telling / letters if letters else 0.0


class Service:
    """Models, limits, keys and metrics: everything but HTTP."""

    def __init__(
        self,
        models: Sequence[tuple[str, str, Translator]],
        limits: Limits | None = None,
        keys: Keys | None = None,
        batching: Batching | None = None,
    ) -> None:
        """`models`: the source language, the target language and the model of each pair. A model of several pairs (the
        same object) has one worker for them; if it has several target languages, each pair asks for its own."""
        self.limits, self.keys, self.metrics = limits or Limits(), keys, Metrics()
        self.accounts = Accounts(self.limits.characters_per_minute)
        self.models: dict[str, ServedModel] = {}
        self.workers: dict[int, Worker] = {}  # by the identity of the model
        for source, target, translator in models:
            if f"{source}-{target}" in self.models:
                raise UserError(f"Two models are for {source}-{target}; serve one of them")
            if id(translator) not in self.workers:
                name = ",".join("-".join(pair) for *pair, other in models if other is translator)
                self.workers[id(translator)] = Worker(batching, self.limits.queue, partial(self._observe, name))
                self.metrics.watch_queue(name, self.workers[id(translator)].waiting)
            is_open = translator.languages and translator.vocabulary.language is None
            asked = translator.into(target) if is_open else translator
            model = ServedModel(source, target, asked, self.workers[id(translator)])
            self.models[model.name] = model

    def _observe(self, name: str, sentences: int, seconds: float) -> None:
        self.metrics.batches.labels(name).observe(sentences)
        self.metrics.computing.labels(name).observe(seconds)

    def running(self) -> ExitStack:
        """While this is entered, workers work; afterwards they finish what waits."""
        stack = ExitStack()
        for worker in self.workers.values():
            worker.start()
            stack.callback(worker.stop)
        return stack

    # Languages

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(model.source for model in self.models.values()))

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(model.target for model in self.models.values()))

    def languages(self) -> dict[str, list[str]]:
        """Every language, with those that it can be translated into."""
        found: dict[str, list[str]] = {code: [] for code in [*self.sources, *self.targets]}
        for model in self.models.values():
            found[model.source].append(model.target)
        return found

    def model_for(self, source: str, target: str) -> ServedModel:
        into = served(target, self.targets)
        if into is None:
            raise Refusal(400, f"{target} is not supported; targets are {', '.join(self.targets)}")
        of_target = {model.source: model for model in self.models.values() if model.target == into}
        found = served(source, of_target)
        if found is None:
            raise Refusal(400, f"{source} to {into} is not supported; to {into} there is {', '.join(of_target)}")
        return of_target[found]

    def detect(self, texts: Sequence[str], target: str | None = None, form: Form = "text") -> list[tuple[str, float]]:
        """The source languages that are served (into a target, if given), likeliest first, and how sure that is, of 1.

        No other language is ever named: a text of another one only fits badly."""
        said = (
            texts
            if form == "text"
            else [part.text for text in texts for part in fragments(text, form=form) if part.text]
        )
        text = normalise("\n".join(said))
        into = None if target is None else served(target, self.targets)
        best: dict[str, float] = {}
        for model in self.models.values():
            if target is None or model.target == into:
                best[model.source] = max(best.get(model.source, 0.0), model.fit(text))
        return sorted(best.items(), key=lambda item: -item[1])

    # Callers

    def caller(self, secret: str | None, address: str) -> str:
        """Who is asking: the name of a key or, where none are needed, an address."""
        if self.keys is None:
            return f"address {address}"
        if not secret:
            raise Refusal(403, "This service needs an API key")
        name = self.keys.name_of(secret)
        if name is None:
            raise Refusal(403, "The API key is not valid, or has expired")
        return f"key {name}"

    # Work

    async def perform(
        self, model: ServedModel, operation: Operation, inputs: Sequence[Input], seconds: float | None = None
    ) -> list[Any]:
        """Within so many seconds; none given: those that a request has."""
        self.metrics.characters.labels(model.name).inc(sum(one.length for one in inputs))
        seconds = self.limits.deadline if seconds is None else seconds
        return await model.worker.perform(model.translator, operation, inputs, seconds)

    def detect_each(self, texts: Sequence[str], target: str, form: Form = "text") -> list[tuple[str, float]]:
        """The likeliest source language of each text, and how sure that is; of short ones, that of all together."""
        together = self.detect(texts, target, form)
        if not together:
            raise Refusal(400, f"{target} is not supported; targets are {', '.join(self.targets)}")
        return [self.detect([text], target, form)[0] if len(text) >= TELLS_ALONE else together[0] for text in texts]

    async def translate_each(self, models: Sequence[ServedModel], texts: Sequence[str], **how: Any) -> list[list[str]]:
        """Each text by its own model, as `translate_texts` does it."""
        rows_of: dict[str, list[int]] = {}
        for row, model in enumerate(models):
            rows_of.setdefault(model.name, []).append(row)
        work = []
        for name, rows in rows_of.items():
            work.append(self.translate_texts(self.models[name], [texts[row] for row in rows], **how))
        translated: list[list[str]] = [[] for _ in texts]
        for rows, found in zip(rows_of.values(), await asyncio.gather(*work), strict=True):
            for row, few in zip(rows, found, strict=True):
                translated[row] = few
        return translated

    async def translate_texts(
        self,
        model: ServedModel,
        texts: Sequence[str],
        form: Form = "text",
        alternatives: int = 0,
        at_marks: bool = True,
        at_newlines: bool = True,
        ignored: Collection[str] = (),
    ) -> list[list[str]]:
        """Each text translated, and so many other translations of it after it (fewer where there are fewer).

        What has no letters, and what is an address, is left as it is."""
        split = partial(split_sentences, longest=model.longest_source, at_marks=at_marks, at_newlines=at_newlines)
        documents = [_Document.of(text, form, split, ignored) for text in texts]
        sentences = list(dict.fromkeys(sentence for document in documents for sentence in document.sentences))
        if alternatives >= self.limits.hypotheses:
            raise Refusal(400, f"{alternatives} alternatives; there can be {self.limits.hypotheses - 1}")
        options = SearchOptions(n_best=alternatives + 1)
        ranked = await self.perform(model, Translate(options), [Input(sentence) for sentence in sentences])
        candidates = dict(zip(sentences, ([one.text for one in few] for few in ranked), strict=True))
        return [document.translated(candidates) for document in documents]


@dataclass(frozen=True)
class _Document:
    """A text in the pieces that are translated and those that are not."""

    pieces: list[tuple[Fragment, Split | None]]
    form: Form

    @classmethod
    def of(cls, text: str, form: Form, split: Any, ignored: Collection[str]) -> _Document:
        parts = [Fragment(text, text)] if form == "text" else fragments(text, ignored, form)
        pieces = [(part, None if part.text is None else split(normalise(part.text))) for part in parts]
        return cls(pieces, form)

    @property
    def sentences(self) -> list[str]:
        return [sentence for _, split in self.pieces if split for sentence in split.sentences if _has_content(sentence)]

    def translated(self, candidates: dict[str, list[str]]) -> list[str]:
        """The best whole, and the next: each has the next best of every sentence that has one."""
        most = max((len(candidates[sentence]) for sentence in self.sentences), default=1)
        wholes = [self._joined(candidates, rank) for rank in range(most)]
        return list(dict.fromkeys(wholes))

    def _joined(self, candidates: dict[str, list[str]], rank: int) -> str:
        out = []
        for fragment, split in self.pieces:
            if split is None:
                out.append(fragment.raw)
                continue
            sentences = []
            for sentence in split.sentences:
                found = candidates.get(sentence, [sentence])
                sentences.append(found[min(rank, len(found) - 1)])
            text = split.joined(sentences)
            out.append(text if self.form == "text" else as_markup(text, self.form))
        return "".join(out)


def _has_content(sentence: str) -> bool:
    return any(map(str.isalpha, sentence)) and not is_address(sentence)


def load_service(
    places: Sequence[str],
    limits: Limits | None = None,
    keys: Keys | None = None,
    batching: Batching | None = None,
    device: str = "auto",
    int8: bool = False,
) -> Service:
    """The models in directories: `DIR` or `en-zu=DIR`, as `Place.parse` reads them. A directory of several pairs is
    loaded once."""
    parsed = [place for text in places for place in Place.parse(text)]
    pairs = [(place.source, place.target) for place in parsed]
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise UserError(f"Two models are for {'-'.join(pair)}; serve one of them")
    directories = {place.directory.resolve(): place.directory for place in parsed}
    loaded = {path: Translator.load(directory, device, int8=int8) for path, directory in directories.items()}
    for translator in loaded.values():
        translator.vocabulary.source.encode(["a"])  # an imported model may lack what cuts its source
    models = [(place.source, place.target, loaded[place.directory.resolve()]) for place in parsed]
    return Service(models, limits, keys, batching)
