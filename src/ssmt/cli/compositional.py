"""`ssmt compositional`: test subsets that ask for new words made of known morphemes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.results import (
    JsonOption,
    LatexOption,
    ManyValues,
    MarkdownOption,
    PlotOption,
    chosen_format,
    require_plot,
    write_plot,
    write_results,
)
from ssmt.cli.shared import DeviceOption, ThreadsOption, ToOption, app, reporter, set_threads
from ssmt.errors import UserError


@app.command(cls=ManyValues)
def compositional(
    train: Annotated[str, typer.Option(metavar="F", help="The target side of the training text.")],
    test_source: Annotated[str, typer.Option(metavar="F", help="The test set to choose from, source side.")],
    test_target: Annotated[str, typer.Option(metavar="F", help="The test set to choose from, target side.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the subsets are written.")],
    morphemes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="A list of word TAB morphemes joined by -; or two files, the training and the test text with | "
            "between morphemes.",
            show_default="learnt by Morfessor, an extra",
        ),
    ] = None,
    segmenter: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model directory whose segments are the morphemes.")
    ] = None,
    to: ToOption = None,
    target_divergence: Annotated[
        list[float] | None,
        typer.Option(metavar="D", help="Compound divergences to reach, one subset each.", show_default="0.2 0.3"),
    ] = None,
    size: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Sentences of a subset.")] = 300,
    candidates: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Sentences drawn for each choice.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the draws.")] = 0,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    plot: PlotOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Take subsets from a test set that ask for new words made of known morphemes (the paper's section 6).

    Words are compounds and morphemes are atoms. A subset comes as near to its compound divergence (Chernoff, alpha
    0.1) as it can with the lowest atom divergence (alpha 0.5). `ssmt evaluate --subset DIR` scores systems on them.
    """
    from ssmt.evaluation import composition

    form = chosen_format(json_, markdown, latex)
    require_plot(plot)
    if to is not None and segmenter is None:
        raise UserError("--to needs --segmenter: only a model has languages to choose from")
    set_threads(threads)
    extraction = composition.extract_subsets(
        train,
        test_source,
        test_target,
        output,
        morphemes=morphemes or [],
        segmenter=segmenter,
        to=to,
        target_divergences=target_divergence or composition.DIVERGENCES,
        size=size,
        candidates=candidates,
        seed=seed,
        device=device,
        reporter=reporter,
    )
    write_results([composition.as_table(extraction)], extraction.record(), form)
    if plot is not None:
        from ssmt.evaluation import plots

        write_plot(plots.growth(extraction.subsets), plot)
