"""What the output holds: results of jobs, learning curves, and comparisons, which are made once for the same texts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from paper.plan import Extract, Job, OfRun, Options, Run, Train, Translate
from paper.work import Place, require_same_settings
from ssmt.evaluation import translation
from ssmt.evaluation.systems import read_line_numbers
from ssmt.evaluation.translation import SystemScore, TranslationReport, evaluate_translations
from ssmt.files import as_json, read_json
from ssmt.outputs import open_for_writing
from ssmt.text.lines import read_lines
from ssmt.training.log import read_log

Record = dict[str, Any]
Key = TypeVar("Key")
METRICS = ("chrF", "BLEU")


@dataclass(frozen=True)
class Kept:
    place: Place
    options: Options

    @property
    def output(self) -> Path:
        return self.place.output

    def record(self, job: Job) -> Record | None:
        path = job.result(self.output)
        if not path.exists():
            return None
        if isinstance(job, OfRun):
            require_same_settings(job.run, self.output)
        record: Record = read_json(path)
        return record

    def records(self, jobs: Mapping[Key, Job]) -> dict[Key, Record]:
        """Of those that are done."""
        found = {key: self.record(job) for key, job in jobs.items()}
        return {key: record for key, record in found.items() if record is not None}

    def log(self, run: Run) -> list[Record]:
        """A finished run's log; nothing of one that is not."""
        return read_log(run.directory(self.output)) if Train(run).result(self.output).exists() else []

    def curve(self, run: Run, key: str) -> tuple[list[float], list[float]]:
        """Minutes of CPU time, and what was measured then."""
        lines = [line for line in self.log(run) if key in line]
        return [line["cpu_minutes"] for line in lines], [line[key] for line in lines]

    def comparison(
        self, jobs: Mapping[str, Translate], baseline: str, rows: Sequence[int] | None = None
    ) -> TranslationReport | None:
        """Those systems that have translated, on all sentences or on some, with significance against the baseline (or
        the first that is there)."""
        found = self.records(jobs)
        if not found:
            return None
        job = next(iter(jobs.values()))
        references = read_lines(self.place.test_files(job.language, job.split)[1])
        chosen = range(len(references)) if rows is None else rows
        systems = {name: [record["translations"][row] for row in chosen] for name, record in found.items()}
        first = baseline if baseline in systems else next(iter(systems))
        return self._evaluated(systems, [references[row] for row in chosen], first)

    def length(self, job: Translate) -> float | None:
        """How many words a system has written for one of the references."""
        if (record := self.record(job)) is None:
            return None
        references = read_lines(self.place.test_files(job.language, job.split)[1])
        written, wanted = (sum(len(line.split()) for line in lines) for lines in (record["translations"], references))
        return written / wanted

    def _evaluated(self, systems: Mapping[str, list[str]], references: list[str], baseline: str) -> TranslationReport:
        content = as_json([dict(systems), references, METRICS, baseline])
        path = self.output / "evaluated" / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        if path.exists():
            record = read_json(path)
            scores = tuple(SystemScore(**score) for score in record["scores"])
            return TranslationReport(
                scores, record["baseline"], record["sentences"], record["references"], record["samples"]
            )
        report = evaluate_translations(systems, references, metrics=METRICS, baseline=baseline)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_for_writing(path) as stream:
            stream.write(as_json(translation.as_dict(report), indent=1) + "\n")
        return report

    def subsets(self, job: Extract) -> dict[str, Sequence[int]]:
        """Rows of the test set by the subset's name."""
        reference = self.place.test_files(job.language, job.split)[1]
        return read_line_numbers([job.result(self.output).parent], reference, len(read_lines(reference)))
