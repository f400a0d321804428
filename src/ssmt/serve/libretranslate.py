"""LibreTranslate's interface, as its clients use it (https://docs.libretranslate.com)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from ssmt.serve.languages import name_of
from ssmt.serve.web import (
    Error,
    JSONResponse,
    ServiceOf,
    caller_of,
    fields_of,
    request_schema,
    validated,
    while_connected,
)

AUTO = "auto"
_ERRORS: dict[int | str, dict[str, Any]] = {status: {"model": Error} for status in (400, 403, 413, 429, 500, 503)}
router = APIRouter(tags=["LibreTranslate"], responses=_ERRORS)


class TranslateRequest(BaseModel):
    q: str | list[str] = Field(description="one text, or several")
    source: str = Field(description="the code of its language, or `auto`")
    target: str = Field(description="the code of the language to translate into")
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, description="how many other translations to give")
    api_key: str | None = None


class DetectRequest(BaseModel):
    q: Annotated[
        str,
        BeforeValidator(
            lambda q: "\n".join(q) if isinstance(q, list) and all(isinstance(one, str) for one in q) else q
        ),
    ]
    api_key: str | None = None


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class Detection(BaseModel):
    confidence: float
    language: str


class Translated(BaseModel):
    translatedText: str | list[str]  # noqa: N815 (its name there)
    detectedLanguage: Detection | list[Detection] | None = None  # noqa: N815
    alternatives: list[Any] | None = None


@router.post("/translate", response_model=Translated, openapi_extra=request_schema(TranslateRequest))
async def translate(request: Request, service: ServiceOf) -> Response:
    """Translate a text, or each of several."""
    asked = validated(TranslateRequest, await fields_of(request))
    caller = caller_of(request, asked.api_key)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    characters = service.limits.check_texts(texts, too_large=400)
    detected: list[dict[str, Any]] = []
    sources = [asked.source] * len(texts)
    if asked.source == AUTO:
        likely = service.detect_each(texts, asked.target, asked.format)
        sources = [code for code, _ in likely]
        detected = [{"confidence": round(100 * share, 1), "language": code} for code, share in likely]
    models = [service.model_for(source, asked.target) for source in sources]
    how: dict[str, Any] = {"form": asked.format, "alternatives": asked.alternatives}
    how["at_newlines"] = asked.format == "text"  # lines of HTML end anywhere
    with service.accounts.spending(caller, characters):
        ranked = await while_connected(request, service.translate_each(models, texts, **how))
    several = isinstance(asked.q, list)
    answer: dict[str, Any] = {"translatedText": [few[0] for few in ranked] if several else ranked[0][0]}
    if detected:
        answer["detectedLanguage"] = detected if several else detected[0]
    if asked.alternatives:
        others = [few[1 : asked.alternatives + 1] for few in ranked]
        answer["alternatives"] = others if several else others[0]
    return JSONResponse(answer)


@router.get("/languages", response_model=list[Language])
async def languages(service: ServiceOf) -> Response:
    """The languages that are served, and what each can be translated into."""
    return JSONResponse(
        [{"code": code, "name": name_of(code), "targets": targets} for code, targets in service.languages().items()]
    )


@router.post("/detect", response_model=list[Detection], openapi_extra=request_schema(DetectRequest))
async def detect(request: Request, service: ServiceOf) -> Response:
    """How well a text fits each source language that is served; no other language is ever named."""
    asked = validated(DetectRequest, await fields_of(request))
    caller_of(request, asked.api_key)
    service.limits.check_texts([asked.q], too_large=400)
    return JSONResponse(
        [{"confidence": round(100 * share, 1), "language": code} for code, share in service.detect([asked.q])]
    )


@router.get("/health")
async def health() -> Response:
    """Whether the service answers."""
    return JSONResponse({"status": "ok"})


@router.get("/frontend/settings")
async def frontend_settings(service: ServiceOf) -> Response:
    """What a page needs to know."""
    first = next(iter(service.models.values()))
    return JSONResponse(
        {
            "apiKeys": service.keys is not None,
            "keyRequired": service.keys is not None,
            "charLimit": service.limits.request_characters,
            "frontendTimeout": 500,
            "filesTranslation": False,
            "suggestions": False,
            "supportedFilesFormat": [],
            "language": {
                "source": {"code": first.source, "name": name_of(first.source)},
                "target": {"code": first.target, "name": name_of(first.target)},
            },
        }
    )
