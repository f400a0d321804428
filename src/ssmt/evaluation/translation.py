"""Translation quality by sacrebleu, with paired bootstrap tests (the paper's Table 3).

    report = evaluate_translations({"bpe": bpe_lines, "ssmt": ssmt_lines}, reference_lines)
    report["ssmt", "chrF"].score
    print(tables.markdown(as_table(report)))

Scores, signatures and p-values are those of `sacrebleu REFERENCE -i BPE SSMT --paired-bs`: both run
`sacrebleu.significance.PairedTest` with the same metrics. Its seed is sacrebleu's, too: 12345, or the environment
variable SACREBLEU_SEED. (Our readers normalise text to NFC, sacrebleu's do not: on other text the two differ.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from ssmt.errors import UserError
from ssmt.evaluation.tables import Cell, Table
from ssmt.text.lines import read_lines, require_equal_lengths

_BUILD: Mapping[str, Callable[[list[list[str]]], Metric]] = {
    "BLEU": lambda references: BLEU(references=references),
    "chrF": lambda references: CHRF(references=references),
    "chrF++": lambda references: CHRF(word_order=2, references=references),
    "TER": lambda references: TER(references=references),
}
METRICS = tuple(_BUILD)
LOWER_IS_BETTER = frozenset({"TER"})
SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class SystemScore:
    """One metric of one system.

    `mean` and `interval` describe the bootstrap samples: mean ± interval holds 95% of them. `p_value` is that of the
    difference to the baseline, `p_value_to_best` that of the difference to the metric's best system; each is None for
    the system that would be compared with itself, and when no samples were drawn.
    """

    system: str
    metric: str
    score: float
    signature: str
    mean: float | None
    interval: float | None
    p_value: float | None
    p_value_to_best: float | None
    is_best: bool
    not_significantly_worse_than_best: bool


@dataclass(frozen=True)
class TranslationReport:
    """All scores, system by system in the order given, and what they were computed on."""

    scores: tuple[SystemScore, ...]
    baseline: str
    sentences: int
    references: int
    samples: int

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(score.system for score in self.scores))

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(score.metric for score in self.scores))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], SystemScore]:
        return {(score.system, score.metric): score for score in self.scores}

    def __getitem__(self, system_and_metric: tuple[str, str]) -> SystemScore:
        return self._by_name[system_and_metric]


def read_translations(
    references: Sequence[str | Path], hypotheses: Mapping[str, str | Path]
) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The lines of each named system and of each reference; files of unequal lengths are refused."""
    assert references, "there is at least one reference"
    reference_lines = [read_lines(path) for path in references]
    for path, lines in zip(references[1:], reference_lines[1:], strict=True):
        require_equal_lengths(references[0], len(reference_lines[0]), path, len(lines))
    return read_systems(references[0], reference_lines, hypotheses), reference_lines


def read_systems(
    reference: str | Path, reference_lines: Sequence[Sequence[str]], hypotheses: Mapping[str, str | Path]
) -> dict[str, list[str]]:
    """The lines of each named system, as many as the reference has."""
    if not reference_lines[0]:
        raise UserError(f"{reference}: is empty, there is nothing to evaluate against")
    systems = {name: read_lines(path) for name, path in hypotheses.items()}
    for name, lines in systems.items():
        require_equal_lengths(reference, len(reference_lines[0]), hypotheses[name], len(lines))
    return systems


def evaluate_translations(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    baseline: str | None = None,
    samples: int = 1000,
) -> TranslationReport:
    """Score each system, test it against the baseline (the first system unless named) and against the best one.

    `references` is one reference (a sentence a line) or several. `samples` bootstrap samples are drawn for tests and
    intervals; 0 draws none, which is quick.
    """
    streams = _as_streams(references)
    baseline = _check(systems, streams, metrics, baseline)
    ordered = [baseline, *(name for name in systems if name != baseline)]
    lines = {name: list(systems[name]) for name in ordered}
    built = {name: _BUILD[name](streams) for name in metrics}

    results = _test(built, ordered, lines, samples)
    best = {metric: _best(metric, {name: results[name, metric].score for name in systems}) for metric in metrics}
    to_best = _p_values_to_best(best, results, built, ordered, lines, samples)

    scores = []
    for system in systems:
        for metric in metrics:
            result = results[system, metric]
            is_best = result.score == results[best[metric], metric].score
            p_to_best = to_best[system, metric]
            indistinct = p_to_best is not None and p_to_best >= SIGNIFICANCE_LEVEL
            scores.append(
                SystemScore(
                    system=system,
                    metric=metric,
                    score=result.score,
                    signature=result.signature,
                    mean=result.mean,
                    interval=result.interval,
                    p_value=result.p_value,
                    p_value_to_best=p_to_best,
                    is_best=is_best,
                    not_significantly_worse_than_best=is_best or indistinct,
                )
            )
    return TranslationReport(tuple(scores), baseline, len(streams[0]), len(streams), samples)


