"""`ssmt report`: runs as one page that a person would like to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssmt.cli.results import BeamOption, SamplesOption, SearchOption, named
from ssmt.cli.shared import DeviceOption, ThreadsOption, app, load_translator, naming_lines, reporter
from ssmt.errors import UserError
from ssmt.files import name_of, require_file
from ssmt.text.lines import read_lines, read_parallel, require_equal_lengths

if TYPE_CHECKING:
    from ssmt.evaluation.composition import Subset
    from ssmt.evaluation.gold import Cuts, Gold
    from ssmt.evaluation.model_output import Floats
    from ssmt.evaluation.report import Page
    from ssmt.translator import Translator

VALIDATION_SENTENCES = 100  # of a run's validation text, where no test set is given


@dataclass(frozen=True)
class TestSet:
    """Sentences to translate and to compare with; `title` says on the page what they are."""

    title: str
    source: str
    sources: list[str]
    targets: list[str]


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Directories of training runs, or of models.")],
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
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="Sentences shown as examples.")] = 6,
    title: Annotated[str | None, typer.Option(help="The page's title.", show_default="the runs' names")] = None,
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
    from ssmt.evaluation import plots
    from ssmt.evaluation.gold import read_gold
    from ssmt.evaluation.report import Page

    plots.require()
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{output}: the page's name ends in .html")
    names = _names(runs)
    if reference is not None:
        require_file(reference)
    test = _test_set(runs, source, reference, sentences)
    hypotheses = named(hypothesis, "--hypothesis")
    if taken := {"source", "reference"} & {*names, *hypotheses}:
        raise UserError(f"No run or system can be called {min(taken)!r}: the page calls the test set's own text so")
    if (hypotheses or compositional is not None) and reference is None:
        raise UserError("--hypothesis and --compositional need the test set they belong to: --source F --reference F")
    wanted = None if gold is None else read_gold(gold)
    systems = {name: read_lines(path) for name, path in hypotheses.items()}
    for name, path in hypotheses.items():
        if name in names:
            raise UserError(f"--hypothesis {name}=...: a run is called {name!r} already")
        assert reference is not None
        require_equal_lengths(reference, len(read_lines(reference)), path, len(systems[name]))
    subsets = {} if compositional is None or test is None else _subsets(compositional, test)
    translators = {
        name: load_translator(run, device, threads)
        for name, run in names.items()
        if (run / "model.safetensors").exists()
    }

    page = Page(title or " · ".join(names), _about(names, test, wanted))
    _show_runs(page, names, translators)
    if test is not None and test.sources and (translators or systems):
        given = {name: lines[: len(test.sources)] for name, lines in systems.items()}
        systems = _translate(translators, test, search, beam) | given
        _show_translations(page, test, systems, samples, examples, (search, beam) if translators else None)
    if translators and (examples or wanted is not None):
        _show_segmentations(page, translators, wanted, test, examples, gold, list(names))
    if subsets:
        _show_divergence(page, subsets, systems, test, [*names, *hypotheses])
    files = page.write(output)
    reporter.say(f"Written: {output}, and {len(files) - 1} plots in {output.stem}_plots")
    if wanted is None and compositional is None:
        reporter.say("More can be shown with --gold F.tsv and --compositional DIR")


def _names(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by the last part of their paths, or by the whole of them where that is not enough."""
    for run in runs:
        if not (run / "config.json").is_file() and not (run / "log.jsonl").is_file():
            raise UserError(f"{run}: is no training run and no model (it has neither log.jsonl nor config.json)")
    short = {run.resolve().name: run for run in runs}
    return short if len(short) == len(runs) else {str(run): run for run in runs}


def _test_set(runs: Sequence[Path], source: str | None, reference: str | None, most: int | None) -> TestSet | None:
    """The given test set, or the beginning of the first validation text that is found."""
    if (source is None) != (reference is None):
        raise UserError("--source and --reference belong together: the text to translate and its translation")
    if source is not None and reference is not None:
        sources, targets = read_parallel(source, reference)
        part = "" if most is None or most >= len(sources) else f"the first {most:,} of "
        return TestSet(
            f"{part}{len(sources):,} sentences of {Path(source).name}", source, sources[:most], targets[:most]
        )
    for run in runs:
        paths = [run / "data" / "valid" / f"{side}.txt" for side in ("source", "target")]
        if all(path.is_file() for path in paths):
            sources, targets = read_parallel(*paths)
            most = min(VALIDATION_SENTENCES if most is None else most, len(sources))
            title = f"the first {most:,} sentences of the validation text"
            return TestSet(title, str(paths[0]), sources[:most], targets[:most])
    return None


