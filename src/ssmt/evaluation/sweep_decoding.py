"""Models decoded by several searches with several beams (the paper's Table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ssmt.directory import load_config, weights_of
from ssmt.errors import UserError
from ssmt.evaluation import plots
from ssmt.evaluation.model_output import language_to_ask, load_for
from ssmt.evaluation.sweep import (
    BLOCK,
    METRICS,
    Record,
    SweepDirectory,
    SweepResults,
    digest,
    scores,
    translate_with,
)
from ssmt.evaluation.tables import Cell, Table
from ssmt.files import naming_lines
from ssmt.progress import Reporter
from ssmt.registry import kind_of
from ssmt.search.table import SEARCHES
from ssmt.text.lines import read_lines, require_equal_lengths
from ssmt.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEAMS = (1, 3, 5, 7, 10)  # the paper's


def decoding_sweep(
    models: Mapping[str, str | Path],
    source: str | Path,
    references: Sequence[str | Path],
    output: str | Path,
    *,
    beams: Sequence[int] = BEAMS,
    searches: Sequence[str] = (),
    sentences: int | None = None,
    to: str | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> SweepResults:
    """Translate the first `sentences` in every way, by default all searches of each model, and write the results. `to`
    is the language of the references, for models that have several.

    Points that are finished in the directory are not done again; those of earlier calls are among the results.
    """
    plots.require()
    reporter = reporter or Reporter()
    sources, reference_lines = _texts(source, references, sentences)
    for name, path in models.items():
        if Path(name).name != name:
            raise UserError(f"{name!r} cannot name a model here: files in the sweep's directory are called so")
        language_to_ask(path, to)
    identity = {
        "kind": "decoding",
        "sentences": len(sources),
        "source": digest(source),
        "reference": [digest(path) for path in references],
        "to": to,
    }
    fields = {"model": str, "search": str, "beam": int, "weights": str}
    searches_of = {name: _searches_of(Path(path), searches) for name, path in models.items()}
    points = 0
    with SweepDirectory.alone(Path(output), identity, fields) as directory, naming_lines({"source": source}):
        for name, path in models.items():
            ways = [(search, beam) for search in searches_of[name] for beam in beams]
            _decode(directory, name, Path(path), sources, reference_lines, ways, to, device, reporter)
            points += len(ways)
        records = directory.results()
        table = decoding_table(records, len(sources))
        directory.write(table, decoding_plot(records), records)
    return SweepResults(records, table, points)


def _decode(
    directory: SweepDirectory,
    name: str,
    path: Path,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    ways: Sequence[tuple[str, int]],
    to: str | None,
    device: str,
    reporter: Reporter,
) -> None:
    """All points of one model; it is loaded only if one of them is left to do."""
    weights = digest(weights_of(path))
    if any(record["model"] == name and record["weights"] != weights for record in directory.results()):
        raise UserError(f"{directory.path}: has results of another model called {name!r}. Give this one another name")
    translator: Translator | None = None
    for search, beam in ways:
        point = f"{name}.{search}.beam-{beam}"
        if directory.result(point) is not None:
            continue
        translator = translator or load_for(path, to, device)
        translate = translate_with(translator, search, beam)
        translations, seconds = directory.decode(point, weights, sources, translate, reporter)
        record = {"model": name, "search": search, "beam": beam, "weights": weights, "seconds": seconds}
        directory.finish(point, record | scores(translations, references))


def _searches_of(model: Path, asked: Sequence[str]) -> list[str]:
    """Those that are asked for, if the model has them, or all that a beam makes a difference to."""
    kind = kind_of(load_config(model))
    if asked:
        return [kind.search(name).name for name in asked]
    return [name for name in kind.searches if SEARCHES[name].has_beam]


def _texts(
    source: str | Path, references: Sequence[str | Path], sentences: int | None
) -> tuple[list[str], list[list[str]]]:
    sources, reference_lines = read_lines(source), [read_lines(path) for path in references]
    for path, lines in zip(references, reference_lines, strict=True):
        require_equal_lengths(source, len(sources), path, len(lines))
    if not sources:
        raise UserError(f"{source}: is empty, there is nothing to translate")
    return sources[:sentences], [lines[:sentences] for lines in reference_lines]


def decoding_table(records: Sequence[Record], sentences: int) -> Table:
    """The paper's Table 7: a row for each beam, three columns for each search."""
    beams = sorted({record["beam"] for record in records})
    points = {(_system(record, records), record["beam"]): record for record in records}
    systems = list(dict.fromkeys(system for system, _ in points))
    best = {metric: f"{max(record[metric] for record in records):.1f}" for metric in METRICS}
    columns = ["Beam", *(f"{system} {column}" for system in systems for column in (*METRICS, "s"))]
    rows = []
    for beam in beams:
        row = [Cell(str(beam))]
        for system in systems:
            record = points.get((system, beam))
            if record is None:
                row += [Cell("–")] * 3
                continue
            numbers = {metric: f"{record[metric]:.1f}" for metric in METRICS}
            row += [Cell(number, bold=number == best[metric]) for metric, number in numbers.items()]
            row.append(Cell(f"{record['seconds'] / max(sentences, 1):.3f}"))
        rows.append(tuple(row))
    notes = [f"s: seconds a sentence, in batches of up to {BLOCK} sentences. Bold: best."]
    notes += [f"{metric}: {signature}" for metric, signature in records[0]["signatures"].items()]
    return Table(tuple(columns), tuple(rows), f"Searches and beams on {sentences:,} sentences", tuple(notes))


def decoding_plot(records: Sequence[Record]) -> Figure:
    series: dict[str, tuple[list[float], list[float]]] = {}
    for record in sorted(records, key=lambda record: record["beam"]):
        x, y = series.setdefault(_system(record, records), ([], []))
        x.append(record["beam"])
        y.append(record["chrF"])
    return plots.lines(dict(sorted(series.items())), "beam", "chrF")


def _system(record: Record, records: Sequence[Record]) -> str:
    several = len({other["model"] for other in records}) > 1
    return f"{record['model']} {record['search']}" if several else str(record["search"])
