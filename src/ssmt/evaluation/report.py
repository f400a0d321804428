"""What a report of training runs holds: learning curves, translations, segmentations, morphemes, divergences.

page = runs_report(["runs/bpe", "runs/ssmt"], source="test.en", reference="test.zu", gold="gold.tsv")
page.write("report.html")
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssmt.directory import CONFIG, WEIGHTS
from ssmt.errors import UserError
from ssmt.evaluation import morphology, plots, translation
from ssmt.evaluation.composition import Subset, read_subset
from ssmt.evaluation.examples import Hues, SegmentedText, evenly_spaced, example_html
from ssmt.evaluation.gold import Cuts, Gold, gold_line, read_gold
from ssmt.evaluation.model_output import (
    Floats,
    gold_cuts,
    gold_posteriors,
    language_to_ask,
    load_for,
    translate_lines,
)
from ssmt.evaluation.page import Page, Plot
from ssmt.evaluation.tables import Cell, Table
from ssmt.files import name_of, naming_lines, require_file
from ssmt.progress import Reporter
from ssmt.text.corpus import Corpus
from ssmt.text.lines import read_lines, read_parallel, require_equal_lengths
from ssmt.training.log import read_log
from ssmt.translator import Translator

Record = dict[str, Any]  # a line of a run's log
VALIDATION_SENTENCES = 100  # of a run's validation text, where no test set is given


@dataclass(frozen=True)
class TestSet:
    """Sentences to translate and to compare with, their files, and what the page calls them."""

    title: str
    source: str
    reference: str
    sources: list[str]
    targets: list[str]


def runs_report(
    runs: Sequence[str | Path],
    *,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    sentences: int | None = None,
    hypotheses: Mapping[str, str | Path] | None = None,
    gold: str | Path | None = None,
    compositional: str | Path | None = None,
    to: str | None = None,
    examples: int = 6,
    title: str | None = None,
    search: str | None = None,
    beam: int = 5,
    samples: int = 1000,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Page:
    """Show directories of training runs, or of models, as far as they have logs and weights.

    Models translate the first `sentences` of the test set (`source` and `reference`; by default the beginning of the
    first run's validation text; 0: none), beside other systems' translations of it (`hypotheses`, files by name).
    `gold` are morphemes, as a file for `read_gold`; `compositional` is a directory of subsets of the test set, as
    `extract_subsets` writes it. `to` is the language of the test set, for models that have several. `samples` bootstrap
    samples test differences between systems.
    """
    plots.require()
    reporter, hypotheses = reporter or Reporter(), hypotheses or {}
    names = _names([Path(run) for run in runs])
    models = {name: run for name, run in names.items() if (run / WEIGHTS).exists()}
    for run in models.values():
        language_to_ask(run, to)
    test = _test_set(names.values(), source, reference, sentences, to)
    _check_names(names, hypotheses)
    if (hypotheses or compositional is not None) and reference is None:
        raise UserError("Hypotheses and subsets need the test set they belong to: its source and its reference")
    morphemes = None if gold is None else read_gold(gold)
    systems = {name: read_lines(path) for name, path in hypotheses.items()}
    for name, path in hypotheses.items():
        assert reference is not None
        require_equal_lengths(reference, len(read_lines(reference)), path, len(systems[name]))
    subsets = [] if compositional is None or test is None else _subsets(Path(compositional), test)
    translators = {name: load_for(run, to, device) for name, run in models.items()}

    page = Page(title or " · ".join(names), _about(names, test, morphemes))
    _show_runs(page, names, translators)
    if test is not None and test.sources and (translators or systems):
        given = {name: lines[: len(test.sources)] for name, lines in systems.items()}
        systems = _translate(translators, test, search, beam, reporter) | given
        into = f" into {to}" if to else ""
        how = f" Models translate{into} by {search or 'their own'} search with beam {beam}." if translators else ""
        _show_translations(page, test, systems, samples, examples, how)
    if translators and morphemes is not None:
        _show_segmentations(page, translators, morphemes, examples, list(names))
    elif translators and test is not None and examples:
        _show_segmented_examples(page, translators, test, examples)
    if test is not None and subsets:
        _show_divergence(page, subsets, systems, test, [*names, *hypotheses])
    return page


def _names(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by the last part of their paths, or by the whole of them where that is not enough."""
    for run in runs:
        if not (run / CONFIG).is_file() and not (run / "log.jsonl").is_file():
            raise UserError(f"{run}: is no training run and no model (it has neither log.jsonl nor {CONFIG})")
    short = {run.resolve().name: run for run in runs}
    return short if len(short) == len(runs) else {str(run): run for run in runs}


def _check_names(runs: Collection[str], hypotheses: Collection[str]) -> None:
    if taken := {"source", "reference"} & {*runs, *hypotheses}:
        raise UserError(f"No run or system can be called {min(taken)!r}: the page calls the test set's own text so")
    if taken := {*runs} & {*hypotheses}:
        raise UserError(f"A run is called {min(taken)!r} already: give the other system's hypotheses another name")


def _test_set(
    runs: Iterable[Path], source: str | Path | None, reference: str | Path | None, most: int | None, to: str | None
) -> TestSet | None:
    """The given test set, or the beginning of the first validation text that is found, as far as it is in the language
    that is asked for."""
    if (source is None) != (reference is None):
        raise UserError("A source and a reference belong together: the text to translate and its translation")
    if source is not None and reference is not None:
        require_file(reference)
        sources, targets = read_parallel(source, reference)
        part = "" if most is None or most >= len(sources) else f"the first {most:,} of "
        title = f"{part}{len(sources):,} sentences of {Path(source).name}"
        return TestSet(title, str(source), str(reference), sources[:most], targets[:most])
    other_languages: set[str] = set()
    for run in runs:
        paths = [run / "data" / "valid" / f"{side}.txt" for side in ("source", "target")]
        if not all(path.is_file() for path in paths):
            continue
        sources, targets = read_parallel(*paths)
        title = "sentences of the validation text"
        corpus = None if to is None else Corpus(run / "data" / "valid")
        if to is not None and corpus is not None and corpus.languages:
            if to not in corpus.languages:
                other_languages.update(corpus.languages)
                continue
            rows = corpus.only(to).rows
            sources, targets = [sources[row] for row in rows], [targets[row] for row in rows]
            title += f" in {to}"
        most = min(VALIDATION_SENTENCES if most is None else most, len(sources))
        return TestSet(f"the first {most:,} {title}", str(paths[0]), str(paths[1]), sources[:most], targets[:most])
    if other_languages:
        raise UserError(
            f"The runs validate on {', '.join(sorted(other_languages))}, not on {to!r}: give a source and a reference"
        )
    return None


def _subsets(directory: Path, test: TestSet) -> list[Subset]:
    """The subsets in a directory by their divergence; they must have been taken from this test set."""
    files = sorted(directory.glob("divergence-*.json"))
    if not files:
        raise UserError(f"{directory}: holds no divergence-*.json, which `ssmt compositional` writes")
    subsets = []
    for file in files:
        subset = read_subset(file)
        text = file.with_suffix(".target")
        lines = read_lines(text)
        if max(subset.chosen) > len(test.targets) or lines != [test.targets[n - 1] for n in subset.line_numbers]:
            raise UserError(
                f"{name_of(text)}: its lines are not those of the test set at {file.stem}.lines. Give the source and "
                f"the reference that `ssmt compositional` chose from, and all of their sentences"
            )
        subsets.append(subset)
    return sorted(subsets, key=lambda subset: subset.target_divergence)


def _about(names: Mapping[str, Path], test: TestSet | None, gold: Gold | None) -> str:
    parts = [f"{len(names)} {'run' if len(names) == 1 else 'runs'}"]
    parts += [f"translation of {test.title}"] if test is not None and test.sources else []
    parts += [f"morphemes of {Path(gold.name).name}"] if gold is not None else []
    return "; ".join(parts) + "."


def _show_runs(page: Page, names: Mapping[str, Path], translators: Mapping[str, Translator]) -> None:
    logs = {name: read_log(run) if (run / "log.jsonl").exists() else [] for name, run in names.items()}
    with page.section("Training"):
        page.table(runs_table(logs, {name: _settings(translator) for name, translator in translators.items()}))
        if curves := learning_curves({name: log for name, log in logs.items() if log}):
            page.plots(curves)


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


def learning_curves(logs: Mapping[str, Sequence[Record]]) -> list[Plot]:
    """Validation (and training) numbers of each run over updates and over minutes, as far as the logs have them."""
    curves = []
    for key, train_key, label, title in (
        ("valid_bits_per_character", "bits_per_character", "bits per character", "Bits per character"),
        ("valid_chrf", "", "validation chrF", "chrF"),
    ):
        for over, unit in (("update", "updates"), ("minutes", "minutes")):
            validated = {name: _points(log, over, key) for name, log in logs.items()}
            trained = {name: _points(log, over, train_key) for name, log in logs.items()}
            if not any(x for x, _ in validated.values()):
                continue
            figure = plots.learning_curve(
                validated, {name: curve for name, curve in trained.items() if curve[0]}, unit, label
            )
            curves.append(Plot(f"{key.removeprefix('valid_')}-over-{unit}", figure, f"{title} over {unit}"))
    return curves


def _points(log: Sequence[Record], x: str, y: str) -> plots.Points:
    lines = [line for line in log if isinstance(line.get(x), int | float) and isinstance(line.get(y), int | float)]
    return [line[x] for line in lines], [line[y] for line in lines]


def _kept(log: Sequence[Record], metric: str) -> float | None:
    """The validation of the model that a run has kept: one that it has trained, or an average of them."""

    def validated(line: Record, metric: str) -> float | None:
        values = (line.get(f"{whose}_{metric}") for whose in ("valid", "average"))
        return next((value for value in values if isinstance(value, int | float)), None)

    bits = [(value, line) for line in log if (value := validated(line, "bits_per_character")) is not None]
    improved = [line for _, line in bits if line.get("improved")]
    if not bits:
        return None
    return validated(improved[-1] if improved else min(bits, key=lambda measured: measured[0])[1], metric)


def runs_table(logs: Mapping[str, Sequence[Record]], described: Mapping[str, Record]) -> Table:
    """What each run is and how far it came. `described` has the cells of each run's settings by column."""
    columns = list(dict.fromkeys(column for cells in described.values() for column in cells))
    bits_of, chrf_of = (
        {name: _kept(log, metric) for name, log in logs.items()} for metric in ("bits_per_character", "chrf")
    )
    best_bits = min((value for value in bits_of.values() if value is not None), default=None)
    best_chrf = max((value for value in chrf_of.values() if value is not None), default=None)
    rows = []
    compared = len(logs) > 1  # one run alone is no best
    for name, log in logs.items():
        bits, chrf = bits_of[name], chrf_of[name]
        rows.append(
            (
                Cell(name),
                *(Cell(str(described.get(name, {}).get(column, "–"))) for column in columns),
                Cell(f"{max((line['update'] for line in log), default=0):,}" if log else "–"),
                Cell(f"{max((line.get('minutes', 0.0) for line in log), default=0.0):.1f}" if log else "–"),
                Cell("–" if bits is None else f"{bits:.3f}", bold=compared and bits is not None and bits == best_bits),
                Cell("–" if chrf is None else f"{chrf:.1f}", bold=compared and chrf is not None and chrf == best_chrf),
            )
        )
    heads = ("Run", *columns, "Updates", "Minutes", "Bits/char ↓", "chrF")
    return Table(
        heads,
        tuple(rows),
        "",
        ("Bits per character and chrF: on validation, of the model that the run has kept.",),
    )


def _translate(
    translators: Mapping[str, Translator], test: TestSet, search: str | None, beam: int, reporter: Reporter
) -> dict[str, list[str]]:
    systems = {}
    with naming_lines({"source": test.source}):
        for name, translator in translators.items():
            title = f"translating with {name}"
            translations = translate_lines(
                translator, test.sources, search=search, beam=beam, reporter=reporter, title=title
            )
            systems[name] = [best.text for best in translations]
    return systems


def _show_translations(
    page: Page, test: TestSet, systems: Mapping[str, Sequence[str]], samples: int, examples: int, how: str
) -> None:
    scores = translation.evaluate_translations(systems, test.targets, samples=samples)
    with page.section("Translation", f"{test.title[0].upper()}{test.title[1:]}.{how}"):
        page.finding(translation.finding(scores, "chrF"))
        page.table(translation.as_table(scores, intervals=len(systems) <= 6 and samples > 0))
        with page.columns():
            for row in evenly_spaced(test.targets, examples):
                translations = {name: lines[row] for name, lines in systems.items()}
                page.translations(test.sources[row], {"reference": test.targets[row], **translations})


def _show_segmented_examples(page: Page, translators: Mapping[str, Translator], test: TestSet, examples: int) -> None:
    """Of a test set without gold morphemes."""
    rows = evenly_spaced(test.targets, examples)
    lines = tuple(gold_line(test.targets[row], None, number=row + 1, source=test.sources[row]) for row in rows)
    shown = Gold(test.title, "sentences", lines)
    with naming_lines({"source": test.source, "target": test.reference}):
        cuts = {name: gold_cuts(translator, shown) for name, translator in translators.items()}
        posteriors = {name: gold_posteriors(translator, shown) for name, translator in translators.items()}
    _show_examples(page, shown, cuts, posteriors, examples, has_gold=False)


def _show_segmentations(
    page: Page, translators: Mapping[str, Translator], gold: Gold, examples: int, order: Sequence[str]
) -> None:
    with naming_lines({"source": gold.name, "target": gold.name}):
        cuts = {name: gold_cuts(translator, gold) for name, translator in translators.items()}
        posteriors = {name: gold_posteriors(translator, gold) for name, translator in translators.items()}
    if examples:
        _show_examples(page, gold, cuts, posteriors, examples, has_gold=True)
    scores = {name: morphology.evaluate_segmentation(gold, cuts[name]) for name in translators}
    curves = {name: morphology.precision_recall_curve(gold, posteriors[name]) for name in translators}
    points = {name: score.boundary_point for name, score in scores.items()}
    words = next(iter(scores.values())).words
    context = "in sentences, given their source" if gold.context == "sentences" else "one by one"
    with page.section("Morphemes", f"{words:,} words of {Path(gold.name).name}, segmented {context}."):
        page.finding(morphology.finding(scores))
        figure = plots.precision_recall(curves, points, order=order)
        caption = (
            "Along a curve the posterior threshold falls; a model that is always sure has none. Filled: the most "
            "probable segmentation."
        )
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


def _show_divergence(
    page: Page,
    subsets: Sequence[Subset],
    systems: Mapping[str, Sequence[str]],
    test: TestSet,
    order: Sequence[str],
) -> None:
    figures = []
    if systems:
        rows = {
            f"divergence {subset.target_divergence:g}\nreached: {subset.compound_divergence:.2f}": [
                number - 1 for number in subset.line_numbers
            ]
            for subset in subsets
        }
        reports = translation.evaluate_subsets(systems, [test.targets], rows, metrics=["chrF"], samples=0)
        chrf = {label: {name: report[name, "chrF"].score for name in systems} for label, report in reports.items()}
        bars = plots.bars(chrf, "chrF", order=order)
        figures.append(Plot("divergence-chrf", bars, "chrF on easier and harder subsets"))
    caption = "Words (compounds, alpha 0.1) and morphemes (atoms, alpha 0.5), compared with the training text."
    figures.append(Plot("divergence-growth", plots.growth(subsets), "Divergence while the subsets grow", caption))
    text = "Subsets of the test set with new words made of known morphemes: the higher the divergence, the newer."
    with page.section("Compositional generalisation", text):
        page.plots(figures)
