"""`ssmt evaluate` and `ssmt morphology`: how good translations are, and how close segments are to morphemes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ssmt.cli.shared import DeviceOption, ThreadsOption, app, load_translator, naming_lines, reporter
from ssmt.errors import UserError
from ssmt.files import STANDARD_STREAM, name_of, open_for_writing, require_place
from ssmt.text.lines import read_lines, require_equal_lengths


@app.command(cls=ManyValues)
def evaluate(
    reference: Annotated[list[str], typer.Option(metavar="F", help="Reference translations, in one file or several.")],
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]F", help="A system's translations, one a line.", show_default=False),
    ] = None,
    model: ModelsOption = None,
    source: Annotated[str | None, typer.Option(metavar="F", help="Source text, for --model to translate.")] = None,
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
    from ssmt.evaluation import translation

    form = chosen_format(json_, markdown, latex, output)
    require_plot(plot)
    spelt = {name.lower(): name for name in translation.METRICS}
    metrics = [spelt.get(name.lower(), name) for name in metric or translation.METRICS]
    files, models = named(hypothesis, "--hypothesis"), named(model, "--model")
    if both := files.keys() & models.keys():
        raise UserError(f"Two systems are called {min(both)!r}: give each NAME=PATH a name of its own")
    if not files and not models:
        raise UserError("Nothing to evaluate: give --hypothesis NAME=FILE or --model NAME=DIR")
    translation.check_choices([*files, *models], metrics, baseline)
    require_place(output)
    if save_translations is not None:
        if not models:
            raise UserError("--save-translations keeps what --model translates; there is none")
        _make(save_translations)
    systems, references = translation.read_translations(reference, files)
    sources = _sources(source, models, reference[0], len(references[0]))
    subsets = _read_subsets(subset or [], reference[0], len(references[0]))
    wanted = sorted(set().union(*subsets.values())) if subsets else range(len(references[0]))
    for name, directory in models.items():
        translated = _translate(name, directory, sources, source, wanted, (search, beam), threads, device)
        systems[name] = [translated.get(row, "") for row in range(len(references[0]))]
        if save_translations is not None:
            _save(save_translations, name, [translated[row] for row in wanted])

    reports = {}
    for title, rows in subsets.items() if subsets else [("", wanted)]:
        chosen = {name: [lines[row] for row in rows] for name, lines in systems.items()}
        streams = [[lines[row] for row in rows] for lines in references]
        reports[title] = translation.evaluate_translations(
            chosen, streams, metrics=metrics, baseline=baseline, samples=samples
        )
    records = [{"subset": title} | translation.as_dict(report) for title, report in reports.items()]
    found = [translation.as_table(report, intervals=intervals, of_what=title) for title, report in reports.items()]
    write_results(found, {"subsets": records} if subsets else records[0], form, output)
    if plot is not None:
        from ssmt.evaluation import plots

        shown = "chrF" if "chrF" in next(iter(reports.values())).metrics else next(iter(reports.values())).metrics[0]
        values = {
            title or f"{report.sentences:,} sentences": {name: report[name, shown].score for name in report.systems}
            for title, report in reports.items()
        }
        write_plot(plots.bars(values, shown), plot)


def _sources(source: str | None, models: Mapping[str, Path], reference: str, lines: int) -> list[str]:
    if source is None:
        if models:
            raise UserError("--model needs --source F: the text that it shall translate")
        return []
    sources = read_lines(source)
    require_equal_lengths(reference, lines, source, len(sources))
    return sources


def _translate(
    name: str,
    directory: Path,
    sources: Sequence[str],
    source: str | None,
    wanted: Sequence[int],
    how: tuple[str | None, int],
    threads: int | None,
    device: str,
) -> dict[int, str]:
    """The wanted rows' translations by one model."""
    from ssmt.evaluation.model_output import translate_lines
    from ssmt.translator import LineError

    translator = load_translator(directory, device, threads)
    with naming_lines({"source": source}):
        try:
            found = translate_lines(
                translator,
                [sources[row] for row in wanted],
                search=how[0],
                beam=how[1],
                reporter=reporter,
                title=f"translating with {name}",
            )
        except LineError as error:
            raise LineError(error.kind, wanted[error.number - 1] + 1, error.problem) from None
    return {row: one.text for row, one in zip(wanted, found, strict=True)}


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made ({error.strerror})") from None


