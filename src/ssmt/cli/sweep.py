"""`ssmt sweep decode` and `ssmt sweep train`: one table and one plot of many beams or many settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssmt.cli.results import (
    BeamOption,
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
    app,
    exit_status,
    load_translator,
    naming_lines,
    reporter,
    set_threads,
    warn_of_settings_without_effect,
)
from ssmt.config import Preset, compose
from ssmt.errors import UserError
from ssmt.search.table import SEARCHES
from ssmt.text.lines import read_lines, require_equal_lengths

if TYPE_CHECKING:
    from ssmt.evaluation.sweep import SweepDirectory
    from ssmt.translator import Translator


sweep = typer.Typer(
    help="Decode in many ways, or train over a grid of settings: one table and one plot. A stopped sweep goes on where "
    "it was when its command is repeated.",
    no_args_is_help=True,
)
app.add_typer(sweep, name="sweep")

DirectoryOption = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The sweep's directory; one that is there is gone on with."),
]
ALL_BEAMS = (1, 3, 5, 7, 10)  # the paper's


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
            metavar=f"[{'|'.join(search.name for search in SEARCHES.values() if search.has_beam)}]",
            help="Searches to compare.",
            show_default="all of the model",
        ),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N.", show_default="all")
    ] = None,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate with several beams and searches (the paper's Table 7).

    DIR gets table.md, table.tex, results.json, plot.svg and plot.png; points of earlier calls stay in them.
    """
    from ssmt.evaluation import plots
    from ssmt.evaluation import sweep as sweeps

    form = chosen_format(json_, markdown, latex)
    plots.require()
    models = named(model, "--model")
    sources, references = _texts(source, reference, sentences)
    directory = sweeps.SweepDirectory(
        output,
        {
            "kind": "decoding",
            "sentences": len(sources),
            "source": sweeps.digest(source),
            "reference": [sweeps.digest(path) for path in reference],
        },
    )
    with _going_on(), naming_lines({"source": source}):
        for name, path in models.items():
            named_searches: list[str] = search or _searches_of(path)
            ways: list[tuple[str, int]] = [(how, size) for how in named_searches for size in beam or ALL_BEAMS]
            _decode_model(directory, name, path, sources, references, ways, threads, device)
    records = directory.results()
    table = sweeps.decoding_table(records, len(sources))
    directory.write(table, sweeps.decoding_plot(records), records)
    write_results([table], {"points": records}, form)


def _decode_model(
    directory: SweepDirectory,
    name: str,
    path: Path,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    ways: Sequence[tuple[str, int]],
    threads: int | None,
    device: str,
) -> None:
    """All points of one model; it is loaded only if one of them is left to do."""
    from ssmt.directory import WEIGHTS
    from ssmt.evaluation import sweep as sweeps

    weights = sweeps.digest(path / WEIGHTS)
    if any(done["model"] == name and done["weights"] != weights for done in directory.results()):
        raise UserError(
            f"{directory.path}: has results of another model called {name!r}. Give this one another NAME=DIR"
        )
    translator: Translator | None = None
    for search, beam in ways:
        point = f"{name}.{search}.beam-{beam}"
        if directory.result(point) is not None:
            continue
        translator = translator or load_translator(path, device, threads)
        found, seconds = directory.decode(point, weights, sources, _translate(translator, search, beam), reporter)
        record = {"model": name, "search": search, "beam": beam, "weights": weights, "seconds": seconds}
        directory.finish(point, record | sweeps.scores(found, references))


def _searches_of(model: Path) -> list[str]:
    """Those that a beam makes a difference to."""
    from ssmt.directory import load_config
    from ssmt.registry import kind_of

    return [search for search in kind_of(load_config(model)).searches if SEARCHES[search].has_beam]


def _translate(translator: Translator, search: str | None, beam: int) -> Any:
    return lambda block: [few[0].text for few in translator.n_best_translations(block, beam=beam, search=search)]


