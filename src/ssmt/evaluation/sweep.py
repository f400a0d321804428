"""Sweeps: one model decoded in many ways (the paper's Table 7), or many models trained over a grid (its Figure 4).

A sweep is a directory. What is finished is never done again, so a stopped sweep goes on where it was, and a later one
with more beams or values adds to it:

    sweep.json             what every point has in common: files, models, settings; another sweep is refused
    results/POINT.json     the numbers of a finished point
    decoded/POINT.jsonl    its translations so far, a block a line
    runs/POINT/            its training run
    table.md  table.tex  results.json  plot.svg  plot.png
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssmt.config import Config, Section, with_settings
from ssmt.errors import UserError
from ssmt.evaluation import plots, tables
from ssmt.evaluation.tables import Cell, Table
from ssmt.evaluation.translation import evaluate_translations
from ssmt.files import open_for_reading, open_for_writing, require_file
from ssmt.progress import Reporter
from ssmt.training.log import kept_bits
from ssmt.translator import LineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Translate = Callable[[Sequence[str]], list[str]]
BLOCK = 64  # lines that are decoded, and saved, together
METRICS = ("BLEU", "chrF")


class SweepDirectory:
    """Opens a sweep, or begins it; `identity` is what all its points have in common."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        for folder in ("results", "decoded"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        begun = path / "sweep.json"
        wanted = json.loads(json.dumps(identity))
        if begun.exists():
            there = self._read(begun)
            if different := [key for key in {**there, **wanted} if there.get(key) != wanted.get(key)]:
                raise UserError(
                    f"{path}: holds a sweep of something else ({', '.join(different)} differ). "
                    f"Repeat its options to go on with it, or choose another --output"
                )
        else:
            with open_for_writing(begun) as stream:
                stream.write(json.dumps(wanted, indent=2) + "\n")

    def result(self, point: str) -> Record | None:
        path = self.path / "results" / f"{point}.json"
        return self._read(path) if path.exists() else None

    def results(self) -> list[Record]:
        """Of all finished points, in the order of their names."""
        return [self._read(path) for path in sorted((self.path / "results").glob("*.json"))]

    def finish(self, point: str, record: Record) -> None:
        with open_for_writing(self.path / "results" / f"{point}.json") as stream:
            stream.write(json.dumps(record, ensure_ascii=False, indent=2) + "\n")

    def write(self, table: Table, figure: Figure, records: Sequence[Record]) -> None:
        for name, text in (
            ("table.md", tables.markdown(table)),
            ("table.tex", tables.latex(table)),
            ("results.json", json.dumps(list(records), ensure_ascii=False, indent=2) + "\n"),
        ):
            with open_for_writing(self.path / name) as stream:
                stream.write(text)
        for ending in ("svg", "png"):
            plots.save(figure, self.path / f"plot.{ending}")

    def decode(
        self, point: str, weights: str, sources: Sequence[str], translate: Translate, reporter: Reporter
    ) -> tuple[list[str], float]:
        """Translations of all sources and the seconds they took, saved block by block; `weights` names the model."""
        path = self.path / "decoded" / f"{point}.jsonl"
        blocks = _whole_blocks(path, weights)
        done = sum(len(block["translations"]) for block in blocks)
        with reporter.bar(f"decoding {point}", len(sources)) as bar, open(path, "a", encoding="utf-8") as stream:
            while done < len(sources):
                begun = time.perf_counter()
                try:
                    found = translate(sources[done : done + BLOCK])
                except LineError as error:
                    raise LineError(error.kind, done + error.number, error.problem) from None
                block = {"seconds": time.perf_counter() - begun, "translations": found, "weights": weights}
                stream.write(json.dumps(block, ensure_ascii=False) + "\n")
                stream.flush()
                blocks.append(block)
                done += len(found)
                bar.advance(done)
        return [line for block in blocks for line in block["translations"]], sum(block["seconds"] for block in blocks)

    @staticmethod
    def _read(path: Path) -> Record:
        try:
            record: Record = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg}); delete it to do it again") from None
        return record


def _whole_blocks(path: Path, weights: str) -> list[Record]:
    """The blocks of an earlier session; a last line cut short by a crash is dropped, from the file too, and so are
    those of other weights."""
    blocks: list[Record] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                block = json.loads(line)
            except json.JSONDecodeError:
                break
            if block.get("weights") != weights:
                break
            blocks.append(block)
        with open_for_writing(path) as stream:
            stream.writelines(json.dumps(block, ensure_ascii=False) + "\n" for block in blocks)
    return blocks


def scores(translations: Sequence[str], references: Sequence[Sequence[str]]) -> Record:
    report = evaluate_translations({"": translations}, references, metrics=METRICS, samples=0)
    return {metric: report["", metric].score for metric in METRICS} | {
        "signatures": {metric: report["", metric].signature for metric in METRICS}
    }


def digest(path: str | Path) -> str:
    """Of a file's content: a sweep knows its files by what is in them, wherever they lie."""
    require_file(path)
    with open_for_reading(path) as stream:
        content = hashlib.sha256()
        while piece := stream.read(1 << 20):
            content.update(piece)
    return content.hexdigest()[:16]


