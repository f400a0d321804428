"""`ssmt serve` and `ssmt api-key`: models that people and programs can reach."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.shared import DeviceOption, ThreadsOption, Verb, app, reporter, set_threads
from ssmt.config import MANY
from ssmt.errors import UserError


@app.command(cls=Verb)
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Model directories; en-zu=DIR, or pt-BR:zu=DIR, says or chooses the languages.",
            show_default=False,
        ),
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0 takes a free one.")] = 5000,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="F", help="Only callers with a key of this file (ssmt api-key writes it).", show_default=False
        ),
    ] = None,
    max_characters: Annotated[
        int, typer.Option(min=1, max=MANY, metavar="N", help="Most characters of a request.")
    ] = 20_000,
    characters_per_minute: Annotated[
        int | None,
        typer.Option(
            min=1, max=MANY, metavar="N", help="Of a key or, without keys, of an address.", show_default="any number"
        ),
    ] = None,
    max_queue: Annotated[
        int, typer.Option(min=1, max=MANY, metavar="N", help="Sentences that may wait for a model; beyond them, 503.")
    ] = 1_000,
    deadline: Annotated[
        float, typer.Option(min=0.1, max=86400, metavar="SECONDS", help="Time to answer a request; beyond it, 503.")
    ] = 30.0,
    window: Annotated[
        float, typer.Option(min=0, max=1000, metavar="MS", help="How long a sentence waits for others to go with.")
    ] = 5.0,
    batch_characters: Annotated[
        int, typer.Option(min=1, max=MANY, metavar="N", help="Source characters of a batch, from all requests.")
    ] = 2_000,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Pages from here may use it too; can be given many times.", show_default="none"
        ),
    ] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="A line for each request: path, status, time; no text.")
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: faster on CPU, scores a little different.")
    ] = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Serve models over HTTP: a page, LibreTranslate's and DeepL's interfaces, and our own.

    Only this machine can reach it unless --host says otherwise. Ctrl-C and SIGTERM end it when the requests under way
    are answered. http://127.0.0.1:5000 is the page, /docs describes the interfaces, /metrics is for Prometheus.
    """
    require_extra()
    from ssmt.serve import server
    from ssmt.serve.app import create_app
    from ssmt.serve.keys import Keys
    from ssmt.serve.limits import Limits
    from ssmt.serve.service import load_service
    from ssmt.serve.worker import Batching

    set_threads(threads)
    limits = Limits(
        request_characters=max_characters,
        characters_per_minute=characters_per_minute,
        queue=max_queue,
        deadline=deadline,
    )
    keys = None if api_keys is None else Keys(api_keys)
    listener = server.listen(host, port)  # before models are loaded, which takes longer
    service = load_service(models, limits, keys, Batching(window / 1000, batch_characters), device, int8)
    if log_requests:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if keys is None and not server.is_loopback(host):
        reporter.warn(f"everybody who can reach {host} can use the service; --api-keys asks for keys")
    names = ", ".join(service.models)
    where = server.address_of(listener)
    server.run(
        create_app(service, cors or (), log_requests),
        listener,
        limits,
        lambda: reporter.say(f"Serving {names} at {where} (Ctrl-C ends)"),
    )
    reporter.say("Ended")


@app.command("api-key", cls=Verb)
def api_key(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file of keys; a new line is added.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will use the key.", show_default=False)],
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, metavar="N", help="Days that it holds.", show_default="for ever")
    ] = None,
) -> None:
    """Make a key for `ssmt serve --api-keys FILE` and print it.

    The file has only its hash: who loses the key needs a new one. Removing the line revokes it, also while serving.
    """
    from ssmt.serve.keys import add_key, today

    typer.echo(add_key(file, name, None if days is None else today() + timedelta(days=days)))


def require_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"Serving needs the extra packages of: pip install 'ssmt[serve]' ({error.name} is missing)"
        ) from None
