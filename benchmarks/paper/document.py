"""The document: a template whose marked lines become tables, figures and sentences, made from what the output holds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from paper import plan, systems
from paper.figures import figure3, figure4
from paper.headline import aside, curves, headline, in_short
from paper.kept import Kept
from paper.page import BPE, PREFIX, Page
from paper.plan import Train
from paper.tables import table3, table4, table7, tables5and6
from ssmt.config import differences, preset_of
from ssmt.evaluation import plots
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.files import as_json
from ssmt.outputs import open_for_writing

TEMPLATE = Path(__file__).with_name("results.template.md")
MARK = re.compile(r"^<!-- ([\w-]+) -->\n", re.MULTILINE)


def write_document(kept: Kept, document: Path, figures: Path) -> None:
    """Everything is computed before anything is written."""
    page = Page(kept, os.path.relpath(figures, document.parent).replace(os.sep, "/"))
    text = MARK.sub(lambda mark: PARTS[mark[1]](page), TEMPLATE.read_text(encoding="utf-8"))
    figures.mkdir(parents=True, exist_ok=True)
    for path in figures.glob(f"{PREFIX}*.svg"):
        if path.name not in page.figures:
            path.unlink()
    for name, figure in page.figures.items():
        plots.save(figure, figures / name)
    with open_for_writing(document) as stream:
        stream.write(text)


def settings(page: Page) -> str:
    """What differs from what the preset has for the kind of model, and how each system is decoded."""
    jobs, changes = {}, dict[str, list[str]]()
    for system in systems.SYSTEMS.values():
        job = plan.translation(system, plan.run_of(system, systems.HEADLINE[0], page.options), page.options.split)
        preset = preset_of(systems.PRESET, job.run.config)
        written = [(key, as_json(after).strip('"')) for key, _, after in differences(preset, job.run.config)]
        changes[system.name] = [f"`{key}={value}`" for key, value in written if key != "training.seed"]
        jobs[system.name] = job
    common = [change for change in changes[BPE] if all(change in others for others in changes.values())]
    lines = [f"* all: preset `{systems.PRESET}` of their kind, {' '.join(common)}"]
    for name, own in changes.items():
        particular = " ".join(change for change in own if change not in common)
        what = f"{systems.SYSTEMS[name].what}{': ' if particular else ''}{particular}"
        lines.append(f"* `{name}`, {what}; decoded by {jobs[name].how}")
    return "\n".join(lines) + "\n"


def runs(page: Page) -> str:
    jobs = dict.fromkeys(plan.plan_of(page.options).jobs)
    for options in page.budgets:
        jobs |= dict.fromkeys(plan.plan_of(options, ["headline"]).jobs)
    trainings = [job for job in jobs if isinstance(job, Train)]
    rows = []
    for job in trainings:
        if record := page.kept.record(job):
            run = job.run
            rows.append(
                (
                    Cell(f"{run.language} `{run.system}`"),
                    Cell(str(run.seed)),
                    Cell(f"{record['cpu_minutes']:.1f} of {run.minutes:g}"),
                    *(Cell(f"{record[key]:,}") for key in ("pairs", "parameters", "updates", "epochs")),
                    Cell(f"{record['bits_per_character']:.3f}"),
                )
            )
    columns = ("Run", "seed", "CPU minutes", "pairs", "parameters", "updates", "epochs", "bits per character")
    done = f"{len(rows)} of {len(trainings)} runs are done."
    return markdown(Table(columns, tuple(rows), "", (done,))) if rows else f"{done}\n"


PARTS: dict[str, Callable[[Page], str]] = {
    "in-short": in_short,
    "headline": headline,
    "curves": curves,
    "aside": aside,
    "table-3": table3,
    "table-4": table4,
    "tables-5-and-6": tables5and6,
    "table-7": table7,
    "figure-3": figure3,
    "figure-4": figure4,
    "settings": settings,
    "runs": runs,
}