def _texts(source: str, reference: Sequence[str], sentences: int | None) -> tuple[list[str], list[list[str]]]:
    sources, references = read_lines(source), [read_lines(path) for path in reference]
    for path, lines in zip(reference, references, strict=True):
        require_equal_lengths(source, len(sources), path, len(lines))
    if not sources:
        raise UserError(f"{source}: is empty, there is nothing to translate")
    return sources[:sentences], [lines[:sentences] for lines in references]


@contextmanager
def _going_on() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        reporter.say("Stopped; everything is saved. Repeat the command to go on")
        raise


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
    preset: Annotated[Preset, typer.Option(help="Settings to start from.")] = "base",
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
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a model for every combination of settings and score it on the validation text (the paper's Figure 4).

    For example --grid network.encoder_layers+network.decoder_layers=2,4,6 text.lexicon_size=1000,5000. DIR gets
    table.md, table.tex, results.json, plot.svg and plot.png, and each run in runs/.
    """
    from ssmt.directory import WEIGHTS
    from ssmt.evaluation import plots
    from ssmt.evaluation import sweep as sweeps
    from ssmt.text.corpus import PairReader
    from ssmt.text.preparation import TrainingFiles
    from ssmt.training import run as runs

    form = chosen_format(json_, markdown, latex)
    plots.require()
    set_threads(threads)
    limits = {"max_updates": max_updates, "max_epochs": max_epochs, "max_minutes": max_minutes}
    base = compose(
        preset, config, [*(set_ or []), *(f"training.{key}={n}" for key, n in limits.items() if n is not None)]
    )
    points = list(sweeps.grid([sweeps.parse_axis(text) for text in grid], base))
    files = TrainingFiles(source, target, valid_source, valid_target)
    pairs = list(PairReader(valid_source, valid_target, base.text))[:sentences]  # those that training validates on
    sources, references = [source for _, source, _ in pairs], [[target for _, _, target in pairs]]
    identity = {
        "kind": "training",
        "files": [sweeps.digest(path) for path in (source, target, valid_source, valid_target)],
        "settings": base.model_dump(),
        "decoding": [search, beam, len(sources)],
    }
    directory = sweeps.SweepDirectory(output, identity)
    failed = {}
    with _going_on():
        for number, (name, values, settings) in enumerate(points, start=1):
            if directory.result(name) is not None:
                continue
            reporter.say(f"Point {number} of {len(points)}: {name}")
            run = output / "runs" / name
            if not runs.can_resume(run):
                warn_of_settings_without_effect(preset, settings)
                runs.begin(files, run, settings, reporter)
            try:
                record = _train_point(run, values, device)
            except UserError as error:  # a run that diverges must not take the others with it
                failed[name] = str(error)
                reporter.warn(f"{name}: {error}")
                continue
            translate = _translate(load_translator(run, device, threads), search, beam)
            found, seconds = directory.decode(name, sweeps.digest(run / WEIGHTS), sources, translate, reporter)
            directory.finish(name, record | {"seconds": seconds} | sweeps.scores(found, references))
    records = directory.results()
    if records:
        table = sweeps.training_table(records, len(sources))
        directory.write(table, sweeps.training_plot(records), records)
        write_results([table], {"points": records}, form)
    if failed:
        raise UserError(
            f"{len(failed)} of {len(points)} points failed: {', '.join(failed)}. Repeating tries them again"
        )


def _train_point(run: Path, values: dict[str, str], device: str) -> dict[str, Any]:
    """Train one point until its end, from wherever it is; its numbers."""
    from ssmt.devices import choose_device
    from ssmt.directory import load_description
    from ssmt.evaluation.sweep import training_record
    from ssmt.registry import build
    from ssmt.training import run as runs
    from ssmt.training.log import read_log

    if stopped_by := runs.train(run, choose_device(device), reporter):
        reporter.say("Stopped; everything is saved. Repeat the command to go on")
        raise typer.Exit(exit_status(stopped_by))
    parameters = sum(parameter.numel() for parameter in build(*load_description(run)).parameters())
    return training_record(values, read_log(run), parameters)
