"""The server: one process that listens, until a signal ends it when what is under way is done."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ssmt.errors import UserError
from ssmt.files import reason
from ssmt.serve.limits import Limits

KEEP_ALIVE = 30  # seconds that a connection may be idle
GRACE = 5  # seconds beyond the deadline of requests until the end comes in any case


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        raise UserError(f"{host}, port {port}: cannot listen there ({reason(error)})") from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def configuration(app: FastAPI, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol(limits.receive),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(limits.deadline) + GRACE,
        forwarded_allow_ips=["127.0.0.1", "::1"],
    )


def run(app: FastAPI, listener: socket.socket, limits: Limits, on_start: Callable[[], None] = lambda: None) -> None:
    """Serve until Ctrl-C or SIGTERM: no new request is taken then, and those under way are answered."""
    server = _Server(configuration(app, limits), on_start)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    # Uvicorn has handlers of its own while it serves, and afterwards sends itself the signal that ended it: then,
    # and before it serves, these hold, so that the end that was asked for is no failure.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_start()


def protocol(seconds: float) -> type[asyncio.Protocol]:
    """HTTP over connections that are closed if a request has not arrived so many seconds after its first byte, or
    after the connection was made: whoever opens many and says little cannot keep them."""

    class Bounded(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(seconds, self.transport.close)

        def handle_events(self) -> None:
            """After each packet, and after each answer: the next request may have come in part with the last one."""
            super().handle_events()
            state = self.conn.their_state
            is_receiving = state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))
            if not is_receiving:
                self._cancel()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _cancel(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Bounded
