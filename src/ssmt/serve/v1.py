"""Our own interface: everything that a model can do, with the names that the command line's JSON has."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from ssmt.config import did_you_mean
from ssmt.errors import UserError
from ssmt.records import (
    Record,
    empty_segmentation_record,
    has_content,
    posteriors_record,
    score_record,
    segmentation_record,
    translation_record,
)
from ssmt.search.options import Candidates, Normalise, SearchOptions, Stop
from ssmt.serve.languages import name_of
from ssmt.serve.limits import BUSY, InputRefusal, Refusal
from ssmt.serve.operations import Input, Operation, Posteriors, Score, Segment, Translate
from ssmt.serve.sentences import split_sentences
from ssmt.serve.service import ServedModel, Service
from ssmt.serve.web import Error, JSONResponse, ServiceOf, caller_of, while_connected
from ssmt.text.lines import normalise, with_single_blanks

_ERRORS: dict[int | str, dict[str, Any]] = {status: {"model": Error} for status in (400, 403, 413, 422, 429, 500, 503)}
router = APIRouter(prefix="/v1", tags=["ssmt"], responses=_ERRORS)

Authorization = Annotated[str | None, Header(description="Bearer, and the key")]


class Asked(BaseModel):
    """What every request has."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str | None = Field(None, description="languages, such as en-zu; needed where several models are served")


class TranslateRequest(Asked):
    sources: list[str] = Field(description="one sentence each")
    prefixes: list[str] | None = Field(None, description="what each translation must begin with")
    segments: bool = Field(True, description="whether to give the segments of translations")
    search: str | None = Field(None, description="how to search; none: the model's own way")
    beam: int = Field(5, ge=1, description="hypotheses a sentence")
    n_best: int = Field(1, ge=1, description="the n best translations, or n samples")
    length_penalty: float | None = Field(None, description="rank by score / length ** penalty")
    repetition_penalty: float | None = Field(
        None, description="what each symbol costs in the ranking that goes on with something said before"
    )
    min_length: int = Field(0, ge=0, description="fewest characters of a translation")
    max_length: int | None = Field(None, ge=1, description="most characters")
    normalise: Normalise = Field("segments", description="of dynamic decoding: what scores are divided by")
    stop: Stop = Field("safe", description="of dynamic decoding: when to stop")
    final_normalise: Normalise | None = Field(None, description="with stop: paper, what final scores are divided by")
    average_next: bool = Field(False, description="of dynamic decoding: average a new segment with the one before")
    temperature: float = Field(1.0, description="of samples")
    seed: int = Field(0, ge=0, lt=2**63, description="of samples")
    candidates: int = Field(50, ge=1, description="of minimum-risk decoding: translations to choose from")
    candidates_from: Candidates = Field("samples", description="of minimum-risk decoding: samples, or a beam")

    @property
    def options(self) -> SearchOptions:
        return SearchOptions(**{field.name: getattr(self, field.name) for field in fields(SearchOptions)})


class PairRequest(Asked):
    sources: list[str] | None = Field(None, description="one sentence each; none: targets stand alone")
    targets: list[str] = Field(description="one sentence each")
    allow_unknown: bool = Field(False, description="accept characters that the model has never seen")

    @model_validator(mode="after")
    def _check(self) -> PairRequest:
        if self.sources is not None and len(self.sources) != len(self.targets):
            raise ValueError(f"{len(self.sources):,} sources and {len(self.targets):,} targets")
        return self

    @property
    def pairs(self) -> list[tuple[str | None, str]]:
        if self.sources is None:
            return [(None, target) for target in self.targets]
        return list(zip(self.sources, self.targets, strict=True))


class ScoreRequest(PairRequest):
    sources: list[str] = Field(description="one sentence each")
    best_path: bool = Field(False, description="of the best segmentation instead of all")


class SegmentRequest(PairRequest):
    method: Literal["viterbi", "posterior"] = "viterbi"
    threshold: float | None = Field(None, ge=0, le=1, description="with posterior: cut where it is at least this")
    n_best: int = Field(1, ge=1, description="the n best segmentations")
    posteriors: bool = Field(False, description="also the probability of a cut after each character")

    @model_validator(mode="after")
    def _check_method(self) -> SegmentRequest:
        if self.method == "posterior" and self.n_best > 1:
            raise ValueError("n_best goes with viterbi: the posterior gives one segmentation")
        if self.method == "viterbi" and self.threshold is not None:
            raise ValueError("threshold goes with posterior: the most probable path has none")
        return self