def _about(names: Mapping[str, Path], test: TestSet | None, gold: Gold | None) -> str:
    parts = [f"{len(names)} {'run' if len(names) == 1 else 'runs'}"]
    parts += [f"translation of {test.title}"] if test is not None and test.sources else []
    parts += [f"morphemes of {Path(gold.name).name}"] if gold is not None else []
    return "; ".join(parts) + "."


def _show_runs(page: Page, names: Mapping[str, Path], translators: Mapping[str, Translator]) -> None:
    from ssmt.evaluation.report import learning_curves, runs_table
    from ssmt.training.log import read_log

    logs = {name: read_log(run) if (run / "log.jsonl").exists() else [] for name, run in names.items()}
    with page.section("Training"):
        page.table(runs_table(logs, {name: _settings(one) for name, one in translators.items()}))
        if figures := learning_curves({name: log for name, log in logs.items() if log}):
            page.plots(figures)


def _settings(translator: Translator) -> dict[str, Any]:
    network, lexicon = translator.config.network, getattr(translator.vocabulary, "lexicon", None)
    parameters = sum(parameter.numel() for parameter in translator.model.parameters())
    return {
        "Model": translator.config.model,
        "Parameters": f"{parameters / 1e6:.1f} M",
        "Layers": f"{network.encoder_layers}+{network.decoder_layers}",
        "Width": network.width,
        "Lexicon": f"{len(lexicon):,}" if lexicon is not None and network.lexicon else "none",
    }


def _translate(
    translators: Mapping[str, Translator], test: TestSet, search: str | None, beam: int
) -> dict[str, list[str]]:
    from ssmt.evaluation.model_output import translate_lines

    found = {}
    with naming_lines({"source": test.source}):
        for name, translator in translators.items():
            title = f"translating with {name}"
            translations = translate_lines(
                translator, test.sources, search=search, beam=beam, reporter=reporter, title=title
            )
            found[name] = [one.text for one in translations]
    return found


def _show_translations(
    page: Page,
    test: TestSet,
    systems: Mapping[str, Sequence[str]],
    samples: int,
    examples: int,
    decoding: tuple[str | None, int] | None,
) -> None:
    from ssmt.evaluation.examples import evenly_spaced
    from ssmt.evaluation.translation import as_table, evaluate_translations

    scores = evaluate_translations(systems, test.targets, samples=samples)
    how = ""
    if decoding is not None:
        how = f" Models decode by {decoding[0] or 'their own'} search with beam {decoding[1]}."
    with page.section("Translation", f"{test.title[0].upper()}{test.title[1:]}.{how}"):
        page.table(as_table(scores, intervals=len(systems) <= 6 and samples > 0))
        with page.columns():
            for row in evenly_spaced(test.targets, examples):
                own = {name: lines[row] for name, lines in systems.items()}
                page.translations(test.sources[row], {"reference": test.targets[row], **own})


def _show_segmentations(
    page: Page,
    translators: Mapping[str, Translator],
    gold: Gold | None,
    test: TestSet | None,
    examples: int,
    file: str | None,
    order: Sequence[str],
) -> None:
    from ssmt.evaluation import morphology, plots
    from ssmt.evaluation.examples import evenly_spaced
    from ssmt.evaluation.gold import Gold, gold_line
    from ssmt.evaluation.model_output import gold_cuts, gold_posteriors
    from ssmt.evaluation.report import Plot

    if gold is None:
        if test is None:
            return
        rows = evenly_spaced(test.targets, examples)
        lines = tuple(gold_line(test.targets[row], None, number=row + 1, source=test.sources[row]) for row in rows)
        shown = Gold(test.title, "sentences", lines)
    else:
        shown = gold
    named = file or (test.source if test is not None else "")
    with naming_lines({"source": named, "target": named}):
        cuts = {name: gold_cuts(one, shown) for name, one in translators.items()}
        posteriors = {name: gold_posteriors(one, shown) for name, one in translators.items()}
    if examples:
        _show_examples(page, shown, cuts, posteriors, examples, has_gold=gold is not None)
    if gold is None:
        return
    scores = {name: morphology.evaluate_segmentation(gold, found) for name, found in cuts.items()}
    curves = {name: morphology.precision_recall_curve(gold, found) for name, found in posteriors.items()}
    points = {name: (s.boundary_micro.precision.value, s.boundary_micro.recall.value) for name, s in scores.items()}
    context = "in sentences, given their source" if gold.context == "sentences" else "one by one"
    with page.section(
        "Morphemes", f"{next(iter(scores.values())).words:,} words of {Path(gold.name).name}, segmented {context}."
    ):
        figure = plots.precision_recall(curves, points, order=order)
        caption = "Along a curve the posterior threshold falls. Filled: the most probable segmentation."
        boundaries, identified = (
            morphology.as_table(scores, measure, decimals=1) for measure in ("boundary", "identification")
        )
        page.plots(
            [Plot("precision-recall", figure, "Precision and recall of boundaries", caption)],
            beside=[replace(boundaries, notes=()), identified],
        )


