"""Draws the figures of docs/model.md and the README:  python docs/figures/make.py MODEL [--only NAME]

MODEL is a model directory as the tutorial trains it; the README's picture, --only sentence, is of `ssmt demo`'s. The
figures of a given model are the same, bit for bit, each time.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path as Curve
from sentence import draw_sentence
from torch import Tensor

from ssmt import Translator, lattice
from ssmt.demo import Sentence
from ssmt.evaluation.plots import FAINT, GRID, INK, PAPER, SERIES
from ssmt.model.ssmt import SSMT
from ssmt.search.job import Request
from ssmt.search.marginal import MarginalScorer
from ssmt.text.batch import make_batch, padded

SOURCE, TARGET = "The guest who dances sees you.", "Isitatande esivilayo siyakuhika."  # of the demo corpus
WORD = "siyakuhika"  # si|ya|ku|hik|a: it (the guest) - present tense - you - see - final vowel
# Of test.hard, hence unseen; one of those that the demo's model translates rightly.
UNSEEN = Sentence("The children just made the farmer wait.", "A|ba|pomba ba|sa|mu|pub|is|e u|mu|fulu.")
GLOSSES = ("the", "pl", "child", "they", "just", "him", "wait", "make", "pst", "the", "sg", "farmer")

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "text.color": INK,
        "svg.hashsalt": "ssmt",
        "figure.facecolor": PAPER,
    }
)


@dataclass(frozen=True)
class Place:
    """A word in its sentence: the characters first..end-1."""

    word: str
    first: int
    end: int

    @staticmethod
    def of(word: str, sentence: str) -> Place:
        first = sentence.index(word)
        return Place(word, first, first + len(word))


def model_of(translator: Translator) -> SSMT:
    assert isinstance(translator.model, SSMT), "the figures are of SSMT's lattice: give a model of that kind"
    return translator.model


def scores_of(translator: Translator, source: str, target: str) -> tuple[Tensor, Tensor]:
    """The lattice of one pair, and its length."""
    model, vocabulary = model_of(translator), translator.vocabulary
    encoded = vocabulary.encode_sources([source]), vocabulary.encode_targets([target])
    batch = make_batch(*encoded, vocabulary.batch_symbols)
    with torch.inference_mode():
        return model.lattice(batch), batch.target_lengths


def draw_lattice(translator: Translator, source: str, target: str, place: Place) -> Figure:
    """The segments of a word as arcs, as thick as they are probable given the whole sentence and its source."""
    scores, lengths = scores_of(translator, source, target)
    posteriors = lattice.posteriors(scores, lengths)
    on_best_path = lattice.best_path(scores, lengths)[1][0].tolist()
    used, cuts = posteriors.segments[0], posteriors.boundaries[0]
    letters, longest = len(place.word), scores.shape[2]

    figure, axes = blank(10, 4.1)
    for start in range(letters):
        for length in range(1, min(longest, letters - start) + 1):
            row = place.first + start
            probability = float(used[row, length - 1])
            inside = on_best_path[row : row + length]
            starts_there = start == 0 or on_best_path[row - 1]
            best = starts_there and inside[-1] and not any(inside[:-1])
            arc(axes, start, start + length, place.word[start : start + length], probability, best)
    for node in range(letters + 1):
        certainty = 1.0 if node == 0 else float(cuts[place.first + node - 1])
        axes.scatter([node], [0], s=14 + 110 * certainty, color=INK if certainty >= 0.5 else FAINT, zorder=4)
        axes.text(node, -0.88, f"{certainty:.2f}", ha="center", va="center", size=8.5, color=FAINT)
        if node < letters:
            axes.text(node + 0.5, -0.36, place.word[node], ha="center", va="center", size=15)
    axes.text(-0.45, -0.88, "cut:", ha="right", va="center", size=8.5, color=FAINT)
    axes.set(xlim=(-1.0, letters + 0.3), ylim=(-1.1, height_of(min(longest, letters)) + 0.45))
    return figure


def height_of(length: int) -> float:
    return 0.35 + 0.62 * (length - 1)


def arc(axes: Axes, start: int, end: int, text: str, probability: float, best: bool) -> None:
    height, middle = height_of(end - start), (start + end) / 2
    colour = SERIES[1] if best else SERIES[0]
    points = [
        (start, 0.0),
        (start + 0.15 * (end - start), height * 4 / 3),
        (end - 0.15 * (end - start), height * 4 / 3),
    ]
    curve = Curve([*points, (end, 0.0)], [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    width, alpha = (0.7, 0.22) if probability < 0.005 else (0.9 + 7 * probability, 0.45 + 0.55 * probability)
    axes.add_patch(PathPatch(curve, fill=False, lw=width, edgecolor=colour, alpha=alpha, zorder=2 + probability))
    if probability >= 0.05:
        label = f"{text}  {probability:.2f}" if end - start > 1 else f"{text} {probability:.2f}"
        box = {"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.92}
        axes.text(middle, height, label, ha="center", va="center", size=9, color=colour, bbox=box, zorder=5)


def draw_prefix_mass(translator: Translator, source: str, target: str, place: Place) -> Figure:
    """For every prefix of a word: how its probability is shared among the places where the last segment may have
    begun."""
    shares, logs = prefix_masses(translator, source, target)
    figure = Figure(figsize=(10, 4.0), layout="constrained")
    axes = figure.subplots()
    colours = [SERIES[number] for number in (0, 2, 4, 1, 3, 5, 6, 7)] + [FAINT, INK]
    for column in range(len(place.word)):
        bottom = 0.0
        row = shares[place.first + column]
        for start in range(column, -1, -1):  # the youngest below, so that a segment under way climbs
            share = row.get(column - start, 0.0)
            axes.bar(column, share, 0.82, bottom, color=colours[start % len(colours)], edgecolor=PAPER, linewidth=1)
            if share >= 0.07:
                text = place.word[start : column + 1]
                axes.text(column, bottom + share / 2, text, ha="center", va="center", size=9.5, color=PAPER)
            bottom += share
        position = place.first + column
        conditional = math.exp(logs[position] - (logs[position - 1] if position else 0.0))
        axes.text(column, 1.03, f"{conditional:.2f}", ha="center", va="bottom", size=8.5, color=FAINT)
    axes.text(-0.62, 1.03, "p(letter | before)", ha="right", va="bottom", size=8.5, color=FAINT)
    axes.set_xticks(range(len(place.word)), list(place.word), size=15)
    axes.set_ylabel("share of the prefix's mass, by the\nsegment that its last letter is in", color=FAINT, size=9.5)
    axes.set(xlim=(-0.55, len(place.word) - 0.45), ylim=(0, 1.12))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.tick_params(axis="both", length=0, colors=FAINT)
    axes.tick_params(axis="x", colors=INK)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure


@torch.inference_mode()
def prefix_masses(translator: Translator, source: str, target: str) -> tuple[list[dict[int, float]], list[float]]:
    """For every prefix of the target: the share of its mass by how many letters its last segment had before the last
    one, and the logarithm of its mass. What marginal decoding computes, along a given string."""
    model, vocabulary = model_of(translator), translator.vocabulary
    symbols = torch.tensor(vocabulary.encode_prefix(target))
    request = Request.of_lengths(vocabulary.start, torch.tensor([len(symbols)]))
    memory = model.encode(padded(vocabulary.encode_sources([source]), vocabulary.source_pad))
    scorer = MarginalScorer(model, memory, 1, request)
    shares, logs = [], []
    for symbol in symbols:
        total = float(scorer.extensions()[0, symbol])
        by_length = scorer.masses_by_length()[:, 0, symbol]
        shares.append({age: share for age, share in enumerate((by_length / by_length.sum()).tolist()) if share > 0})
        logs.append(total)
        scorer.advance(torch.tensor([0]), symbol.unsqueeze(0))
    return shares, logs


def draw_architecture() -> Figure:
    figure, axes = blank(10, 5.3)
    axes.set(xlim=(0, 20), ylim=(0, 10.6))

    def box(
        x: float, y: float, width: float, height: float, text: str, colour: str = FAINT, fill: float = 0.10
    ) -> None:
        style = "round,pad=0,rounding_size=0.22"
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=colour, ec="none", alpha=fill))
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc="none", ec=colour, lw=1.3))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", size=9.5, linespacing=1.45)

    def arrow(start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
        style = f"arc3,rad={bend}"
        axes.add_patch(
            FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, lw=1.3, color=INK, connectionstyle=style)
        )

    def note(x: float, y: float, text: str, align: str = "center") -> None:
        axes.text(x, y, text, ha=align, va="center", size=8.5, color=FAINT, linespacing=1.4)

    blue, orange, green, violet = SERIES[:4]
    box(0.3, 3.1, 3.9, 1.7, "encoder\nTransformer", blue)
    arrow((2.25, 1.75), (2.25, 3.1))
    note(2.25, 1.3, "source, in subwords\nI | do | understand | .")
    box(5.9, 3.1, 3.9, 1.7, "decoder\ncausal Transformer", blue)
    arrow((4.2, 3.95), (5.9, 3.95))
    arrow((7.85, 1.75), (7.85, 3.1))
    note(7.85, 1.3, "target, in characters\nn g i y a q o n d a .")
    note(
        10.1,
        4.55,
        "$h_j$: a state for each place $j$,\nwhich has read the characters\nbefore it, however they are cut",
        "left",
    )
    arrow((8.0, 4.8), (8.2, 5.75))

    box(5.0, 5.75, 1.6, 1.35, "gate\n$g_j$", violet)
    box(6.9, 5.75, 2.9, 1.35, "character LSTM\n$p_{char}$", orange)
    box(10.1, 5.75, 2.9, 1.35, "lexicon softmax\n$p_{lex}$", green)
    arrow((7.5, 4.8), (5.9, 5.75))
    arrow((8.6, 4.8), (11.2, 5.75))
    note(13.2, 6.43, "rare segments are spelt,\nfrequent ones are listed", "left")
    box(5.0, 8.1, 8.0, 1.2, r"$p(s\,|\,h_j) = g_j\,p_{char}(s\,|\,h_j) + (1-g_j)\,p_{lex}(s\,|\,h_j)$", FAINT)
    for x in (5.8, 8.35, 11.55):
        arrow((x, 7.1), (x, 8.1))
    note(9.0, 9.75, "for every start $j$ and every length up to $L$: a score (Eq. 3)")

    box(14.9, 7.95, 4.7, 1.5, "lattice\nall segmentations at once", blue)
    arrow((13.0, 8.7), (14.9, 8.7))
    for number, text in enumerate(
        [r"training: $\log p(y\,|\,x)$, the sum (Eq. 4)", "the best segmentation", "posteriors of cuts, samples"]
    ):
        y = 5.0 - 0.95 * number
        axes.text(14.95, y, text, va="center", size=9.5)
        axes.scatter([14.65], [y], s=14, color=SERIES[0])
    arrow((18.0, 7.95), (18.0, 5.45))
    return figure


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return figure, axes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a model directory, trained on the demo corpus")
    parser.add_argument("--only", choices=["lattice", "architecture", "prefix-mass", "sentence"], help="figure")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="where the SVG files go")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.model, "cpu")
    place = Place.of(WORD, TARGET)
    figures = {
        "lattice": draw_lattice(translator, SOURCE, TARGET, place),
        "architecture": draw_architecture(),
        "prefix-mass": draw_prefix_mass(translator, SOURCE, TARGET, place),
    }
    for name, figure in figures.items():
        if arguments.only in (None, name):
            figure.savefig(arguments.output / f"{name}.svg", metadata={"Date": None, "Creator": None})
    if arguments.only in (None, "sentence"):
        (translation,) = translator.translate([UNSEEN.english]).texts
        if translation != UNSEEN.target:
            print(f"sentence: {arguments.model} translates it otherwise: {translation}", file=sys.stderr)
        svg = draw_sentence(translator, UNSEEN, GLOSSES)
        (arguments.output / "sentence.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