class SplitRequest(Asked):
    texts: list[str]


Pairs = TypeVar("Pairs", bound=PairRequest)


class Results(BaseModel):
    """A record for each input, as the command line writes it with its option for JSON."""

    model: str
    results: list[dict[str, Any]]


class Model(BaseModel):
    model: str
    source: str
    source_name: str
    target: str
    target_name: str
    kind: str
    searches: list[str]


def _asked_model(service: Service, asked: Asked) -> ServedModel:
    if asked.model is None:
        if len(service.models) > 1:
            raise Refusal(400, f"Say which model: {', '.join(service.models)}")
        return next(iter(service.models.values()))
    if asked.model not in service.models:
        near = did_you_mean(asked.model, service.models)
        raise Refusal(400, f"There is no such model{near}; there is {', '.join(service.models)}")
    return service.models[asked.model]


class _Exchange:
    """One request: its caller, its model, and the way to its worker."""

    def __init__(self, request: Request, service: Service, asked: Asked, authorization: str | None) -> None:
        scheme, _, key = (authorization or "").partition(" ")
        self.request, self.service = request, service
        self.ends = time.monotonic() + service.limits.deadline
        self.caller = caller_of(request, key.strip() if scheme.lower() == "bearer" else None)
        self.model = _asked_model(service, asked)

    def admit(self, texts: list[str], at_least: int = 0) -> None:
        """Texts, each of which counts as so many characters at the least."""
        self.service.limits.check_texts(texts)
        self.spent = sum(max(len(text), at_least) for text in texts)
        self.service.accounts.spend(self.caller, self.spent)

    async def perform(self, operation: Operation, inputs: list[Input]) -> list[Any]:
        """Within the time that a request has, of which it may perform several."""
        left = max(0.0, self.ends - time.monotonic())
        try:
            return await while_connected(self.request, self.service.perform(self.model, operation, inputs, left))
        except Refusal as refusal:
            if refusal.status == BUSY:
                self.service.accounts.give_back(self.caller, self.spent)
            raise

    def as_read(self, asked: Pairs) -> Pairs:
        """With the targets as the model reads them, which its answers are about, character by character."""
        blanks = with_single_blanks if self.model.translator.config.text.single_blanks else str
        return asked.model_copy(update={"targets": [blanks(normalise(target)) for target in asked.targets]})

    async def on_pairs(self, operation: Operation, asked: PairRequest, empty_targets: bool = False) -> list[Any]:
        """The results of pairs that have content, none for the others."""
        pairs = list(enumerate(asked.pairs))
        inputs = {
            row: Input(source or "", target)
            for row, (source, target) in pairs
            if has_content(source, target, empty_targets)
        }
        try:
            results = await self.perform(operation, list(inputs.values()))
        except InputRefusal as refusal:  # counts those with content
            raise InputRefusal(refusal.kind, list(inputs)[refusal.place], refusal.problem) from None
        found = dict(zip(inputs, results, strict=True))
        return [found.get(row) for row, _ in pairs]

    def answer(self, records: list[Record]) -> Response:
        return JSONResponse({"model": self.model.name, "results": records})


@router.get("/models", response_model=list[Model])
async def models(service: ServiceOf) -> Response:
    """The models that are served."""
    return JSONResponse(
        [
            {
                "model": name,
                "source": model.source,
                "source_name": name_of(model.source),
                "target": model.target,
                "target_name": name_of(model.target),
                "kind": model.translator.config.model,
                "searches": list(model.translator.kind.searches),
            }
            for name, model in service.models.items()
        ]
    )


@router.post("/split", response_model=Results)
async def split(
    request: Request, service: ServiceOf, asked: SplitRequest, authorization: Authorization = None
) -> Response:
    """Cut texts into sentences and the white space before each and after the last."""
    exchange = _Exchange(request, service, asked, authorization)
    service.limits.check_texts(asked.texts)
    parts = [split_sentences(normalise(text), exchange.model.longest_source) for text in asked.texts]
    return exchange.answer([{"sentences": one.sentences, "gaps": one.gaps} for one in parts])


