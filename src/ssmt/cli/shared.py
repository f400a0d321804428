"""What the verbs share: the application, common options, reading and writing line by line."""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
import typer.core

from ssmt.errors import UserError, renumbered
from ssmt.files import as_json
from ssmt.progress import TerminalReporter, tracked
from ssmt.text.lines import read_lines, read_parallel

if TYPE_CHECKING:
    from ssmt.translator import Translator

VERBS = (
    "demo",
    "train",
    "translate",
    "segment",
    "score",
    "evaluate",
    "morphology",
    "compositional",
    "report",
    "sweep",
    "config",
    "doctor",
)


class Verbs(typer.core.TyperGroup):
    """Lists the verbs in the order in which a person meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: VERBS.index(name) if name in VERBS else len(VERBS))


app = typer.Typer(
    cls=Verbs,
    name="ssmt",
    help="Subword Segmental Machine Translation: one model that learns to translate and where to cut words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reporter = TerminalReporter()

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)]
SourceOption = Annotated[str, typer.Option(metavar="F", help="Source text, one sentence a line; - is standard input.")]
TargetOption = Annotated[str, typer.Option(metavar="F", help="Target text, line i belongs to source line i.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", metavar="F", help="Where to write; - is standard output.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
AllowUnknownOption = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept characters that the model has never seen, as <unk>.")
]
PretokenisedOption = Annotated[
    bool, typer.Option("--pretokenised", help="The source is already split into the model's subwords, by blanks.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda (or cuda:1), mps.")]
BatchOption = Annotated[int, typer.Option(min=1, metavar="N", help="Target characters of a batch.")]

Record = dict[str, Any]  # what is written for one line
BLOCK = 2000  # lines that are read, computed and written together


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        if threads > (most := max(64, 4 * (os.cpu_count() or 1))):
            raise UserError(
                f"--threads {threads}: this machine has {os.cpu_count()} cores; at most {most} can be asked for"
            )
        torch.set_num_threads(threads)


def exit_status(signal: str) -> int:
    """The status of a program that a signal ended, as shells have it."""
    return 128 + signals.Signals[signal].value


def load_translator(
    model: Path, device: str, threads: int | None, pretokenised: bool = False, int8: bool = False
) -> Translator:
    from ssmt.translator import Translator

    set_threads(threads)
    return Translator.load(model, device, pretokenised, int8)


def read_pairs(source: str | None, target: str) -> tuple[list[str] | None, list[str]]:
    if source is None:
        return None, read_lines(target)
    return read_parallel(source, target)


def over_lines(
    sources: Sequence[str] | None,
    targets: Sequence[str],
    of_block: Callable[[list[int]], list[Record]],
    title: str,
    skip_empty_targets: bool = True,
) -> Iterator[tuple[int, Record | None]]:
    """Every line with its record, in order; an empty source (or target) has none and gives an empty line."""

    def has_content(row: int) -> bool:
        if sources is not None and not sources[row].strip():
            return False
        return bool(targets[row].strip()) or not skip_empty_targets

    for first in tracked(reporter, range(0, len(targets), BLOCK), title, -(-len(targets) // BLOCK)):
        block = range(first, min(first + BLOCK, len(targets)))
        rows = [row for row in block if has_content(row)]
        with renumbered([row + 1 for row in rows]):
            records = dict(zip(rows, of_block(rows) if rows else [], strict=True))
        for row in block:
            yield row, records.get(row)


def write_json(stream: TextIO, record: dict[str, Any]) -> None:
    stream.write(as_json(record) + "\n")
