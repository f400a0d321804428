"""What all interfaces share of HTTP: reading a body, knowing the caller, answering, and noticing that nobody waits."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ssmt.files import as_json, parse_json
from ssmt.serve.limits import Refusal
from ssmt.serve.service import Service

Result = TypeVar("Result")
Body = TypeVar("Body", bound=BaseModel)
CHARSETS = (b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1", b"latin-1")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class JSONResponse(Response):
    """JSON that every program can read."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return as_json(content).encode("utf-8", "replace")


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


ServiceOf = Annotated[Service, Depends(service_of)]


async def fields_of(request: Request) -> dict[str, Any]:
    """The fields of a JSON object or of a form; what a form has several times is a list. No body has no fields."""
    kind, parameters = parse_options_header(request.headers.get("content-type", ""))
    if kind.decode("latin-1") in FORMS:
        is_multipart = kind == b"multipart/form-data"
        if is_multipart and parameters.get(b"charset", b"utf-8").lower() not in CHARSETS:
            raise Refusal(400, "The form cannot be read: send it as UTF-8")  # some would take quadratic time
        try:
            async with request.form(max_files=0, max_fields=2 * service_of(request).limits.request_texts) as form:
                pairs = form.multi_items()
        except HTTPException as error:
            raise Refusal(400, f"The form cannot be read: {error.detail}") from None
        except (ValueError, UnicodeError):
            raise Refusal(400, "The form cannot be read") from None
        if any(isinstance(value, UploadFile) for _, value in pairs):
            raise Refusal(400, "Files are not translated")
        values: dict[str, list[Any]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        return {name: few[0] if len(few) == 1 else few for name, few in values.items()}
    content = await request.body()
    if not content:
        return {}
    try:
        fields = parse_json(content.decode("utf-8"))
    except ValueError as error:
        what = (
            f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "not UTF-8, or too deep"
        )
        raise Refusal(400, f"The body is not JSON ({what})") from None
    if not isinstance(fields, dict):
        raise Refusal(400, "The body is not a JSON object")
    return fields


def validated(kind: type[Body], fields: dict[str, Any], status: int = 400) -> Body:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise Refusal(status, explained(error.errors(include_input=False, include_url=False))) from None


def explained(problems: Any) -> str:
    """What is wrong with the fields of a request, without anything of what they say."""
    said = []
    for problem in problems:
        where = ".".join(str(part) for part in problem["loc"] if part != "body")
        what = problem["msg"].removeprefix("Value error, ")
        said.append(f"{where}: {what}" if where else what)
    return "; ".join(dict.fromkeys(said))


def request_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """For the description of an interface whose bodies are JSON or forms."""
    schema = kind.model_json_schema()
    return {
        "requestBody": {
            "required": True,
            "content": {form: {"schema": schema} for form in ("application/json", *FORMS)},
        }
    }


def caller_of(request: Request, secret: str | None) -> str:
    return service_of(request).caller(secret, request.client.host if request.client else "unknown")


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of some work, which is given up when the client goes away."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refusal(499, "The client has gone")
        return await task
    finally:
        for one in (task, watch):
            one.cancel()


def refused(request: Request, refusal: Refusal) -> Response:
    """A refusal as the interface says it that was asked: DeepL's has a message, the others an error."""
    name = "message" if request.url.path.startswith("/v2/") else "error"
    headers = {} if refusal.retry_after is None else {"Retry-After": str(math.ceil(refusal.retry_after))}
    return JSONResponse({name: refusal.message}, refusal.status, headers)


class Error(BaseModel):
    error: str


class Message(BaseModel):
    message: str
