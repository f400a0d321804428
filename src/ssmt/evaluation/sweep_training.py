"""Models trained over a grid of settings and scored on the validation text (the paper's Figure 4).

axes = [parse_axis("network.encoder_layers+network.decoder_layers=2,4,6"), parse_axis("text.lexicon_size=1000,5000")]
training_sweep(TrainingFiles(...), axes, "sweeps/depth", preset="small")
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ssmt.config import Config, DataConfig, Preset, Section, compose, preset_of
from ssmt.devices import choose_device
from ssmt.directory import weights_of
from ssmt.errors import Stopped, UserError
from ssmt.evaluation import plots
from ssmt.evaluation.sweep import METRICS, Record, SweepDirectory, SweepResults, digest, scores, translate_with
from ssmt.evaluation.tables import Cell, Table
from ssmt.progress import Reporter
from ssmt.registry import kind_of, warn_of_changes_without_effect
from ssmt.text.pairs import PairReader
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run as runs
from ssmt.training.log import kept_bits, read_log
from ssmt.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 10_000  # of a grid


def training_sweep(
    files: TrainingFiles,
    axes: Sequence[Axis],
    output: str | Path,
    *,
    preset: Preset = "base",
    config: str | Path | None = None,
    settings: Sequence[str] = (),
    search: str | None = None,
    beam: int = 5,
    sentences: int | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> SweepResults:
    """Train every point of a grid over a preset, a file and settings, score it on the first `sentences` of the
    validation text, and write the results.

    Points that are finished in the directory are not done again, a run that was stopped goes on, and points of earlier
    calls are among the results. A point that fails does not take the others with it. Settings that differ from the
    preset and have no effect are warned of. A signal that stops a training raises `Stopped`.
    """
    plots.require()
    reporter, output = reporter or Reporter(), Path(output)
    base = compose(preset, config, settings)
    if base.data != DataConfig():
        raise UserError("The settings list corpora (`data`); a sweep trains on the four files that it is given")
    chosen_device = choose_device(device)
    points = list(grid(axes, lambda of_point: compose(preset, config, [*settings, *of_point])))
    for point in points:  # whatever cannot be is said before hours of training
        kind_of(point.settings).search(search)
    pairs = list(PairReader(files.data.valid, base.text))[:sentences]  # as training validates
    sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    identity = {
        "kind": "training",
        "files": [digest(path) for path in (files.source, files.target, files.valid_source, files.valid_target)],
        "settings": base.model_dump(),
        "decoding": [search, beam, len(sources)],
    }
    numbers = {"parameters": int, "updates": int, "minutes": (int, float), "bits_per_character": (int, float)}
    with SweepDirectory.alone(output, identity, {"values": dict} | numbers) as directory:
        failed = {}
        for number, point in enumerate(points, start=1):
            if directory.result(point.name) is not None:
                continue
            reporter.say(f"Point {number} of {len(points)}: {point.name}")
            run = output / "runs" / point.name
            if not runs.can_resume(run):
                warn_of_changes_without_effect(preset_of(preset, point.settings), point.settings, reporter)
                runs.begin(files, run, point.settings, reporter)
            try:
                stopped_by = runs.train(run, chosen_device, reporter)
            except UserError as error:  # it diverges
                failed[point.name] = str(error)
                reporter.warn(f"{point.name}: {error}")
                continue
            if stopped_by:
                raise Stopped(stopped_by)
            translator = Translator.load(run, device)
            translate = translate_with(translator, search, beam)
            translations, seconds = directory.decode(point.name, digest(weights_of(run)), sources, translate, reporter)
            parameters = sum(parameter.numel() for parameter in translator.model.parameters())
            record = training_record(point.values, read_log(run), parameters) | {"seconds": seconds}
            if record["bits_per_character"] is None:
                raise UserError(f"{run}: its log has no validation; remove it to train it again")
            directory.finish(point.name, record | scores(translations, references))
        records = directory.results()
        if not records:
            return SweepResults(records, None, len(points), failed)
        table = training_table(records, len(sources))
        directory.write(table, training_plot(records), records)
    return SweepResults(records, table, len(points), failed)


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
        raise UserError(f"grid {text}: expected KEY=VALUE,VALUE..., for example text.lexicon_size=1000,5000")
    return axis


class Point(NamedTuple):
    name: str
    values: dict[str, str]  # by axis
    settings: Config


def grid(axes: Sequence[Axis], configure: Callable[[Sequence[str]], Config]) -> Iterator[Point]:
    """`configure`: what the settings of a point, over those of all, come to."""
    keys = Counter(key for axis in axes for key in axis.keys)
    if keys.most_common(1)[0][1] > 1:
        raise UserError(f"grid: {keys.most_common(1)[0][0]} is given twice")
    values_of_axes = [list(dict.fromkeys(axis.values)) for axis in axes]
    if (count := math.prod(map(len, values_of_axes))) > MOST_POINTS:
        raise UserError(f"grid: has {count:,} points; a sweep can have {MOST_POINTS:,}")
    names: dict[str, Sequence[str]] = {}
    for values in itertools.product(*values_of_axes):
        chosen = {axis.label: value for axis, value in zip(axes, values, strict=True)}
        settings = [f"{key}={value}" for axis, value in zip(axes, values, strict=True) for key in axis.keys]
        name = re.sub(r"[^\w.+-]", "_", ".".join(f"{label}-{value}" for label, value in chosen.items()))
        if names.setdefault(name, settings) is not settings:  # of a file, they would be one
            raise UserError(f"grid: {' '.join(settings)} and {' '.join(names[name])} are too alike to be told apart")
        yield Point(name, chosen, configure(settings))


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