@router.post("/translate", response_model=Results)
async def translate(
    request: Request, service: ServiceOf, asked: TranslateRequest, authorization: Authorization = None
) -> Response:
    """Translate sentences: `ssmt translate`."""
    exchange = _Exchange(request, service, asked, authorization)
    prefixes = asked.prefixes if asked.prefixes is not None else [""] * len(asked.sources)
    if len(prefixes) != len(asked.sources):
        raise Refusal(400, f"{len(asked.sources):,} sources and {len(prefixes):,} prefixes")
    limits, kind = service.limits, exchange.model.translator.kind
    if max(asked.beam, asked.n_best) > limits.hypotheses:
        raise Refusal(400, f"beam and n_best can be {limits.hypotheses} at most")
    if asked.candidates > limits.candidates:
        raise Refusal(400, f"candidates can be {limits.candidates} at most")
    if max(asked.min_length, asked.max_length or 0) > limits.output:
        raise Refusal(400, f"min_length and max_length can be {limits.output:,} at most")
    if max(map(len, prefixes), default=0) > limits.output:
        raise Refusal(400, f"a prefix can have {limits.output:,} characters at most")
    try:
        options = kind.search(asked.search).completed(asked.options)
    except UserError as error:
        raise Refusal(400, str(error)) from None
    exchange.admit([*asked.sources, *prefixes], asked.min_length)
    score_type = exchange.model.translator.score_type(options.search)
    inputs = [Input(*pair) for pair in zip(asked.sources, prefixes, strict=True)]
    ranked = await exchange.perform(Translate(options, asked.segments), inputs)
    return exchange.answer(
        [
            translation_record(source, few, score_type, asked.n_best)
            for source, few in zip(asked.sources, ranked, strict=True)
        ]
    )


@router.post("/score", response_model=Results)
async def score(
    request: Request, service: ServiceOf, asked: ScoreRequest, authorization: Authorization = None
) -> Response:
    """The natural logarithm of the probability of each target given its source: `ssmt score`."""
    exchange = _Exchange(request, service, asked, authorization)
    exchange.admit([*asked.sources, *asked.targets])
    scores = await exchange.on_pairs(Score(asked.best_path, asked.allow_unknown), asked, empty_targets=True)
    score_type = exchange.model.translator.score_type(best_path=asked.best_path)
    return exchange.answer(
        [
            score_record(source, target, value, score_type)
            for source, target, value in zip(asked.sources, asked.targets, scores, strict=True)
        ]
    )


@router.post("/segment", response_model=Results)
async def segment(
    request: Request, service: ServiceOf, asked: SegmentRequest, authorization: Authorization = None
) -> Response:
    """Cut targets into segments: `ssmt segment`."""
    exchange = _Exchange(request, service, asked, authorization)
    if asked.n_best > service.limits.hypotheses:
        raise Refusal(400, f"n_best can be {service.limits.hypotheses} at most")
    asked = exchange.as_read(asked)
    exchange.admit([*(asked.sources or []), *asked.targets])
    threshold = 0.5 if asked.threshold is None else asked.threshold
    operation = Segment(asked.method, threshold, asked.n_best, asked.allow_unknown)
    found = await exchange.on_pairs(operation, asked)
    score_type = exchange.model.translator.segmenter.score_type
    records = [
        segmentation_record(target, candidates, score_type, asked.n_best)
        if candidates
        else empty_segmentation_record(target, score_type)
        for target, candidates in zip(asked.targets, found, strict=True)
    ]
    if asked.posteriors:
        rows = await exchange.on_pairs(Posteriors(asked.allow_unknown), asked)
        for record, row in zip(records, rows, strict=True):
            record["posteriors"] = posteriors_record(row or [])
    if asked.sources is not None:
        records = [{"source": source, **record} for source, record in zip(asked.sources, records, strict=True)]
    return exchange.answer(records)


@router.post("/posteriors", response_model=Results)
async def posteriors(
    request: Request, service: ServiceOf, asked: PairRequest, authorization: Authorization = None
) -> Response:
    """The probability of a cut after each character of each target: `ssmt segment` with its option for them."""
    exchange = _Exchange(request, service, asked, authorization)
    asked = exchange.as_read(asked)
    exchange.admit([*(asked.sources or []), *asked.targets])
    rows = await exchange.on_pairs(Posteriors(asked.allow_unknown), asked)
    return exchange.answer(
        [
            {"translation": target, "posteriors": posteriors_record(row or [])}
            for target, row in zip(asked.targets, rows, strict=True)
        ]
    )