def _show_examples(
    page: Page,
    shown: Gold,
    cuts: Mapping[str, Sequence[Cuts]],
    posteriors: Mapping[str, Sequence[Floats]],
    examples: int,
    *,
    has_gold: bool,
) -> None:
    from ssmt.evaluation.examples import Hues, SegmentedText, evenly_spaced, example_html

    legend = (
        "Every segment has a colour of its own, the same wherever it occurs. A bar between two letters is as high as "
        "the posterior probability of a cut there."
    )
    with page.section("Segmentation", legend):
        if has_gold:
            page.html(
                '<p class="key"><span><b style="background:var(--right)"></b>cut where the gold has one</span>'
                '<span><b style="background:var(--wrong)"></b>cut where it has none</span>'
                "<span>below each word: its gold morphemes</span></p>"
            )
        hues = Hues()
        with page.columns(narrow=shown.context == "words"):
            for row in evenly_spaced(shown.texts, examples):
                segmented = [
                    SegmentedText(name, shown.texts[row], cuts[name][row], posteriors[name][row].tolist())
                    for name in cuts
                ]
                line = shown.lines[row]
                right = line.cuts if has_gold else None
                page.html(example_html(line.source, segmented, right, hues, name_systems=len(cuts) > 1))


def _subsets(directory: Path, test: TestSet) -> dict[str, Subset]:
    """The subsets in a directory, which must have been taken from this test set."""
    from ssmt.evaluation.composition import read_subset

    files = sorted(directory.glob("divergence-*.json"))
    if not files:
        raise UserError(f"{directory}: holds no divergence-*.json, which `ssmt compositional` writes")
    subsets = {}
    for file in files:
        subset = read_subset(file)
        text = file.with_suffix(".target")
        lines = read_lines(text)
        if max(subset.chosen) > len(test.targets) or lines != [test.targets[n - 1] for n in subset.line_numbers]:
            raise UserError(
                f"{name_of(text)}: its lines are not those of the test set at {file.stem}.lines. Give the --source and "
                f"--reference that `ssmt compositional` chose from, and no --sentences"
            )
        subsets[file.stem] = subset
    return dict(sorted(subsets.items(), key=lambda item: item[1].target_divergence))


def _show_divergence(
    page: Page,
    subsets: Mapping[str, Subset],
    systems: Mapping[str, Sequence[str]],
    test: TestSet | None,
    order: Sequence[str],
) -> None:
    from ssmt.evaluation import plots
    from ssmt.evaluation.report import Plot
    from ssmt.evaluation.translation import evaluate_translations

    assert test is not None
    chrf: dict[str, dict[str, float]] = {}
    for subset in subsets.values():
        rows = [number - 1 for number in subset.line_numbers]
        chosen = {name: [lines[row] for row in rows] for name, lines in systems.items()}
        found = evaluate_translations(chosen, [test.targets[row] for row in rows], metrics=["chrF"], samples=0)
        title = f"divergence {subset.target_divergence:g}\nreached: {subset.compound_divergence:.2f}"
        chrf[title] = {name: found[name, "chrF"].score for name in systems}
    figures = [
        Plot("divergence-chrf", plots.bars(chrf, "chrF", order=order), "chrF on easier and harder subsets"),
        Plot(
            "divergence-growth",
            plots.growth(subsets.values()),
            "Divergence while the subsets grow",
            "Words (compounds, alpha 0.1) and morphemes (atoms, alpha 0.5), compared with the training text.",
        ),
    ]
    text = "Subsets of the test set with new words made of known morphemes: the higher the divergence, the newer."
    with page.section("Compositional generalisation", text):
        page.plots(figures)
