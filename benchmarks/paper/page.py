"""What the parts of the document share: what is kept, the figures so far, and the wording of numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paper import plan, published, systems
from paper.kept import METRICS as METRICS
from paper.kept import Kept, Record
from paper.plan import Options, Run, Train
from ssmt.evaluation.tables import Cell
from ssmt.evaluation.translation import SystemScore, TranslationReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_RUN = "not run"
PREFIX = "results-"  # of the figures' names
BPE, SSMT = systems.BPE.name, systems.SSMT.name


@dataclass
class Page:
    kept: Kept
    figures_path: str  # as the document's links have it
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        return self.kept.options

    @cached_property
    def reports(self) -> dict[str, TranslationReport]:
        """Table 3 by language, as far as it was run."""
        cells, reports = plan.table3(self.options), {}
        for language in systems.LANGUAGES:
            jobs = {system: cells[language, system] for system in published.SYSTEMS}
            if report := self.kept.comparison(jobs, BPE):
                reports[language] = report
        return reports

    def cuts(self, measure: str) -> dict[tuple[str, str], Record]:
        """Precision, recall and F1 by language and system, as far as they were run."""
        return {
            (language, system): record["all"]["systems"][system][f"{measure}_micro"]
            for (language, system), record in self.kept.records(plan.tables5and6(self.options)).items()
        }

    @cached_property
    def budgets(self) -> list[Options]:
        """What was asked for, with its budget and with others that the output has of the headline."""
        there = {float(directory.name.removesuffix("-minutes")) for directory in self.kept.output.glob("*-minutes")} | {
            self.options.minutes
        }
        budgets = [replace(self.options, minutes=minutes) for minutes in sorted(there)]
        return [options for options in budgets if options == self.options or self._has_headline(options)]

    def _has_headline(self, options: Options) -> bool:
        return any(job.result(self.kept.output).exists() for job in plan.headline(options).values())

    @property
    def budget(self) -> str:
        return _budget(self.options.minutes)

    @property
    def short_budget(self) -> str:
        return _budget(self.options.short_minutes)

    def bits(self, run: Run) -> str:
        record = self.kept.record(Train(run))
        return f"{record['bits_per_character']:.3f}" if record else NOT_RUN

    def image(self, name: str, figure: Figure, spoken: str) -> str:
        """Have a figure drawn, and the link to it."""
        file = f"{PREFIX}{name}.svg"
        self.figures[file] = figure
        return f"![{spoken}]({self.figures_path}/{file})"


def _budget(minutes: float) -> str:
    return f"{minutes:g} minutes of CPU time a run"


def signatures(report: TranslationReport | None, *metrics: str) -> list[str]:
    """How scores were made."""
    if report is None:
        return []
    return [f"{metric}: {report[report.systems[0], metric].signature}" for metric in metrics or METRICS]


def scored(score: SystemScore | None, compared: bool) -> Cell:
    if score is None:
        return Cell(NOT_RUN)
    return Cell(f"{score.score:.1f}", score.is_best and compared, score.not_significantly_worse_than_best and compared)


def p_value(score: SystemScore | None) -> str:
    return "" if score is None or score.p_value is None else f"{score.p_value:.3f}"


def spread(values: Sequence[float]) -> str:
    if not values:
        return NOT_RUN
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f} to {max(values):.1f})"


def spoken(values: Mapping[str, Mapping[str, float]], what: str) -> str:
    """A figure in words."""
    groups = [
        f"{group}: {', '.join(f'{name} {value:.1f}' for name, value in of_group.items())}"
        for group, of_group in values.items()
    ]
    return f"{what}; {'; '.join(groups)}"
