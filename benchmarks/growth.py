"""How the cost of SSMT grows: time per character against sentence length, lexicon size, L and beam.

    python benchmarks/growth.py [--preset small] [--repetitions 3] [--figure growth.svg] [--json growth.json] [--smoke]

Training is one update of a batch of about 6,400 characters; decoding is marginal search of 16 sentences at once, all
outputs of the same length. Weights are random and the text is made up: neither changes the amount of work. What is
compared alternates within one repetition, and the fastest counts. The default of each setting is marked in the table.
--smoke only shows that it all runs: its sizes are too small to measure anything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from decoding import decode_ssmt, made_up_sources, measure
from random_models import made_up_text, random_ssmt
from ssmt.model.ssmt import SSMT
from training import batch_for, trainer_of

NAMES = {"length": "characters of a sentence", "lexicon": "lexicon entries", "L": "longest segment", "beam": "beam"}


@dataclass(frozen=True)
class Plan:
    """The values of each setting, and the one that it has while another changes."""

    values: Mapping[str, Sequence[int]]
    usual: Mapping[str, int]
    characters: int  # of a training batch
    sentences: int  # decoded at once
    settings: tuple[str, ...] = ()  # of all models, beyond their preset


PLAN = Plan(
    values={
        "length": [50, 100, 200, 400],
        "lexicon": [1_000, 5_000, 10_000, 20_000],
        "L": [3, 5, 7, 10],
        "beam": [1, 2, 5, 10, 20],
    },
    usual={"length": 100, "lexicon": 5_000, "L": 5, "beam": 5},
    characters=6400,
    sentences=16,
)
SMOKE = Plan(
    values={"length": [5, 10], "lexicon": [150, 200], "L": [2, 3], "beam": [1, 2]},
    usual={"length": 10, "lexicon": 150, "L": 2, "beam": 2},
    characters=20,
    sentences=2,
    settings=("text.source_vocabulary=60", "network.width=16", "network.heads=2", "network.feedforward=32"),
)


def model_with(preset: str, plan: Plan, setting: str, value: int) -> SSMT:
    chosen = {**plan.usual, setting: value}
    sizes = f"text.lexicon_size={chosen['lexicon']}", f"text.longest_segment={chosen['L']}"
    return random_ssmt(preset, *plan.settings, *sizes)[0]


def training(model: SSMT, sentences: int, length: int) -> Callable[[], None]:
    """One update on a batch of so many sentences of this length."""
    text = " ".join(made_up_text(200 + sentences * length // 20))
    targets = [text[i * length : (i + 1) * length] for i in range(sentences)]
    sources = [target[: length * 4 // 5] for target in targets]
    return partial(trainer_of(model), batch_for(model, sources, targets))


def decoding(model: SSMT, sentences: int, length: int, beam: int) -> Callable[[], None]:
    return partial(decode_ssmt, model, made_up_sources()[:sentences], "marginal", beam, sentences, length)


def growth(preset: str, plan: Plan, setting: str, repetitions: int) -> list[dict[str, Any]]:
    """Microseconds a character for each value of one setting, the others being as usual."""
    work: dict[str, Callable[[], None]] = {}
    characters: dict[str, int] = {}
    for value in plan.values[setting]:
        length = value if setting == "length" else plan.usual["length"]
        if setting != "beam":  # training has none
            sentences = plan.characters // length
            work[f"training {value}"] = training(model_with(preset, plan, setting, value), sentences, length)
            characters[f"training {value}"] = sentences * length
        beam = value if setting == "beam" else plan.usual["beam"]
        work[f"decoding {value}"] = decoding(model_with(preset, plan, setting, value), plan.sentences, length, beam)
        characters[f"decoding {value}"] = plan.sentences * length
    seconds = {name: min(taken) for name, taken in measure(work, repetitions).items()}
    return [
        {
            "setting": setting,
            "value": value,
            **{
                kind: seconds[f"{kind} {value}"] / characters[f"{kind} {value}"] * 1e6
                for kind in ("training", "decoding")
                if f"{kind} {value}" in seconds
            },
        }
        for value in plan.values[setting]
    ]


def markdown(rows: list[dict[str, Any]], usual: Mapping[str, int]) -> str:
    lines = ["| setting | value | training, µs a character | decoding, µs a character |", "|:--|--:|--:|--:|"]
    for row in rows:
        value = f"{row['value']:,}"
        if row["value"] == usual[row["setting"]]:
            value = f"**{value}**"
        spent = (f"{row[kind]:.0f}" if kind in row else "" for kind in ("training", "decoding"))
        lines.append(f"| {NAMES[row['setting']]} | {value} | {' | '.join(spent)} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel a setting; the dotted line is growth in proportion to the setting."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.9), layout="constrained")
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    axes = figure.subplots(1, len(settings))
    for axis, setting in zip(axes, settings, strict=True):
        of_setting = [row for row in rows if row["setting"] == setting]
        values = [row["value"] for row in of_setting]
        for kind, colour in (("training", "#2563eb"), ("decoding", "#d97706")):
            points = [(row["value"], row[kind]) for row in of_setting if kind in row]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", color=colour, label=kind)
        (first, *_, last), start = values, of_setting[0]["decoding"]
        axis.plot([first, last], [start, start * last / first], ":", color="#888888", label="in proportion")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(values, [f"{value:,}" for value in values])
        axis.minorticks_off()
        axis.set_xlabel(NAMES[setting])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("µs a character")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--figure", type=Path, help="draw it here (needs matplotlib)")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--smoke", action="store_true", help="sizes so small that they measure nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = SMOKE if arguments.smoke else PLAN
    rows = [row for setting in plan.values for row in growth(arguments.preset, plan, setting, arguments.repetitions)]
    print(markdown(rows, plan.usual))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
