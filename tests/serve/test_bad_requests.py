"""Whatever comes, the answer is a result or a refusal: requests made up from the description, fuzzed bodies, slow and
half-open connections, clients that go away."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
import urllib.request
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ssmt.serve.app import create_app
from ssmt.serve.limits import Limits
from ssmt.serve.service import Service
from ssmt.translator import Translator
from tests.serve.conftest import Running

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
CASES, TOGETHER = 1_000, 50


def test_requests_made_up_from_the_description(running: Running) -> None:
    """By schemathesis, for every operation: none is answered by 500, and refusals say why in JSON."""
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:

        @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            response = case.call()
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            if response.status_code >= 400:
                name = "message" if case.path.startswith("/v2/") else "error"
                assert isinstance(response.json()[name], str)

        ask()


# Fuzzed bodies

VALID: list[tuple[str, dict[str, Any]]] = [
    ("/translate", {"q": "I see.", "source": "auto", "target": "zu", "format": "html", "alternatives": 1}),
    ("/detect", {"q": "I see."}),
    ("/v2/translate", {"text": ["I see."], "target_lang": "ZU", "tag_handling": "xml", "ignore_tags": ["x"]}),
    ("/v1/translate", {"sources": ["I see."], "prefixes": ["ni"], "n_best": 2, "max_length": 9, "model": "en-zu"}),
    ("/v1/segment", {"sources": ["I."], "targets": ["ni."], "method": "viterbi", "n_best": 2, "posteriors": True}),
    ("/v1/score", {"sources": ["I."], "targets": ["ni."], "best_path": True}),
    ("/v1/posteriors", {"targets": ["ni."], "allow_unknown": False}),
    ("/v1/split", {"texts": ["One. Two."]}),
]
STRANGE: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        1e308,
        "",
        "\0",
        "\ud800",
        "\U0001f600",
        "a\nb",
        "<p",
        "&#x110000;",
        "&lt",
        "auto",
    ),
    *([], [[]], [None], {}, {"a": {"b": []}}, ["a", "b", "c"], "NaN", "en", "ZU", "zu\u0301", " " * 50, "ａ", "Ω"),
]
TYPES = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain",
    "",
    "é",
]


def fuzzed(rng: random.Random) -> tuple[str, bytes, str]:
    path, body = rng.choice(VALID)
    body = dict(body)
    for _ in range(rng.randint(0, 2)):
        body[rng.choice([*body, "other", "api_key", "search", "beam", "threshold"])] = rng.choice(STRANGE)
    if rng.random() < 0.2:
        body.pop(rng.choice(list(body)))
    content = json.dumps(body, ensure_ascii=rng.random() < 0.7).encode("utf-8", "surrogatepass")
    kind = rng.choices(TYPES, [8, 2, 1, 1, 1, 1])[0]
    if kind == TYPES[1]:
        content = "&".join(f"{key}={value}" for key, value in body.items()).encode("utf-8", "replace")
    if kind == TYPES[2]:
        content = b"".join(
            f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode("utf-8", "replace")
            for key, value in body.items()
        )
        content += rng.choice([b"--x--\r\n", b""])
    for _ in range(rng.choice([0, 0, 1, 3])):
        place = rng.randrange(len(content) + 1)
        content = (
            content[:place] + rng.choice([b"", b"\xff", b"\x00", b"%", b'"', b"[" * 2000, b"}"]) + content[place + 1 :]
        )
    return path, content, kind


async def status_of(app: Any, path: str, content: bytes, kind: str) -> tuple[int, bytes]:
    """The answer to a request, without a client in between that would mend it."""
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1)},
        **{"headers": [(b"content-type", kind.encode())] if kind else [], "server": ("127.0.0.1", 80)},
    }
    given = [{"type": "http.request", "body": content, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_fuzzed_bodies_are_answered(translator: Translator) -> None:
    service = Service([("en", "zu", translator)])
    app, rng = create_app(service), random.Random(0)
    counts: dict[int, int] = {}

    async def answered(path: str, content: bytes, kind: str) -> None:
        status, answer = await asyncio.wait_for(status_of(app, path, content, kind), 60)
        assert status in (200, 400, 404, 413, 422), (status, path, content, kind)
        json.loads(answer)
        counts[status] = counts.get(status, 0) + 1

    async def scenario() -> None:
        for _ in range(CASES // TOGETHER):
            await asyncio.gather(*(answered(*fuzzed(rng)) for _ in range(TOGETHER)))

    with service.running():
        asyncio.run(scenario())
    assert min(counts[200], counts[400], counts[422]) > CASES // 20, counts


def test_a_form_in_a_slow_encoding_is_refused(translator: Translator) -> None:
    """Python takes quadratic time for some."""
    app = create_app(Service([("en", "zu", translator)]))
    form = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nI see.\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x; charset={}"
    status, answer = asyncio.run(status_of(app, "/detect", form, kind.format("punycode")))
    assert (status, json.loads(answer)) == (400, {"error": "The form cannot be read: send it as UTF-8"})
    assert asyncio.run(status_of(app, "/detect", form, kind.format("UTF-8")))[0] == 200


# Connections


def is_healthy(running: Running) -> bool:
    with urllib.request.urlopen(f"{running.url}/health", timeout=20) as answer:
        return bool(answer.status == 200)


def reached(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def is_cut_off(connection: socket.socket) -> bool:
    """Whether the other side no longer takes a byte."""
    try:
        connection.sendall(b"G")
    except OSError:
        return True
    return False


def test_slow_and_half_open_connections_are_closed(translator: Translator) -> None:
    service = Service([("en", "zu", translator)], Limits(receive=0.5))
    beginnings = [
        b"",
        b"POST /translate HT",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Le",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ]
    beginnings += [b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + beginning for beginning in beginnings[1:]]
    with Running(service) as running:
        connections = [socket.create_connection(("127.0.0.1", running.port), 20) for _ in range(40)]
        for number, connection in enumerate(connections):
            connection.sendall(beginnings[number % len(beginnings)])
        assert is_healthy(running)
        for connection in connections:
            while connection.recv(1000):
                pass  # an answer to a whole request may come; then the end
            connection.close()
        with socket.create_connection(("127.0.0.1", running.port), 20) as slow:  # a byte now and then is not enough
            reached(lambda: is_cut_off(slow))
        assert is_healthy(running)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x00",
        b"GET\r\n\r\n",
        b"A" * 70_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(running: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.port), 20) as connection:
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert is_healthy(running)


def test_a_client_that_goes_away_leaves_the_queue(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, computed = threading.Event(), []
    translate = translator.n_best_translations

    def gated(sources: Any, *arguments: Any, **others: Any) -> Any:
        computed.extend(sources)
        gate.wait(30)
        return translate(sources, *arguments, **others)

    monkeypatch.setattr(translator, "n_best_translations", gated)
    service = Service([("en", "zu", translator)])
    worker = service.models["en-zu"].worker

    def ask(text: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", running.port), 20)
        body = json.dumps({"q": text, "source": "en", "target": "zu"}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        return connection

    with Running(service) as running:
        stays = ask("I see a bird.")
        reached(lambda: computed)
        gone = ask("We call 2 cows.")
        reached(lambda: worker.waiting() == 1)
        gone.close()
        reached(lambda: worker.waiting() == 0)
        gate.set()
        assert stays.recv(1000).startswith(b"HTTP/1.1 200")
        stays.close()
    assert computed == ["I see a bird."]