def _save(directory: Path, name: str, lines: Sequence[str]) -> None:
    with open_for_writing(directory / f"{name}.txt") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _read_subsets(paths: Sequence[Path], reference: str, lines: int) -> dict[str, list[int]]:
    """The rows (from 0) of each file of line numbers, by the file's name."""
    files = []
    for path in paths:
        inside = sorted(path.glob("*.lines")) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"{path}: holds no *.lines, the files of line numbers that `ssmt compositional` writes")
        files += inside
    subsets: dict[str, list[int]] = {}
    for file in files:
        rows = []
        for number, text in enumerate(read_lines(file), start=1):
            if not text.strip().isdecimal() or not 1 <= int(text) <= lines:
                raise UserError(
                    f"{file}, line {number}: {text!r} is no line number of {name_of(reference)}, which has {lines:,}"
                )
            rows.append(int(text) - 1)
        if not rows:
            raise UserError(f"{file}: is empty, there is nothing to evaluate")
        title = file.name.removesuffix(".lines")
        subsets[title if title not in subsets else str(file)] = rows
    return subsets


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
        str, typer.Option(help="What marks a cut in --segmented files; ▁ reads sentencepiece's pieces.")
    ] = "|",
    tune_on: Annotated[
        str | None,
        typer.Option(metavar="F.tsv", help="Choose the posterior threshold with the best F1 here, apply it to --gold."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Also cut wherever the posterior is at least this.")
    ] = None,
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
    from ssmt.evaluation import morphology as measure
    from ssmt.evaluation.gold import read_gold, read_segmented

    form = chosen_format(json_, markdown, latex, output)
    require_plot(plot)
    models, files = named(model, "--model"), named(segmented, "--segmented")
    if both := files.keys() & models.keys():
        raise UserError(f"Two systems are called {min(both)!r}: give each NAME=PATH a name of its own")
    if not models and not files:
        raise UserError("Nothing to measure: give --model DIR or --segmented NAME=FILE")
    if not models and (tune_on is not None or threshold is not None):
        raise UserError("--tune-on and --threshold need --model: only a model has boundary posteriors")
    wanted = read_gold(gold)
    tuning = None if tune_on is None else read_gold(tune_on)
    predicted = {name: read_segmented(path, wanted.texts, separator=separator) for name, path in files.items()}

    curves, record = {}, {}
    for name, directory in models.items():
        from ssmt.evaluation.model_output import gold_cuts, gold_posteriors

        translator = load_translator(directory, device, threads)
        reporter.say(f"Segmenting {len(wanted.lines):,} lines with {name}")
        with naming_lines({"source": gold, "target": gold}):
            predicted[name] = gold_cuts(translator, wanted, conditioned=not no_source)
            if plot is None and tuning is None and threshold is None and form != "json":
                continue
            posteriors = gold_posteriors(translator, wanted, conditioned=not no_source)
        curves[name] = curve = measure.precision_recall_curve(wanted, posteriors)
        thresholds = {} if threshold is None else {f"{name}, posterior >= {threshold:g}": threshold}
        if tuning is not None:
            with naming_lines({"source": tune_on, "target": tune_on}):
                tuned = gold_posteriors(translator, tuning, conditioned=not no_source)
            best = measure.precision_recall_curve(tuning, tuned).best_threshold
            thresholds[f"{name}, posterior >= {best:.3g} (tuned)"] = best
        for title, value in thresholds.items():
            predicted[title] = measure.cuts_above(posteriors, value)
        record[name] = {
            "average_precision": curve.average_precision,
            "best_f1": float(curve.f1[curve.best]),
            "best_threshold": curve.best_threshold if math.isfinite(curve.best_threshold) else None,
            "thresholds": thresholds,
        }

    scores = {
        name: measure.evaluate_segmentation(wanted, cuts, samples=samples, seed=seed)
        for name, cuts in predicted.items()
    }
    found = [
        measure.as_table(scores, kind, average)
        for kind in ("boundary", "identification")
        for average in ("micro", "macro")
    ]
    if tuning is not None:
        tuned_on = (f"Tuned: the threshold with the best F1 of boundaries (micro) on {tuning.name}.",)
        found = [replace(table, notes=table.notes + tuned_on) for table in found]
    write_results(found, {"gold": wanted.name, "systems": measure.as_dict(scores), "posteriors": record}, form, output)
    if plot is not None:
        from ssmt.evaluation import plots

        points = {
            name: (score.boundary_micro.precision.value, score.boundary_micro.recall.value)
            for name, score in scores.items()
        }
        write_plot(plots.precision_recall(curves, points), plot)