def evaluate_subsets(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    subsets: Mapping[str, Sequence[int]],
    *,
    metrics: Sequence[str] = METRICS,
    baseline: str | None = None,
    samples: int = 1000,
) -> dict[str, TranslationReport]:
    """As `evaluate_translations`, on each of some subsets of the test set, given by their rows (from 0)."""
    return {
        name: evaluate_translations(
            {system: [lines[row] for row in rows] for system, lines in systems.items()},
            [[lines[row] for row in rows] for lines in references],
            metrics=metrics,
            baseline=baseline,
            samples=samples,
        )
        for name, rows in subsets.items()
    }


def as_dict(report: TranslationReport) -> dict[str, Any]:
    """For JSON."""
    return {
        "sentences": report.sentences,
        "references": report.references,
        "baseline": report.baseline,
        "samples": report.samples,
        "significance_level": SIGNIFICANCE_LEVEL,
        "signatures": {metric: report[report.systems[0], metric].signature for metric in report.metrics},
        "scores": [asdict(score) for score in report.scores],
    }


def as_table(
    report: TranslationReport,
    *,
    decimals: int = 1,
    p_values: bool = True,
    intervals: bool = False,
    of_what: str = "",
) -> Table:
    """The paper's Table 3, to be written by `tables.markdown`, `tables.latex` or `tables.terminal`.

    As there, scores that print like the best at the precision shown are underlined (and bold), unless the difference is
    significant all the same.
    """
    with_p_values = p_values and any(score.p_value is not None for score in report.scores)
    columns = ["System"]
    for metric in report.metrics:
        columns.append(f"{metric} ↓" if metric in LOWER_IS_BETTER else metric)
        columns += ["p"] if with_p_values else []
    best = {score.metric: f"{score.score:.{decimals}f}" for score in report.scores if score.is_best}
    compared = len(report.systems) > 1  # one system alone is no best
    rows = []
    for system in report.systems:
        row = [Cell(system)]
        for metric in report.metrics:
            score = report[system, metric]
            number = f"{score.score:.{decimals}f}"
            text = number
            if intervals and score.interval is not None:
                text += f" ± {score.interval:.{decimals}f}"
            p_value = score.p_value_to_best
            ties = number == best[metric] and (score.is_best or p_value is None or p_value >= SIGNIFICANCE_LEVEL)
            bold = ties or score.not_significantly_worse_than_best
            row.append(Cell(text, underlined=ties and compared, bold=bold and compared))
            if with_p_values:
                row.append(Cell("" if score.p_value is None else f"{score.p_value:.3f}"))
        rows.append(tuple(row))
    notes = [f"{metric}: {report[report.systems[0], metric].signature}" for metric in report.metrics]
    if intervals and any(score.interval is not None for score in report.scores):
        notes.insert(0, "±: half of the 95% interval of the bootstrap samples, around their mean.")
    if compared:
        notes.insert(0, "Underlined: best.")
        if report.samples > 0:
            notes[0] += f" Bold: difference from the best not significant (p >= {SIGNIFICANCE_LEVEL})."
        if with_p_values:
            notes[0] += f" p: paired bootstrap against {report.baseline}."
    title = f"Translation of {report.sentences:,} sentences" + (f" of {of_what}" if of_what else "")
    return Table(tuple(columns), tuple(rows), title, tuple(notes))


def means(reports: Mapping[str, TranslationReport]) -> dict[str, dict[str, float]]:
    """The mean of each system's scores over the reports, by system and metric."""
    first = next(iter(reports.values()))
    return {
        system: {
            metric: sum(report[system, metric].score for report in reports.values()) / len(reports)
            for metric in first.metrics
        }
        for system in first.systems
    }


def table_of_means(reports: Mapping[str, TranslationReport], *, decimals: int = 1) -> Table:
    of_systems = means(reports)
    metrics = next(iter(reports.values())).metrics
    columns = ("System", *(f"{metric} ↓" if metric in LOWER_IS_BETTER else metric for metric in metrics))
    rows = tuple(
        (Cell(system), *(Cell(f"{scores[metric]:.{decimals}f}") for metric in metrics))
        for system, scores in of_systems.items()
    )
    return Table(columns, rows, f"Mean over {', '.join(reports)}")


def finding(report: TranslationReport, metric: str) -> str:
    """What came out, in a sentence; nothing of one system alone."""
    scores = [report[system, metric] for system in report.systems]
    if len(scores) < 2:
        return ""
    best = next(score for score in scores if score.is_best)
    others = sorted((score for score in scores if score is not best), key=lambda score: abs(score.score - best.score))
    second = others[0]
    ahead = f"{best.system} has the best {metric}, {best.score:.1f}"
    if second.p_value_to_best is None:
        return f"{ahead}, before {second.system} with {second.score:.1f} (the difference was not tested)."
    p_value = f"p = {second.p_value_to_best:.3f}"
    if second.p_value_to_best >= SIGNIFICANCE_LEVEL:
        return f"{ahead}, but {second.system} with {second.score:.1f} is not clearly behind ({p_value})."
    return f"{ahead}, and is clearly before {second.system} with {second.score:.1f} ({p_value})."


