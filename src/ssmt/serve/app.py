"""The application: all interfaces, the page, the descriptions, and the boundary that every request passes."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ssmt.errors import UserError
from ssmt.serve import deepl, libretranslate, v1
from ssmt.serve.limits import Refusal
from ssmt.serve.service import Service
from ssmt.serve.web import explained, refused
from ssmt.version import __version__

log = logging.getLogger("ssmt.serve")

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
POLICY = f"{_NOTHING_ELSE}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


def create_app(service: Service, cors: Sequence[str] = (), log_requests: bool = False) -> FastAPI:
    """The application of a service. `cors`: origins whose pages may use it. With `log_requests`, a line for each
    request: its path and status, and nothing of its text."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with service.running():
            yield

    app = FastAPI(
        title="ssmt",
        version=__version__,
        summary="Subword Segmental Machine Translation: translate, segment and score.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for interface in (v1, libretranslate, deepl):
        app.include_router(interface.router)
    _add_pages(app)
    _add_answers_to_errors(app)
    app.add_middleware(Boundary, service=service, log_requests=log_requests)
    if cors:  # around it, so that a page can read its refusals too
        app.add_middleware(CORSMiddleware, allow_origins=list(cors), allow_methods=["GET", "POST"], allow_headers=["*"])

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return app


def _add_answers_to_errors(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def on_refusal(request: Request, refusal: Refusal) -> Response:
        return refused(request, refusal)

    @app.exception_handler(UserError)
    async def on_mistake(request: Request, error: UserError) -> Response:
        return refused(request, Refusal(400, str(error)))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> Response:
        return refused(request, Refusal(422, explained(error.errors())))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        answer = refused(request, Refusal(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer


def _add_pages(app: FastAPI) -> None:
    """The page, and one that shows the description of the interfaces. All of it comes from here."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}

    def add(path: str, content: bytes, media_type: str) -> None:
        @app.get(path, include_in_schema=False)
        async def file() -> Response:
            return Response(content, media_type=media_type, headers=headers)

    for file in resources.files("ssmt.serve").joinpath("page").iterdir():
        path = {"index.html": "/", "docs.html": "/docs"}.get(file.name, f"/page/{file.name}")
        if media_type := TYPES.get(Path(file.name).suffix):
            add(path, file.read_bytes(), media_type)


class Boundary:
    """What every request passes: its body is bounded, its answer is counted, and what goes wrong in
    the program is an answer too. The log has nothing of any text, so it has no messages of exceptions either."""

    def __init__(self, app: ASGIApp, service: Service, log_requests: bool) -> None:
        self.app, self.service, self.log_requests = app, service, log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            try:
                body = await self._body(receive)
                if body is None:
                    return
                await self.app(scope, _replaying(body, receive), answer)
            except Refusal as refusal:
                await refused(Request(scope), refusal)(scope, receive, answer)
            except Exception as error:
                self.service.metrics.errors.inc()
                where = "".join(traceback.format_tb(error.__traceback__))
                log.error("%s while answering %s\n%s", type(error).__name__, scope["path"], where)
                if not status:
                    await refused(Request(scope), Refusal(500, "An error of the service"))(scope, receive, answer)
        finally:
            route = scope.get("route")
            path, seconds = getattr(route, "path", "other"), time.monotonic() - began
            if status:
                self.service.metrics.requests.labels(path, status).inc()
                self.service.metrics.seconds.labels(path).observe(seconds)
            if self.log_requests:
                log.info("%s %s %s %.0f ms", scope["method"], path, status or "gone", 1000 * seconds)

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; none if the client goes away before. (That it comes in time is the connection's business.)"""
        most, body = self.service.limits.request_bytes, bytearray()
        while (message := await receive())["type"] == "http.request":
            body.extend(message.get("body", b""))
            if len(body) > most:
                raise Refusal(413, f"A request can have {most:,} bytes")
            if not message.get("more_body"):
                return bytes(body)
        return None


def _replaying(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and then whatever comes: that the client has gone."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
