"""The command line: each verb is one thin function. Only here is anything printed, and only here do errors of users
become exit status 2. Torch is imported inside the verbs, so that help and bad options answer at once."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from ssmt.cli import (  # noqa: F401 (registers the verbs)
    backtranslate,
    clean,
    compositional,
    demo,
    doctor,
    evaluate,
    interop,
    report,
    serve,
    sweep,
    train,
    translate,
)
from ssmt.cli.shared import app, reporter
from ssmt.errors import EndedElsewhere, UserError
from ssmt.files import reason
from ssmt.progress import print_wrapped
from ssmt.streams import give_up_unwritable_streams, replace_closed_streams
from ssmt.version import __version__

LONGEST_MESSAGE = 4000  # characters


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"ssmt {__version__}")
        raise typer.Exit


def say_error(message: str) -> None:
    """In red, and without the middle of what quotes a whole file."""
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} [...] {message[-LONGEST_MESSAGE // 2 :]}"
    print_wrapped(reporter.console, f"error: {message}", "red")


def main() -> NoReturn:
    """Ctrl-C and a reader who goes away (`| head`) are typer's business: status 130 and 1, without a traceback."""
    replace_closed_streams()
    try:
        app(standalone_mode=True)
    except EndedElsewhere as end:
        sys.exit(end.status)
    except UserError as error:
        say_error(str(error))
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say_error(f"{where}{reason(error)}")
        sys.exit(2)
    finally:
        give_up_unwritable_streams()
    sys.exit(0)
