"""`ssmt sweep decode` and `ssmt sweep train`: one table and one plot of many beams or many settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssmt.cli.results import (
    BEAM_SEARCHES,
    BeamOption,
    Format,
    JsonOption,
    LatexOption,
    ManyValues,
    MarkdownOption,
    SearchOption,
    chosen_format,
    named,
    write_results,
)
from ssmt.cli.shared import (
    DeviceOption,
    ThreadsOption,
    ToOption,
    TrainingThreadsOption,
    Verbs,
    app,
    beginning_with,
    chosen_preset,
    exit_status,
    reporter,
    set_threads,
)
from ssmt.config import Preset
from ssmt.errors import Stopped, UserError

if TYPE_CHECKING:
    from ssmt.evaluation.sweep import SweepResults


sweep = typer.Typer(
    cls=Verbs,
    help="Decode in many ways, or train over a grid of settings: one table and one plot. A stopped sweep goes on where "
    "it was when its command is repeated.",
    no_args_is_help=True,
)
app.add_typer(sweep, name="sweep")

DirectoryOption = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The sweep's directory; one that is there is gone on with."),
]


@sweep.command(cls=ManyValues)
def decode(
    model: Annotated[list[str], typer.Option(metavar="[NAME=]DIR", help="A model directory; several are compared.")],
    source: Annotated[str, typer.Option(metavar="F", help="The text to translate.")],
    reference: Annotated[list[str], typer.Option(metavar="F", help="Its reference translations.")],
    output: DirectoryOption,
    beam: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Beams to compare.", show_default="1 3 5 7 10")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=beginning_with(BEAM_SEARCHES),
            help=f"Searches to compare: {', '.join(BEAM_SEARCHES)}.",
            show_default="all of the model",
        ),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N.", show_default="all")
    ] = None,
    to: ToOption = None,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate with several beams and searches (the paper's Table 7).

    DIR gets table.md, table.tex, results.json, plot.svg and plot.png; points of earlier calls stay in them.
    """
    from ssmt.evaluation.sweep_decoding import BEAMS, decoding_sweep

    form = chosen_format(json_, markdown, latex)
    set_threads(threads)
    with _going_on():
        results = decoding_sweep(
            named(model, "--model"),
            source,
            reference,
            output,
            beams=beam or BEAMS,
            searches=search or [],
            sentences=sentences,
            to=to,
            device=device,
            reporter=reporter,
        )
    _write(results, form)


@sweep.command(cls=ManyValues)
def train(
    source: Annotated[Path, typer.Option(metavar="F", help="Training text, source side.")],
    target: Annotated[Path, typer.Option(metavar="F", help="Training text, target side.")],
    valid_source: Annotated[Path, typer.Option(metavar="F", help="Validation text, source side.")],
    valid_target: Annotated[Path, typer.Option(metavar="F", help="Validation text, target side.")],
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=V1,V2,..",
            help="A setting and its values; the first is the plot's x axis. KEY+KEY=.. changes two together.",
        ),
    ],
    output: DirectoryOption,
    preset: Annotated[
        Preset | None,
        typer.Option(
            metavar="NAME",
            help="Settings to start from: tiny, small or base.",
            show_default="by device and data; base with --config",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="F.yaml", help="Settings that replace the preset's.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting for all points.")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop each after N updates.")] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop each after N epochs.")] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, metavar="N", help="Stop each after N minutes.")] = None,
    search: SearchOption = None,
    beam: BeamOption = 5,
    sentences: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Score the first N validation sentences.", show_default="all")
    ] = None,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    threads: TrainingThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a model for every combination of settings and score it on the validation text (the paper's Figure 4).

    For example --grid network.encoder_layers+network.decoder_layers=2,4,6 text.lexicon_size=1000,5000. DIR gets
    table.md, table.tex, results.json, plot.svg and plot.png, and each run in runs/.
    """
    from ssmt.devices import choose_device
    from ssmt.evaluation.sweep_training import parse_axis, training_sweep
    from ssmt.text.preparation import TrainingFiles

    form = chosen_format(json_, markdown, latex)
    set_threads(threads)
    limits = {"max_updates": max_updates, "max_epochs": max_epochs, "max_minutes": max_minutes}
    settings = [*(set_ or []), *(f"training.{key}={limit}" for key, limit in limits.items() if limit is not None)]
    files = TrainingFiles(source, target, valid_source, valid_target)
    start = preset or ("base" if config else chosen_preset(choose_device(device), files.data.train))
    with _going_on():
        results = training_sweep(
            files,
            [parse_axis(axis) for axis in grid],
            output,
            preset=start,
            config=config,
            settings=settings,
            search=search,
            beam=beam,
            sentences=sentences,
            device=device,
            reporter=reporter,
        )
    _write(results, form)


@contextmanager
def _going_on() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, Stopped) as stop:
        reporter.say("Stopped; everything is saved. Repeat the command to go on")
        if isinstance(stop, Stopped):
            raise typer.Exit(exit_status(stop.signal)) from None
        raise


def _write(results: SweepResults, form: Format) -> None:
    if results.table is not None:
        write_results([results.table], {"points": results.records}, form)
    if failed := results.failed:
        raise UserError(
            f"{len(failed)} of {results.points} points failed: {', '.join(failed)}. Repeating tries them again"
        )
