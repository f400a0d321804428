"""`ssmt report`: runs as one page that a person would like to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.results import BeamOption, SamplesOption, SearchOption, named
from ssmt.cli.shared import DeviceOption, ThreadsOption, ToOption, Verb, app, reporter, set_threads
from ssmt.errors import UserError
from ssmt.outputs import require_other_file


@app.command(cls=Verb)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Directories of training runs, or of models.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="F.html", help="The page.")] = Path("report.html"),
    source: Annotated[
        str | None,
        typer.Option(metavar="F", help="A test set to translate.", show_default="the first run's validation text"),
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="F", help="Its reference translations.")] = None,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]F", help="Another system's translations of it.", show_default=False),
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Translate the first N; 0: none.", show_default="all, 100 of validation"),
    ] = None,
    gold: Annotated[
        str | None, typer.Option(metavar="F.tsv", help="Gold morphemes: examples, scores, precision and recall.")
    ] = None,
    compositional: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Subsets of the test set, as `ssmt compositional` wrote them.")
    ] = None,
    to: ToOption = None,
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="Sentences shown as examples.")] = 6,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The page's title.", show_default="the runs' names")
    ] = None,
    search: SearchOption = None,
    beam: BeamOption = 5,
    samples: SamplesOption = 1000,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Show runs on one self-contained page, with its plots as SVG and PNG in a folder beside it.

    It has learning curves, translations with scores, segmentations with boundary posteriors, precision and recall
    (with --gold), and divergences (with --compositional). It needs the extra `plots`, and no network to open.
    """
    from ssmt.evaluation.report import runs_report

    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{output}: the page's name ends in .html")
    hypotheses = named(hypothesis, "--hypothesis")
    require_other_file(output, source, reference, *hypotheses.values(), gold)
    set_threads(threads)
    page = runs_report(
        runs,
        source=source,
        reference=reference,
        sentences=sentences,
        hypotheses=hypotheses,
        gold=gold,
        compositional=compositional,
        to=to,
        examples=examples,
        title=title,
        search=search,
        beam=beam,
        samples=samples,
        device=device,
        reporter=reporter,
    )
    page.write(output, reporter)
    if gold is None and compositional is None:
        reporter.say("More can be shown with --gold F.tsv and --compositional DIR")