@dataclass(frozen=True, slots=True)
class _Result:
    score: float
    signature: str
    mean: float | None = None
    interval: float | None = None
    p_value: float | None = None


def _test(
    metrics: Mapping[str, Metric], names: Sequence[str], lines: Mapping[str, list[str]], samples: int
) -> dict[tuple[str, str], _Result]:
    """Scores of the named systems by (system, metric), with p-values of their differences to the first of them."""
    results: dict[tuple[str, str], _Result] = {}
    if samples == 0:
        for metric_name, metric in metrics.items():
            for name in names:
                score = metric.corpus_score(lines[name], None).score
                results[name, metric_name] = _Result(score, str(metric.get_signature()))
        return results
    for metric_name, metric in metrics.items():
        test = PairedTest(
            [(name, lines[name]) for name in names],
            {metric_name: metric},
            references=None,  # the metric holds them already, as statistics
            test_type="bs",
            n_samples=samples,
        )
        signatures, columns = test()
        ((title, signature),) = signatures.items()  # sacrebleu calls chrF by its settings: chrF2, chrF2++
        for name, result in zip(names, columns[title], strict=True):
            first = columns[title][0]
            assert not isinstance(result, str)
            assert not isinstance(first, str)
            p_value = _float(result.p_value)
            if p_value is not None and (result.score, result.mean) == (first.score, first.mean):
                p_value = 1.0  # sacrebleu counts samples that differ by more than nothing, finds none, and says 0.001
            results[name, metric_name] = _Result(
                float(result.score), str(signature), _float(result.mean), _float(result.ci), p_value
            )
    return results


def _best(metric: str, scores: Mapping[str, float]) -> str:
    return (min if metric in LOWER_IS_BETTER else max)(scores, key=scores.__getitem__)


def _p_values_to_best(
    best: Mapping[str, str],
    results: Mapping[tuple[str, str], _Result],
    metrics: Mapping[str, Metric],
    names: Sequence[str],
    lines: Mapping[str, list[str]],
    samples: int,
) -> dict[tuple[str, str], float | None]:
    """By (system, metric), from the tests against the baseline (the first name) where they say it already."""
    baseline, *others = names
    p_values: dict[tuple[str, str], float | None] = {}
    for champion in dict.fromkeys(best.values()):
        won = {metric: metrics[metric] for metric in metrics if best[metric] == champion}
        if champion == baseline:
            tested = results
        else:
            tested = _test(won, [champion, *(name for name in others if name != champion)], lines, samples)
        for metric in won:
            p_values.update({(name, metric): tested[name, metric].p_value for name in others})
            # The test is symmetric: best against baseline is baseline against best.
            p_values[baseline, metric] = results[champion, metric].p_value
    return p_values


def _float(value: float | None) -> float | None:
    """numpy's floats would not survive `json.dumps`."""
    return None if value is None else float(value)


def _as_streams(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    if references and isinstance(references[0], str):
        return [[str(line) for line in references]]
    return [list(stream) for stream in references]


def _check(
    systems: Mapping[str, Sequence[str]], references: list[list[str]], metrics: Sequence[str], baseline: str | None
) -> str:
    """The baseline's name, once everything a user can get wrong has been looked at."""
    if not systems:
        raise UserError("No system to evaluate: give at least one")
    if not references or not references[0]:
        raise UserError("No references to evaluate against: give at least one sentence")
    for number, stream in enumerate(references[1:], start=2):
        require_equal_lengths("reference 1", len(references[0]), f"reference {number}", len(stream))
    for name, lines in systems.items():
        require_equal_lengths("the reference", len(references[0]), f"system {name!r}", len(lines))
    check_choices(systems, metrics, baseline)
    return next(iter(systems)) if baseline is None else baseline


def check_choices(systems: Iterable[str], metrics: Sequence[str], baseline: str | None) -> None:
    """What can be known to be wrong before anything is translated."""
    names = list(systems)
    unknown = [metric for metric in metrics if metric not in _BUILD]
    if unknown or not metrics:
        raise UserError(f"Unknown metric {', '.join(map(repr, unknown))}: choose from {', '.join(METRICS)}")
    if baseline is not None and baseline not in names:
        raise UserError(f"The baseline {baseline!r} is not one of the systems: {', '.join(names)}")
    if not os.environ.get("SACREBLEU_SEED", "0").isdecimal() and os.environ["SACREBLEU_SEED"].lower() != "none":
        raise UserError(f"SACREBLEU_SEED={os.environ['SACREBLEU_SEED']}: is no whole number")
