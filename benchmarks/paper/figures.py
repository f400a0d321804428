"""The paper's Figures 3 and 4."""

from __future__ import annotations

from paper import plan, published, systems
from paper.page import BPE, METRICS, NOT_RUN, Page, scored, signatures, spoken
from paper.plan import Train
from ssmt.evaluation import plots
from ssmt.evaluation.tables import Cell, Table, markdown


def figure3(page: Page) -> str:
    extract, jobs = plan.figure3(page.options)
    jobs = {system: jobs[system] for system in published.SYSTEMS}
    record, done = page.kept.record(extract), page.kept.records(jobs)
    if record is None or not done:
        return f"The subsets: {'made' if record else NOT_RUN}. Their translations: {NOT_RUN}.\n"
    subsets = page.kept.subsets(extract)
    reports = {name: page.kept.comparison(jobs, BPE, rows) for name, rows in subsets.items()}
    rows, bars = [], {}
    for described in record["subsets"]:
        name = f"divergence-{described['target_divergence']:g}"
        report = reports[name]
        assert report is not None, "something is translated"
        target = described["target_divergence"]
        bars[f"divergence {target:g}"] = {system: report[system, "chrF"].score for system in report.systems}
        scores = [report[system, "chrF"] if system in report.systems else None for system in jobs]
        rows.append(
            (
                Cell(name),
                Cell(f"{report.sentences:,}"),
                *(Cell(f"{described[part]:.3f}") for part in ("compound_divergence", "atom_divergence")),
                *(scored(score, len(done) > 1) for score in scores),
                Cell(f"{published.SUBSETS[target]:.1f}" if target in published.SUBSETS else ""),
            )
        )
    image = page.image("compositional", plots.bars(bars, "chrF"), spoken(bars, "chrF"))
    columns = ("Subset", "sentences", "words", "morphemes", *(f"`{system}`" for system in jobs), "paper: mean of 4")
    notes = (
        f"chrF. Words, morphemes: divergence from the training text. Bold and underlined as in Table 3. Seed "
        f"{page.options.seed}, {page.budget}.",
        *signatures(next(iter(reports.values())), "chrF"),
    )
    return f"{image}\n\n{markdown(Table(columns, tuple(rows), '', notes))}"


def figure4(page: Page) -> str:
    cells = plan.figure4(page.options)
    records = page.kept.records(cells)
    series: dict[str, tuple[list[str], list[float]]] = {}
    rows = []
    for (layers, vocabulary, system), job in cells.items():
        record, run = records.get((layers, vocabulary, system)), page.kept.record(Train(job.run))
        rows.append(
            (
                Cell(f"`{system}`"),
                Cell(str(layers)),
                Cell(f"{vocabulary:,}"),
                Cell(f"{run['parameters']:,}" if run else NOT_RUN),
                Cell(page.bits(job.run)),
                *(Cell(f"{record[metric]:.1f}" if record else NOT_RUN) for metric in METRICS),
            )
        )
        if record:
            x, y = series.setdefault(f"{system}, vocabulary {vocabulary:,}", ([], []))
            x.append(str(layers))
            y.append(record["chrF"])
    first = next(iter(records.values()), None)
    sentences = f"{len(first['translations']):,} sentences of the " if first else ""
    notes = (
        f"English to {systems.LANGUAGES[systems.GRID_LANGUAGE]}, {sentences}validation text; seed {page.options.seed}, "
        f"{page.short_budget}.",
        *(f"{metric}: {first['signatures'][metric]}" for metric in METRICS if first),
    )
    columns = ("Model", "layers", "target vocabulary", "parameters", "bits per character", *METRICS)
    table = markdown(Table(columns, tuple(sorted(rows, key=lambda row: row[0].text)), "", notes))
    if not series:
        return table
    words = spoken({name: dict(zip(x, y, strict=True)) for name, (x, y) in series.items()}, "chrF by layers")
    image = page.image("grid", plots.categories(series, "layers", "validation chrF"), words)
    return f"{image}\n\n{table}"
