"""Plots by matplotlib (the extra `plots`): learning curves, precision and recall, divergences, sweeps.

Every function returns a figure. `save` writes it as PNG, SVG or PDF; `inline_svg` gives the same drawing to a web page,
with its colours as CSS variables, so that one drawing serves light and dark pages.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from ssmt.errors import UserError
from ssmt.evaluation.composition import Subset
from ssmt.evaluation.morphology import PrecisionRecallCurve
from ssmt.outputs import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Parameters = ParamSpec("Parameters")
Points = tuple[Sequence[float], Sequence[float]]  # x and y

SUFFIXES = (".png", ".svg", ".pdf")
PAPER, INK, FAINT, GRID = "#ffffff", "#24292f", "#6b7280", "#e3e6ea"
SERIES = ("#2f6fb7", "#d0622a", "#2b9070", "#8d5fb4", "#b58900", "#c23b6e", "#5b7083", "#7a5230")
MARKERS = "osD^vPX*"
# What the colours are called on a page; the page's style sheet says what they are there.
_VARIABLES = {PAPER: "none", INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)"} | {
    colour: f"var(--series-{number})" for number, colour in enumerate(SERIES)
}
_WIDTH, _HEIGHT = 5.2, 3.2  # inches
_MOST_POINTS = 500  # of a curve: more cannot be seen
_LEAST_RANGE = 0.25  # of an axis of values, as a share of the highest
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "svg.hashsalt": "ssmt",  # the same numbers give the same file
}


def _styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Draw in our style, whatever the user's own settings of matplotlib are."""

    @functools.wraps(draw)
    def in_style(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        require()
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return in_style


def require(path: str | Path | None = None) -> None:
    """Refuse early what would fail late: no matplotlib, or a file of a kind that cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("Plots are drawn by matplotlib, which is not installed: pip install ssmt[plots]")
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: a plot's name ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if not Path(path).resolve().parent.is_dir():
        raise UserError(f"{path}: there is no directory {Path(path).parent}")


def save(figure: Figure, path: str | Path) -> None:
    require(path)
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(_drawn(figure, Path(path).suffix.lower().removeprefix(".")))


def inline_svg(figure: Figure, label: str, identity: str) -> str:
    """An <svg> element for a page; `identity` keeps its ids apart from those of other plots there."""
    svg = _drawn(figure, "svg").decode("utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=id=")|(?<=href="#)|(?<=url\(#)', f"{identity}-", svg)
    svg = re.sub("#[0-9a-f]{6}", lambda colour: _VARIABLES.get(colour[0], colour[0]), svg)
    head, rest = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    assert view is not None, "matplotlib says how large its drawings are"
    return f'<svg {view[0]} role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">{rest}'


@_styled
def learning_curve(
    validated: Mapping[str, Points], trained: Mapping[str, Points], x_label: str, y_label: str, title: str = ""
) -> Figure:
    """A validation curve of each run, and its training curve dashed where there is one."""
    figure, axes = _figure(title, x_label, y_label)
    names = list(validated)
    for name, (x, y) in validated.items():
        style = _style(names, name)
        if name in trained:
            axes.plot(*trained[name], color=style["color"], linewidth=1, linestyle=(0, (3, 2)), alpha=0.7)
        axes.plot(x, y, label=name, **style | {"marker": "." if len(x) > 12 else style["marker"]})
    if trained:
        axes.plot([], [], color=FAINT, linewidth=1, linestyle=(0, (3, 2)), label="on training text")
    _keep_in_view([y for _, y in validated.values()], [y for _, y in trained.values()], axes)
    _legend(axes)
    return figure


@_styled
def precision_recall(
    curves: Mapping[str, PrecisionRecallCurve], points: Mapping[str, tuple[float, float]], order: Sequence[str] = ()
) -> Figure:
    """Curves over the posterior threshold with their best F1, and points (precision, recall) of fixed segmentations.

    `order` lists all systems where their colours shall be those of other plots."""
    import numpy as np

    figure, axes = _figure("", "recall (%)", "precision (%)")
    for f1 in (20, 40, 60, 80):
        recalls = np.linspace(f1 / (2 - f1 / 100), 100, 100)  # from precision 100 on
        axes.plot(recalls, f1 * recalls / (2 * recalls - f1), color=GRID, linewidth=0.9, zorder=1)
        axes.annotate(f"F1 {f1}", (100, f1 * 100 / (200 - f1)), xytext=(3, 0), textcoords="offset points",
                      color=FAINT, fontsize=7, va="center", annotation_clip=False)  # fmt: skip
    names = list(order or dict.fromkeys([*curves, *points]))
    drawn = {name: curve for name, curve in curves.items() if not curve.is_one_point}
    for name, curve in drawn.items():
        colour, kept = _style(names, name)["color"], _thinned(len(curve.recall))
        axes.plot(curve.recall[kept], curve.precision[kept], color=colour, zorder=3)
        best = (curve.recall[curve.best], curve.precision[curve.best])
        axes.plot(*best, "o", color=colour, markersize=6, markerfacecolor=PAPER, markeredgewidth=1.6, zorder=5)
    for name in dict.fromkeys([*curves, *points]):  # numbers are in the legend: beside the dots they collide
        label = name
        if name in points:
            precision, recall = points[name]
            label += f": F1 {2 * precision * recall / max(precision + recall, 1e-9):.1f}"
        if name in drawn:
            curve = drawn[name]
            threshold = "< 0.01" if curve.best_threshold < 0.01 else f"{curve.best_threshold:.2f}"
            label += f"{',' if name in points else ':'} best {curve.f1[curve.best]:.1f} at {threshold}"
        at = ([points[name][1]], [points[name][0]]) if name in points else ([], [])
        line = "-" if name in drawn else "none"
        axes.plot(*at, label=label, zorder=5, **_style(names, name) | {"markersize": 6, "linestyle": line})
    if drawn:
        axes.plot([], [], "o", color=FAINT, markerfacecolor=PAPER, label="best F1 of a curve")
    axes.set(xlim=(0, 100), ylim=(0, 103))
    axes.grid(False)
    _legend(axes, loc="lower left")
    return figure


@_styled
def bars(values: Mapping[str, Mapping[str, float]], y_label: str, title: str = "", order: Sequence[str] = ()) -> Figure:
    """Groups of bars, `values[group][system]`: chrF of each system on each subset is the paper's Figure 3."""
    figure, axes = _figure(title, "", y_label)
    systems = list(dict.fromkeys(system for group in values.values() for system in group))
    width = 0.8 / len(systems)
    numbers = [number for group in values.values() for number in group.values()]
    for index, system in enumerate(systems):
        at = [place + (index - (len(systems) - 1) / 2) * width for place in range(len(values))]
        heights = [group[system] for group in values.values()]
        colour = _style(list(order or systems), system)["color"]
        axes.bar(at, heights, width * 0.9, color=colour, label=system)
        if len(numbers) <= 24:
            for x, height in zip(at, heights, strict=True):
                axes.annotate(f"{height:.1f}", (x, height), xytext=(0, 2), textcoords="offset points", ha="center",
                              fontsize=8, color=INK)  # fmt: skip
    axes.set_xticks(range(len(values)), list(values))
    axes.grid(False, axis="x")
    axes.set_ylim(0, max([*numbers, 1]) * 1.25)  # from zero: bars lie otherwise
    _legend(axes, ncols=min(len(systems), 4), loc="upper left")
    return figure


@_styled
def growth(subsets: Iterable[Subset], title: str = "") -> Figure:
    """Compound and atom divergence of each subset while it grows, and the divergence it was to reach."""
    figure, axes = _figure(title, "sentences chosen", "divergence from training text")
    for index, subset in enumerate(subsets):
        colour, x = SERIES[index % len(SERIES)], range(1, len(subset.chosen) + 1)
        target = f"{subset.target_divergence:g}"
        axes.plot(x, subset.compound_divergences, color=colour, label=f"words, target {target}")
        axes.plot(
            x,
            subset.atom_divergences,
            color=colour,
            linestyle=(0, (3, 2)),
            linewidth=1.2,
            label=f"morphemes, target {target}",
        )
        axes.axhline(subset.target_divergence, color=colour, linewidth=0.7, alpha=0.6)
    axes.set_ylim(0, 1)
    _legend(axes, ncols=1, loc="upper right")
    return figure


@_styled
def lines(series: Mapping[str, Points], x_label: str, y_label: str, title: str = "") -> Figure:
    """One line with markers for each series. Where x are whole numbers, those are the ticks."""
    figure, axes = _figure(title, x_label, y_label)
    for name, (x, y) in series.items():
        axes.plot(x, y, label=name, **_style(list(series), name))
    places = sorted({value for x, _ in series.values() for value in x})
    axes.set_xticks(places, [f"{place:g}" for place in places])
    _legend(axes)
    return figure


@_styled
def categories(series: Mapping[str, tuple[Sequence[str], Sequence[float]]], x_label: str, y_label: str) -> Figure:
    """As `lines`, where x are words or numbers far apart: one place for each, in the order of appearance."""
    figure, axes = _figure("", x_label, y_label)
    places = {label: place for place, label in enumerate(dict.fromkeys(l for x, _ in series.values() for l in x))}  # noqa: E741
    for name, (x, y) in series.items():
        axes.plot([places[label] for label in x], y, label=name, **_style(list(series), name))
    axes.set_xticks(range(len(places)), list(places))
    axes.margins(x=0.1)
    _legend(axes)
    return figure


def _figure(title: str, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_title(title)
    axes.tick_params(length=0)
    axes.margins(y=0.08)
    return figure, axes


def _drawn(figure: Figure, form: str) -> bytes:
    import matplotlib

    stream = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # the same numbers give the same file
    with matplotlib.rc_context(_STYLE):
        figure.savefig(stream, format=form, dpi=200, metadata=undated)
    return stream.getvalue()


def _style(names: Sequence[str], name: str) -> dict[str, Any]:
    """A system's colour and marker depend on its place among all, so that it looks the same in every plot."""
    index = names.index(name)
    return {"color": SERIES[index % len(SERIES)], "marker": MARKERS[index % len(MARKERS)]}


def _legend(axes: Axes, **options: Any) -> None:
    _, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(fontsize=8, labelcolor=INK, frameon=False, **options)


def _keep_in_view(main: Sequence[Sequence[float]], others: Sequence[Sequence[float]], axes: Axes) -> None:
    """The first updates of training are far from everything else: the axis follows the validation curves."""
    numbers = [number for row in main for number in row]
    others_late = [number for row in others for number in row[len(row) // 4 :]]
    if numbers:
        low, high = min(numbers + others_late), max(numbers + others_late)
        missing = max(0.0, _LEAST_RANGE * abs(high) - (high - low))  # little change should not look like much
        margin = missing / 2 + (0.08 * (high - low) or 0.1)
        axes.set_ylim(low - margin, high + margin)


def _thinned(length: int) -> list[int]:
    """Indices of at most `_MOST_POINTS` points, first and last included."""
    if length <= _MOST_POINTS:
        return list(range(length))
    return sorted({round(step * (length - 1) / (_MOST_POINTS - 1)) for step in range(_MOST_POINTS)})
