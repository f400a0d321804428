"""`ssmt evaluate` and `ssmt morphology`: how good translations are, and how close segments are to morphemes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.results import (
    BeamOption,
    JsonOption,
    LatexOption,
    ManyValues,
    MarkdownOption,
    ModelsOption,
    OutputOption,
    PlotOption,
    SamplesOption,
    SearchOption,
    chosen_format,
    named,
    require_plot,
    write_plot,
    write_results,
)
from ssmt.cli.shared import DeviceOption, ThreadsOption, ToOption, app, reporter, set_threads
from ssmt.errors import UserError
from ssmt.files import STANDARD_STREAM
from ssmt.outputs import require_other_file, require_place


@app.command(cls=ManyValues)
def evaluate(
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="F", help="Reference translations, in one file or several.", show_default=False),
    ] = None,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]F", help="A system's translations, one a line.", show_default=False),
    ] = None,
    model: ModelsOption = None,
    source: Annotated[str | None, typer.Option(metavar="F", help="Source text, for --model to translate.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="F", help="Or sources and references in one file, which can have several languages: TSV, JSON, TMX."
        ),
    ] = None,
    to: ToOption = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whom the others are tested against.", show_default="the first")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="BLEU, chrF, chrF++, TER.", show_default="all")
    ] = None,
    samples: SamplesOption = 1000,
    intervals: Annotated[bool, typer.Option("--intervals", help="Show 95% intervals of the scores.")] = False,
    subset: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="F.lines",
            help="Score only these line numbers, one table a file; or a directory of `ssmt compositional`.",
            show_default=False,
        ),
    ] = None,
    search: SearchOption = None,
    beam: BeamOption = 5,
    save_translations: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what each --model translated, as DIR/NAME.txt.")
    ] = None,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    output: OutputOption = STANDARD_STREAM,
    plot: PlotOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """BLEU, chrF, chrF++ and TER of any systems' translations, by sacrebleu (the paper's Table 3).

    With several systems each is tested against the baseline by paired bootstrap resampling. The best of a column is
    underlined, what is not significantly worse (p >= 0.05) is bold. With --subset the paper's Figure 3.
    """
    from ssmt.evaluation.systems import evaluate_systems
    from ssmt.evaluation.translation import METRICS

    form = chosen_format(json_, markdown, latex, output)
    require_plot(plot)
    hypotheses, models = named(hypothesis, "--hypothesis"), named(model, "--model")
    if not hypotheses and not models:
        raise UserError("Nothing to evaluate: give --hypothesis NAME=FILE or --model NAME=DIR")
    require_place(output)
    if not reference and pairs is None:
        raise UserError("Nothing to evaluate against: give --reference FILE or --pairs FILE")
    if to is not None and not models and pairs is None:
        raise UserError("--to needs --model or --pairs: files of translations are scored as they are")
    require_other_file(output, *(reference or []), pairs, *hypotheses.values(), source, *(subset or []))
    set_threads(threads)
    spelt = {name.lower(): name for name in METRICS}
    evaluation = evaluate_systems(
        reference or [],
        hypotheses=hypotheses,
        models=models,
        source=source,
        pairs=pairs,
        to=to,
        subsets=subset or [],
        metrics=[spelt.get(name.lower(), name) for name in metric or METRICS],
        baseline=baseline,
        samples=samples,
        search=search,
        beam=beam,
        translations=save_translations,
        device=device,
        reporter=reporter,
    )
    write_results(evaluation.tables(intervals=intervals), evaluation.record(), form, output)
    if plot is not None:
        write_plot(evaluation.figure(), plot)


@app.command(cls=ManyValues)
def morphology(
    gold: Annotated[
        str,
        typer.Option(
            metavar="F.tsv", help="Words and morphemes (2 columns), or source, target, target with | (3 columns)."
        ),
    ],
    model: ModelsOption = None,
    segmented: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]F", help="A system's segmentation of the gold text.", show_default=False),
    ] = None,
    separator: Annotated[
        str, typer.Option(metavar="TEXT", help="What marks a cut in --segmented files; ▁ reads sentencepiece's pieces.")
    ] = "|",
    tune_on: Annotated[
        str | None,
        typer.Option(metavar="F.tsv", help="Choose the posterior threshold with the best F1 here, apply it to --gold."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="P", help="Also cut wherever the posterior is at least this.")
    ] = None,
    to: ToOption = None,
    no_source: Annotated[
        bool, typer.Option("--no-source", help="Do not condition on the source, though the gold file has one.")
    ] = False,
    samples: SamplesOption = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap samples.")] = 0,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    output: OutputOption = STANDARD_STREAM,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Precision and recall over the posterior threshold: F.png, F.svg or F.pdf."),
    ] = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """How close segments are to morphemes: boundaries (the paper's Table 5) and whole morphemes (Table 6).

    A model is measured by its most probable segmentation, and with --threshold or --tune-on also by its boundary
    posteriors. Micro averages over cuts (the paper's numbers), macro over words; 95% intervals are in brackets.
    """
    from ssmt.evaluation.systems import compare_segmentations

    form = chosen_format(json_, markdown, latex, output)
    require_plot(plot)
    models, files = named(model, "--model"), named(segmented, "--segmented")
    if not models and not files:
        raise UserError("Nothing to measure: give --model DIR or --segmented NAME=FILE")
    if not models and (tune_on is not None or threshold is not None):
        raise UserError("--tune-on and --threshold need --model: only a model has boundary posteriors")
    if not models and to is not None:
        raise UserError("--to needs --model: only a model has languages to choose from")
    require_place(output)
    require_other_file(output, gold, *files.values(), tune_on)
    set_threads(threads)
    comparison = compare_segmentations(
        gold,
        segmented=files,
        models=models,
        separator=separator,
        threshold=threshold,
        tune_on=tune_on,
        curves=plot is not None or form == "json",
        conditioned=not no_source,
        to=to,
        samples=samples,
        seed=seed,
        device=device,
        reporter=reporter,
    )
    write_results(comparison.tables(), comparison.record(), form, output)
    if plot is not None:
        write_plot(comparison.figure(), plot)
