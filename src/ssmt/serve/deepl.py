"""DeepL's interface, as its clients use it (https://developers.deepl.com/docs)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from ssmt.serve.languages import name_of
from ssmt.serve.limits import Refusal
from ssmt.serve.web import (
    JSONResponse,
    Message,
    ServiceOf,
    caller_of,
    fields_of,
    request_schema,
    validated,
    while_connected,
)

NO_LIMIT = 1_000_000_000_000  # characters: what DeepL says of accounts without one
_ERRORS: dict[int | str, dict[str, Any]] = {status: {"model": Message} for status in (400, 403, 413, 429, 500, 503)}
router = APIRouter(prefix="/v2", tags=["DeepL"], responses=_ERRORS)

Authorization = Annotated[str | None, Header(description="DeepL-Auth-Key, and the key")]


def _as_list(value: Any) -> Any:
    """Forms have a field once or often, and lists between commas."""
    return value.split(",") if isinstance(value, str) else value


class TranslateRequest(BaseModel):
    text: Annotated[list[str], BeforeValidator(lambda text: [text] if isinstance(text, str) else text)]
    target_lang: str
    source_lang: str | None = None
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] | None = Field(
        None, description="0: nowhere, 1: at marks and line breaks, nonewlines: at marks (as usual in HTML)"
    )
    tag_handling: Literal["xml", "html"] | None = None
    ignore_tags: Annotated[list[str], BeforeValidator(_as_list)] = []
    formality: Literal["default", "prefer_more", "prefer_less", "more", "less"] = "default"
    glossary_id: str | None = None
    auth_key: str | None = None


class TranslatedText(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int


class Translated(BaseModel):
    translations: list[TranslatedText]


class Language(BaseModel):
    language: str
    name: str
    supports_formality: bool | None = None


class Usage(BaseModel):
    character_count: int
    character_limit: int


def _key(authorization: str | None, field: str | None = None) -> str | None:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "deepl-auth-key" else field


@router.post("/translate", response_model=Translated, openapi_extra=request_schema(TranslateRequest))
async def translate(request: Request, service: ServiceOf, authorization: Authorization = None) -> Response:
    """Translate each of several texts."""
    asked = validated(TranslateRequest, await fields_of(request))
    caller = caller_of(request, _key(authorization, asked.auth_key))
    characters = service.limits.check_texts(asked.text)
    if asked.formality in ("more", "less"):
        raise Refusal(400, "'formality' is not supported for given 'target_lang'")
    if asked.glossary_id is not None:
        raise Refusal(404, "There are no glossaries")
    form = asked.tag_handling or "text"
    sources = [asked.source_lang] * len(asked.text)
    if not asked.source_lang:
        sources = [code for code, _ in service.detect_each(asked.text, asked.target_lang, form)]
    models = [service.model_for(source or "", asked.target_lang) for source in sources]
    usual = "nonewlines" if asked.tag_handling == "html" else "1"  # lines of HTML end anywhere
    split = str(usual if asked.split_sentences is None else asked.split_sentences)
    how = {"form": form, "at_marks": split != "0", "at_newlines": split == "1", "ignored": asked.ignore_tags}
    with service.accounts.spending(caller, characters):
        ranked = await while_connected(request, service.translate_each(models, asked.text, **how))
    return JSONResponse(
        {
            "translations": [
                {"detected_source_language": model.source.upper(), "text": few[0], "billed_characters": len(text)}
                for model, text, few in zip(models, asked.text, ranked, strict=True)
            ]
        }
    )


@router.get("/languages", response_model=list[Language])
async def languages(
    request: Request,
    service: ServiceOf,
    type: str | None = None,
    authorization: Authorization = None,
) -> Response:
    """The source languages that are served, or the target languages."""
    caller_of(request, _key(authorization))
    asked = type or (await fields_of(request)).get("type", "source")  # the official client has it in the body
    if asked not in ("source", "target"):
        raise Refusal(400, "type can be source or target")
    codes = service.targets if asked == "target" else service.sources
    formality = {"supports_formality": False} if asked == "target" else {}
    return JSONResponse([{"language": code.upper(), "name": name_of(code), **formality} for code in codes])


@router.get("/usage", response_model=Usage)
async def usage(request: Request, service: ServiceOf, authorization: Authorization = None) -> Response:
    """The characters that the caller has sent since the service began. There is a limit a minute, none in all."""
    caller = caller_of(request, _key(authorization))
    return JSONResponse({"character_count": service.accounts.of(caller).characters, "character_limit": NO_LIMIT})


@router.get("/glossary-language-pairs")
async def glossary_languages() -> Response:
    """None: clients ask before they translate."""
    return JSONResponse({"supported_languages": []})


@router.get("/glossaries")
async def glossaries() -> Response:
    """None."""
    return JSONResponse({"glossaries": []})
