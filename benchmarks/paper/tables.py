"""The paper's Tables 3 to 7, its numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from paper import plan, published, systems
from paper.page import METRICS, NOT_RUN, SSMT, Page, p_value, scored, signatures
from paper.plan import Train
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.evaluation.translation import SIGNIFICANCE_LEVEL
from ssmt.search.options import SearchOptions


def table3(page: Page) -> str:
    return "\n".join(_table3_of(page, metric) for metric in METRICS)


def _table3_of(page: Page, metric: str) -> str:
    rows = []
    for language, name in systems.LANGUAGES.items():
        report = page.reports.get(language)
        ours = {system: report[system, metric] for system in report.systems} if report else {}
        papers = [published.TRANSLATION[language, system] for system in published.SYSTEMS]
        rows.append(
            (
                Cell(name),
                Cell(_pairs(page, language)),
                Cell(f"{report.sentences:,}" if report else NOT_RUN),
                *(scored(ours.get(system), len(ours) > 1) for system in published.SYSTEMS),
                *(Cell(f"{paper.chrf if metric == 'chrF' else paper.bleu:.1f}") for paper in papers),
            )
        )
    columns = ("English to", "pairs", "sentences", *(f"`{system}`" for system in published.SYSTEMS))
    columns += tuple(f"paper: {system}" for system in published.SYSTEMS)
    notes = (
        f"Underlined: best. Bold: difference from the best not significant (p >= {SIGNIFICANCE_LEVEL}, paired "
        f"bootstrap). Seed {page.options.seed}, {page.budget}.",
        *signatures(next(iter(page.reports.values()), None), metric),
    )
    return markdown(Table(columns, tuple(rows), metric, notes))


def _pairs(page: Page, language: str) -> str:
    found = [
        record["pairs"]
        for (of, _), job in plan.table3(page.options).items()
        if of == language and (record := page.kept.record(Train(job.run)))
    ]
    return f"{found[0]:,}" if found else NOT_RUN


def table4(page: Page) -> str:
    rows_of = plan.table4(page.options)
    names = list(rows_of)
    report = page.kept.comparison(rows_of, names[len(published.ABLATION) - 1])
    rows = []
    for place, (name, job) in enumerate(rows_of.items()):
        ours = {metric: report[name, metric] if report and name in report.systems else None for metric in METRICS}
        paper = published.ABLATION[place] if place < len(published.ABLATION) else None
        rows.append(
            (
                Cell(name),
                *(scored(ours[metric], compared=True) for metric in METRICS),
                Cell(p_value(ours["chrF"])),
                Cell(page.bits(job.run)),
                Cell("" if paper is None else f"{paper:.1f}"),
            )
        )
    notes = [
        f"English to {systems.LANGUAGES[systems.ABLATION_LANGUAGE]}, validation text"
        + (f", {report.sentences:,} sentences" if report else "")
        + f"; seed {page.options.seed}, {page.short_budget}.",
        *([f"p: chrF against {report.baseline}, paired bootstrap."] if report else []),
        *signatures(report),
    ]
    columns = ("Model", *METRICS, "p", "bits per character", "paper: chrF")
    return markdown(Table(columns, tuple(rows), "", tuple(notes)))


def tables5and6(page: Page) -> str:
    cells = plan.tables5and6(page.options)
    parts = [
        _morphemes(page, cells, measure, title)
        for measure, title in (
            ("boundary", "Morpheme boundaries (Table 5)"),
            ("identification", "Morphemes (Table 6)"),
        )
    ]
    return "\n".join([*parts, _thresholds(page, cells)])


def _morphemes(page: Page, cells: Mapping[tuple[str, str], plan.Segment], measure: str, title: str) -> str:
    readings = page.cuts(measure)
    rows = []
    for language, system in cells:
        ours = [Cell(NOT_RUN)] * 4
        if reading := readings.get((language, system)):
            precision, recall, f1 = (reading[part] for part in ("precision", "recall", "f1"))
            is_best = f1["value"] == max(other["f1"]["value"] for (of, _), other in readings.items() if of == language)
            ours = [Cell(f"{precision['value']:.2f}"), Cell(f"{recall['value']:.2f}")]
            ours += [Cell(f"{f1['value']:.2f}", bold=is_best), Cell(f"{f1['low']:.1f} to {f1['high']:.1f}")]
        papers = [Cell(f"{number:.2f}") for number in published.MORPHEMES[measure][language, system]]
        rows.append((Cell(f"{systems.LANGUAGES[language]}, `{system}`"), *ours, *papers))
    columns = ("Language, model", "P", "R", "F1", "95%", "paper: P", "R", "F1")
    signatures = {
        record["all"]["systems"][system]["signature"] for (_, system), record in page.kept.records(cells).items()
    }
    notes = (f"Seed {page.options.seed}, {page.budget}; micro average.", *sorted(signatures))
    return markdown(Table(columns, tuple(rows), title, notes))


def _thresholds(page: Page, cells: Mapping[tuple[str, str], plan.Segment]) -> str:
    """Only models with posteriors between 0 and 1 have something to tune."""
    rows = []
    for (language, system), job in cells.items():
        if system not in (systems.DPE.name, SSMT):
            continue
        record = page.kept.record(job)
        numbers = [NOT_RUN] * 5
        if record:
            scores = record["even"]["systems"]
            ((tuned, threshold),) = record["even"]["posteriors"][system]["thresholds"].items()
            f1 = [
                f"{scores[name][f'{measure}_micro']['f1']['value']:.1f}"
                for measure in ("boundary", "identification")
                for name in (system, tuned)
            ]
            numbers = [f"{threshold:.2g}", *f1]
        rows.append((Cell(f"{systems.LANGUAGES[language]}, `{system}`"), *map(Cell, numbers)))
    before_and_after = ("F1 of the best segmentation", "F1 with the threshold")
    columns = (
        "Language, model",
        "threshold",
        *(f"{what}: {f1}" for what in ("boundaries", "morphemes") for f1 in before_and_after),
    )
    note = "The threshold is the best for boundaries on the odd lines of the gold file; all F1 are of the even ones."
    return markdown(Table(columns, tuple(rows), "Cuts by posterior", (note,)))


def table7(page: Page) -> str:
    cells = plan.table7(page.options)
    records = page.kept.records(cells)
    searches = list(dict.fromkeys(search for search, _ in cells))
    rows = []
    for beam in systems.BEAMS:
        row = [Cell(str(beam))]
        for search in searches:
            record = records.get((search, beam))
            row += [Cell(f"{record[metric]:.1f}" if record else NOT_RUN) for metric in METRICS]
        papers = [published.BEAMS.get((search, beam)) for search in ("mixture", "dynamic")]
        row += [Cell(f"{paper.chrf:.1f}, {paper.bleu:.1f}" if paper else "") for paper in papers]
        rows.append(tuple(row))
    columns = ("Beam", *(f"{search}: {metric}" for search in searches for metric in METRICS))
    columns += tuple(f"paper, {search}: chrF, BLEU" for search in ("mixture", "dynamic"))
    first, risk = next(iter(records.values()), None), page.kept.record(plan.minimum_risk(page.options))
    quality = ", ".join(f"{metric} {risk[metric]:.1f}" for metric in METRICS) if risk else NOT_RUN
    sentences = f"the first {len(first['translations']):,} sentences of the" if first else "the"
    notes = [
        f"English to {systems.LANGUAGES[systems.BEAM_LANGUAGE]}, `{SSMT}`, {sentences} validation text; seed "
        f"{page.options.seed}, {page.budget}.",
        f"`{systems.MINIMUM_RISK}`, without a beam, from {SearchOptions().candidates} samples: {quality}.",
        *(f"{metric}: {first['signatures'][metric]}" for metric in METRICS if first),
    ]
    return markdown(Table(columns, tuple(rows), "", tuple(notes)))
