"""Systems side by side on one test set, be they files or models: by their translations, or by their segmentations.

evaluation = evaluate_systems(["test.zu"], hypotheses={"bpe": "bpe.txt"}, models={"ssmt": "run"}, source="test.en")
print(tables.markdown(evaluation.tables()[0]))
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssmt.config import CorpusConfig, language_code
from ssmt.directory import load_config
from ssmt.errors import UserError, renumbered
from ssmt.evaluation import morphology, plots, translation
from ssmt.evaluation.gold import Cuts, Gold, read_gold, read_segmented
from ssmt.evaluation.model_output import (
    Floats,
    gold_cuts,
    gold_posteriors,
    language_to_ask,
    load_for,
    translate_lines,
)
from ssmt.evaluation.morphology import MorphologyScores, PrecisionRecallCurve
from ssmt.evaluation.tables import Table
from ssmt.evaluation.translation import TranslationReport
from ssmt.files import count_in, keeping_streams, name_of, naming_lines, require_file, require_regular
from ssmt.outputs import open_in_directory, require_other_file
from ssmt.progress import Reporter
from ssmt.registry import kind_of
from ssmt.text.formats import stream_pairs
from ssmt.text.lines import read_lines, require_equal_lengths
from ssmt.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE = ""  # the name of a test set of which no subsets are taken


def _require_distinct(files: Collection[str], models: Collection[str]) -> None:
    if both := {*files} & {*models}:
        raise UserError(f"Two systems are called {min(both)!r}: give each a name of its own")


# Translations


@dataclass(frozen=True)
class Evaluation:
    """The scores on each subset of the test set, on each of its languages, or on the whole of it."""

    reports: dict[str, TranslationReport]
    by_language: bool = False

    def tables(self, *, intervals: bool = False) -> list[Table]:
        tables = [
            translation.as_table(report, intervals=intervals, of_what=subset) for subset, report in self.reports.items()
        ]
        return [*tables, translation.table_of_means(self.reports)] if self.by_language else tables

    def record(self) -> dict[str, Any]:
        """For JSON."""
        if self.by_language:
            of_languages = {code: translation.as_dict(report) for code, report in self.reports.items()}
            return {"languages": of_languages, "mean": translation.means(self.reports)}
        records = [{"subset": subset} | translation.as_dict(report) for subset, report in self.reports.items()]
        return records[0] if WHOLE in self.reports else {"subsets": records}

    def figure(self) -> Figure:
        """chrF, or the first metric where there is none, of each system on each subset (the paper's Figure 3)."""
        metrics = next(iter(self.reports.values())).metrics
        metric = "chrF" if "chrF" in metrics else metrics[0]
        values = {
            subset or f"{report.sentences:,} sentences": {name: report[name, metric].score for name in report.systems}
            for subset, report in self.reports.items()
        }
        return plots.bars(values, metric)


@dataclass(frozen=True)
class _Test:
    """The sentences that are scored."""

    name: str | Path  # of the file with as many lines
    references: list[list[str]]
    sources: list[str]
    source_file: str | Path | None
    numbers: Sequence[int]  # of the sources' lines
    languages: list[str | None]

    @property
    def several(self) -> list[str]:
        """Its target languages, where there are several."""
        named = sorted({code for code in self.languages if code})
        return named if len(named) > 1 else []


def _read_test(
    references: Sequence[str | Path], source: str | Path | None, pairs: str | Path | None, to: str | None
) -> _Test:
    if pairs is None:
        if not references:
            raise UserError("There is nothing to evaluate against: give references, or pairs")
        lines = [read_lines(path) for path in references]
        sources = [] if source is None else read_lines(source)
        if source is not None:
            require_equal_lengths(references[0], len(lines[0]), source, len(sources))
        numbers = range(1, len(lines[0]) + 1)
        return _Test(references[0], lines, sources, source, numbers, [to] * len(lines[0]))
    if references or source is not None:
        raise UserError("Pairs have sources and references: leave other files of them out")
    try:
        language = to and language_code(to)
    except ValueError as error:
        raise UserError(str(error)) from None
    with keeping_streams():
        require_file(pairs)  # its beginning tells of which format it is
        raws = list(stream_pairs(CorpusConfig(pairs=(str(pairs),), target_language=language)))
    several = len({raw.target_language for raw in raws}) > 1
    for raw in raws:
        if language and raw.target_language not in (None, language):
            raise UserError(f"{raw.file}, line {raw.line}: is into {raw.target_language}, not into {language}")
        if several and not language and raw.target_language is None:
            raise UserError(f"{raw.file}, line {raw.line}: does not say into which language it is, and others do")
    return _Test(
        pairs,
        [[raw.target for raw in raws]],
        [raw.source for raw in raws],
        pairs,
        [raw.line for raw in raws],
        [language or raw.target_language for raw in raws],
    )


def evaluate_systems(
    references: Sequence[str | Path] = (),
    *,
    hypotheses: Mapping[str, str | Path] | None = None,
    models: Mapping[str, str | Path] | None = None,
    source: str | Path | None = None,
    pairs: str | Path | None = None,
    to: str | None = None,
    subsets: Sequence[str | Path] = (),
    metrics: Sequence[str] = translation.METRICS,
    baseline: str | None = None,
    samples: int = 1000,
    search: str | None = None,
    beam: int = 5,
    translations: str | Path | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Evaluation:
    """Score files of translations, and what models make of the source; `subsets` are as in `read_line_numbers`.

    Models translate only the lines that are scored; a directory `translations` keeps them, as NAME.txt. `pairs` is one
    file of sources, references and languages (TSV with three columns, JSON lines, TMX): each language is scored, and
    their mean. `to` is the language of all lines, for models that have several.
    """
    reporter, hypotheses, models = reporter or Reporter(), hypotheses or {}, models or {}
    _require_distinct(hypotheses, models)
    translation.check_choices([*hypotheses, *models], metrics, baseline)
    if translations is not None:
        if not models:
            raise UserError("There is no model whose translations could be kept")
        _make(Path(translations))
        for name in models:
            if Path(name).name != name:
                raise UserError(f"{name!r} cannot name a file of translations; give the model a name without slashes")
            others = (*references, *hypotheses.values(), source, pairs, *subsets)
            require_other_file(_kept(translations, name), *others)
    for directory in models.values():
        config = load_config(Path(directory))
        kind_of(config).search(search)
    test = _read_test(references, source, pairs, to)
    systems = translation.read_systems(test.name, test.references, hypotheses)
    lines = len(test.references[0])
    if models and not test.sources:
        raise UserError("A model needs a source: the text that it shall translate")
    rows_of: Mapping[str, Sequence[int]] = {WHOLE: range(lines)}
    if subsets:
        rows_of = read_line_numbers(subsets, test.name, lines)
    elif test.several:
        rows_of = {code: [row for row in range(lines) if test.languages[row] == code] for code in test.several}
    rows = sorted(set().union(*rows_of.values()))
    codes = sorted({test.languages[row] or "" for row in rows})
    to_ask = {(name, code): language_to_ask(models[name], code or None) for name in models for code in codes}
    for name, directory in models.items():
        translator, translated = Translator.load(directory, device), dict[int, str]()
        for code in codes:
            of_language, language = [row for row in rows if (test.languages[row] or "") == code], to_ask[name, code]
            with naming_lines({"source": test.source_file}), renumbered([test.numbers[row] for row in of_language]):
                best = translate_lines(
                    translator if language is None else translator.into(language),
                    [test.sources[row] for row in of_language],
                    search=search,
                    beam=beam,
                    reporter=reporter,
                    title=f"translating with {name}" + (f" into {code}" if test.several else ""),
                )
            translated |= {row: candidate.text for row, candidate in zip(of_language, best, strict=True)}
        translated = {row: translated[row] for row in rows}
        systems[name] = [translated.get(row, "") for row in range(lines)]
        if translations is not None:
            with open_in_directory(_kept(translations, name)) as stream:
                stream.writelines(f"{text}\n" for text in translated.values())
    return Evaluation(
        translation.evaluate_subsets(
            systems, test.references, rows_of, metrics=metrics, baseline=baseline, samples=samples
        ),
        by_language=bool(test.several) and not subsets,
    )


def read_line_numbers(paths: Sequence[str | Path], reference: str | Path, lines: int) -> dict[str, Sequence[int]]:
    """The rows (from 0) that each file of line numbers (from 1) names, by the file's name; a directory stands for the
    files of subsets in it. `lines` is how many `reference` has."""
    files: list[Path] = []
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = sorted(path.glob("*.lines"))
            for file in inside:
                require_regular(file)
        if not inside:
            raise UserError(f"{path}: holds no *.lines, the files of line numbers that `ssmt compositional` writes")
        files += inside
    subsets: dict[str, Sequence[int]] = {}
    for file in files:
        rows = []
        for number, text in enumerate(read_lines(file), start=1):
            row = count_in(text.strip())
            if row is None or not 1 <= row <= lines:
                raise UserError(
                    f"{file}, line {number}: {text!r} is no line number of {name_of(reference)}, which has {lines:,}"
                )
            rows.append(row - 1)
        if not rows:
            raise UserError(f"{file}: is empty, there is nothing to evaluate")
        name = file.name.removesuffix(".lines")
        subsets[name if name not in subsets else str(file)] = rows
    return subsets


def _kept(directory: str | Path, model: str) -> Path:
    """Where a model's translations are kept."""
    return Path(directory) / f"{model}.txt"


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made ({error.strerror})") from None


# Segmentations


@dataclass(frozen=True)
class SegmentationComparison:
    """Scores by system. A model is there by its most probable segmentation, and by those of posterior thresholds."""

    gold: Gold
    scores: dict[str, MorphologyScores]
    curves: dict[str, PrecisionRecallCurve] = field(default_factory=dict)  # of the models
    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)  # of each model, by the name of its system
    tuned_on: str | None = None

    def tables(self) -> list[Table]:
        """Boundaries and identification (the paper's Tables 5 and 6), each by micro and by macro average."""
        tables = [
            morphology.as_table(self.scores, measure, average)
            for measure in ("boundary", "identification")
            for average in ("micro", "macro")
        ]
        if self.tuned_on is None:
            return tables
        note = f"Tuned: the threshold with the best F1 of boundaries (micro) on {self.tuned_on}."
        return [replace(table, notes=(*table.notes, note)) for table in tables]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        posteriors = {
            name: {
                "average_precision": curve.average_precision,
                "best_f1": float(curve.f1[curve.best]),
                "best_threshold": curve.best_threshold if math.isfinite(curve.best_threshold) else None,
                "thresholds": self.thresholds[name],
            }
            for name, curve in self.curves.items()
        }
        return {"gold": self.gold.name, "systems": morphology.as_dict(self.scores), "posteriors": posteriors}

    def figure(self) -> Figure:
        return plots.precision_recall(self.curves, {name: score.boundary_point for name, score in self.scores.items()})


def compare_segmentations(
    gold: str | Path,
    *,
    segmented: Mapping[str, str | Path] | None = None,
    models: Mapping[str, str | Path] | None = None,
    separator: str = "|",
    threshold: float | None = None,
    tune_on: str | Path | None = None,
    curves: bool = True,
    conditioned: bool = True,
    to: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> SegmentationComparison:
    """Compare segmentations, from files for `read_segmented` and by models, with a gold file for `read_gold`.

    Models also cut where the posterior is at least `threshold`, and at least what is best on the gold file `tune_on`.
    `conditioned`: on the source, where the gold has one. `to` is the gold's language, for models that have several.
    Without `curves`, posteriors that nothing else needs are not computed.
    """
    reporter, segmented, models = reporter or Reporter(), segmented or {}, models or {}
    _require_distinct(segmented, models)
    measured, tuning = read_gold(gold), None if tune_on is None else read_gold(tune_on)
    predicted = {name: read_segmented(path, measured.texts, separator=separator) for name, path in segmented.items()}
    curve_of, thresholds = {}, {}
    for directory in models.values():
        language_to_ask(directory, to)
    for name, directory in models.items():
        translator = load_for(directory, to, device)
        reporter.say(f"Segmenting {len(measured.lines):,} lines with {name}")
        predicted[name], posteriors = _segmented(
            translator, measured, conditioned, posteriors=curves or tuning is not None or threshold is not None
        )
        if posteriors is None:
            continue
        curve_of[name] = morphology.precision_recall_curve(measured, posteriors)
        thresholds[name] = {} if threshold is None else {f"{name}, posterior >= {threshold:g}": threshold}
        if tuning is not None:
            best = _best_threshold(translator, tuning, conditioned)
            thresholds[name][f"{name}, posterior >= {best:.3g} (tuned)"] = best
        for system, value in thresholds[name].items():
            predicted[system] = morphology.cuts_above(posteriors, value)
    scores = {
        name: morphology.evaluate_segmentation(measured, cuts, samples=samples, seed=seed)
        for name, cuts in predicted.items()
    }
    return SegmentationComparison(measured, scores, curve_of, thresholds, None if tuning is None else tuning.name)


def _segmented(
    translator: Translator, gold: Gold, conditioned: bool, *, posteriors: bool
) -> tuple[list[Cuts], list[Floats] | None]:
    with naming_lines({"source": gold.name, "target": gold.name}):
        cuts = gold_cuts(translator, gold, conditioned=conditioned)
        return cuts, gold_posteriors(translator, gold, conditioned=conditioned) if posteriors else None


def _best_threshold(translator: Translator, gold: Gold, conditioned: bool) -> float:
    with naming_lines({"source": gold.name, "target": gold.name}):
        posteriors = gold_posteriors(translator, gold, conditioned=conditioned)
    return morphology.precision_recall_curve(gold, posteriors).best_threshold