# Decoding


def decoding_table(records: Sequence[Record], sentences: int) -> Table:
    """The paper's Table 7: a row for each beam, three columns for each search."""
    beams = sorted({record["beam"] for record in records})
    found = {(_system(record, records), record["beam"]): record for record in records}
    systems = list(dict.fromkeys(system for system, _ in found))
    best = {metric: f"{max(record[metric] for record in records):.1f}" for metric in METRICS}
    columns = ["Beam", *(f"{system} {column}" for system in systems for column in (*METRICS, "s"))]
    rows = []
    for beam in beams:
        row = [Cell(str(beam))]
        for system in systems:
            record = found.get((system, beam))
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


# Training


@dataclass(frozen=True)
class Axis:
    """Settings that take the same value together, and the values they take."""

    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def label(self) -> str:
        """Keys without their sections, but where two sections have the same key."""
        return "+".join(key if _is_ambiguous(key) else key.rpartition(".")[2] for key in self.keys)


def _is_ambiguous(key: str) -> bool:
    sections = [field.default for field in Config.model_fields.values() if isinstance(field.default, Section)]
    return sum(key.rpartition(".")[2] in type(section).model_fields for section in sections) > 1


def parse_axis(text: str) -> Axis:
    """`network.encoder_layers+network.decoder_layers=2,4,6`."""
    keys, equals, values = text.partition("=")
    axis = Axis(tuple(keys.split("+")), tuple(value.strip() for value in values.split(",")))
    if not equals or not all(axis.keys) or not all(axis.values):
        raise UserError(f"--grid {text}: expected KEY=VALUE,VALUE..., for example --grid text.lexicon_size=1000,5000")
    return axis


def grid(axes: Sequence[Axis], base: Config) -> Iterator[tuple[str, dict[str, str], Config]]:
    """Each point's name, its values by axis, and its settings."""
    keys = Counter(key for axis in axes for key in axis.keys)
    if keys.most_common(1)[0][1] > 1:
        raise UserError(f"--grid: {keys.most_common(1)[0][0]} is given twice")
    for values in itertools.product(*(dict.fromkeys(axis.values) for axis in axes)):
        chosen = {axis.label: value for axis, value in zip(axes, values, strict=True)}
        settings = [f"{key}={value}" for axis, value in zip(axes, values, strict=True) for key in axis.keys]
        name = re.sub(r"[^\w.+-]", "_", ".".join(f"{label}-{value}" for label, value in chosen.items()))
        yield name, chosen, with_settings(base, settings)


def training_record(values: Mapping[str, str], log: Sequence[Record], parameters: int) -> Record:
    """A trained point's numbers, from its log."""
    return {
        "values": dict(values),
        "parameters": parameters,
        "updates": max((line["update"] for line in log), default=0),
        "minutes": max((line.get("minutes", 0.0) for line in log), default=0.0),
        "bits_per_character": kept_bits(log),
    }


def training_table(records: Sequence[Record], sentences: int) -> Table:
    axes = list(dict.fromkeys(axis for record in records for axis in record["values"]))
    best = {metric: f"{max(record[metric] for record in records):.1f}" for metric in METRICS}
    fewest = f"{min(record['bits_per_character'] for record in records):.4f}"
    columns = (*axes, "Parameters", "Updates", "Minutes", "bits/char ↓", *METRICS)
    rows = []
    for record in sorted(records, key=lambda record: [_in_order(record["values"].get(axis, "")) for axis in axes]):
        bits = f"{record['bits_per_character']:.4f}"
        numbers = {metric: f"{record[metric]:.1f}" for metric in METRICS}
        rows.append(
            (
                *(Cell(record["values"].get(axis, "–")) for axis in axes),
                Cell(f"{record['parameters'] / 1e6:.2f} M"),
                Cell(f"{record['updates']:,}"),
                Cell(f"{record['minutes']:.1f}"),
                Cell(bits, bold=bits == fewest),
                *(Cell(number, bold=number == best[metric]) for metric, number in numbers.items()),
            )
        )
    notes = [f"On {sentences:,} validation sentences. Bold: best."]
    notes += [f"{metric}: {signature}" for metric, signature in records[0]["signatures"].items()]
    return Table(columns, tuple(rows), "Training over a grid", tuple(notes))


def training_plot(records: Sequence[Record]) -> Figure:
    """chrF over the first axis, a line for each combination of the others (the paper's Figure 4)."""
    axes = list(dict.fromkeys(axis for record in records for axis in record["values"]))
    series: dict[str, tuple[list[str], list[float]]] = {}
    for record in sorted(records, key=lambda record: [_in_order(record["values"].get(axis, "")) for axis in axes]):
        name = ", ".join(f"{axis} {record['values'].get(axis, '–')}" for axis in axes[1:]) or "chrF"
        x, y = series.setdefault(name, ([], []))
        x.append(record["values"].get(axes[0], "–"))
        y.append(record["chrF"])
    return plots.categories(series, axes[0], "validation chrF")


def _in_order(value: str) -> tuple[float, str]:
    """Numbers by size, then words."""
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value
