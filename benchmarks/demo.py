"""The README's numbers: SSMT and BPE of equal size and time on the embedded corpus, over several seeds, as Markdown.

    python benchmarks/demo.py [--seeds 1 3] [--minutes 2.4] [--output DIR]

Settings, training and measures are those of `ssmt demo`, whose settings were chosen on seed 2, the last of them after a
look at seed 1. A seed draws another corpus (other words are set aside for `test.hard`) and other initial weights.
Interrupted, it goes on in DIR; `ssmt demo --seed N --output DIR/seed-N` is the same run. It takes five minutes a seed:
let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import torch

from ssmt.demo import ensure_corpus
from ssmt.demo.comparison import SPLITS, Measured, Model, as_table, measure, train
from ssmt.demo.settings import MINUTES, MODELS, config_of
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.progress import Reporter, TerminalReporter


def compare(directory: Path, seed: int, minutes: float, reporter: Reporter) -> tuple[dict[str, Model], list[Measured]]:
    """Both models of one seed, trained unless they are already, and what they made of both test sets."""
    corpus = directory / "corpus"
    ensure_corpus(corpus, seed=seed)
    for name in MODELS:
        if train(corpus, directory / name, config_of(name, minutes, seed), torch.device("cpu"), reporter):
            raise SystemExit("Stopped; the same command goes on")
    models = {name: Model.load(directory / name, "cpu") for name in MODELS}
    return models, [measure(models, corpus, split, reporter) for split in SPLITS]


def means(found: list[list[Measured]], seeds: list[int]) -> Table:
    """Mean scores over the seeds, and in brackets those of each seed."""

    def cell(score: Callable[[Measured], float], split: int) -> Cell:
        values = [score(measured[split]) for measured in found]
        return Cell(f"{mean(values):.1f} ({', '.join(f'{value:.1f}' for value in values)})")

    rows = []
    for split, title in enumerate(SPLITS):
        for name in MODELS:
            parts = ("precision", "recall", "f1")
            boundaries = [
                cell(lambda one, part=part: getattr(one.morphology[name].boundary_micro, part).value, split)  # type: ignore[misc] # noqa: B023
                for part in parts
            ]
            rows.append((Cell(title), Cell(name), cell(lambda one: one.chrf(name), split), *boundaries))  # noqa: B023
    columns = ("Test set", "Model", "chrF", "Boundary P", "Boundary R", "Boundary F1")
    return Table(columns, tuple(rows), f"Mean (and each) of the seeds {', '.join(map(str, seeds))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="training time of each model")
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="where the runs go")
    arguments = parser.parse_args()
    found = []
    for seed in arguments.seeds:
        models, measured = compare(arguments.output / f"seed-{seed}", seed, arguments.minutes, TerminalReporter())
        print(f"Seed {seed}, {torch.get_num_threads()} threads\n\n{markdown(as_table(models, measured))}", flush=True)
        found.append(measured)
    print(markdown(means(found, arguments.seeds)))


if __name__ == "__main__":
    main()
