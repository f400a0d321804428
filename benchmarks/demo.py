"""The README's numbers: SSMT and BPE of equal size and time on the embedded corpus, over several seeds, as Markdown.

    python benchmarks/demo.py [--seeds 1 3] [--output DIR]

Settings, training and measures are those of `ssmt demo`, whose settings were chosen on seed 2. A seed draws another
corpus (other words are set aside for `test.hard`) and other initial weights. Interrupted, it goes on in DIR; `ssmt demo
--seed N --output DIR/seed-N` is the same run. It takes ten minutes a seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import torch

from ssmt.demo.comparison import SPLITS, Measured, Model, as_table, measure, train
from ssmt.demo.corpus import HELD_OUT, SENTENCES, ensure_corpus
from ssmt.demo.settings import MODELS, config_of
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.progress import Reporter, TerminalReporter


def compare(
    directory: Path, seed: int, sentences: int, held_out: int, minutes: float | None, reporter: Reporter
) -> tuple[dict[str, Model], list[Measured]]:
    """Both models of one seed, trained unless they are already, and what they made of both test sets."""
    corpus = directory / "corpus"
    ensure_corpus(corpus, sentences, seed, held_out=held_out)
    for name in MODELS:
        if train(corpus, directory / name, config_of(name, minutes, seed), torch.device("cpu"), reporter):
            raise SystemExit("Stopped; the same command goes on")
    models = {name: Model.load(directory / name, "cpu") for name in MODELS}
    return models, [measure(models, corpus, split, reporter) for split in SPLITS]


def mean_and_each(values: Iterable[float]) -> Cell:
    values = list(values)
    return Cell(f"{mean(values):.1f} ({', '.join(f'{value:.1f}' for value in values)})")


def means(of_seeds: list[list[Measured]], seeds: list[int]) -> Table:
    """Mean scores over the seeds, and in brackets those of each seed."""
    rows = []
    for split, of_split in zip(SPLITS, zip(*of_seeds, strict=True), strict=True):
        for name in MODELS:
            boundaries = [measured.morphology[name].boundary_micro for measured in of_split]
            rows.append(
                (
                    Cell(split),
                    Cell(name),
                    mean_and_each(measured.chrf(name) for measured in of_split),
                    mean_and_each(scores.precision.value for scores in boundaries),
                    mean_and_each(scores.recall.value for scores in boundaries),
                    mean_and_each(scores.f1.value for scores in boundaries),
                )
            )
    columns = ("Test set", "Model", "chrF", "Boundary P", "Boundary R", "Boundary F1")
    return Table(columns, tuple(rows), f"Mean (and each) of the seeds {', '.join(map(str, seeds))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="to train on")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="sentences of each test set")
    parser.add_argument("--minutes", type=float, help="end each training before its updates are made")
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="where the runs go")
    arguments = parser.parse_args()
    of_seeds = []
    for seed in arguments.seeds:
        directory, size = arguments.output / f"seed-{seed}", (arguments.sentences, arguments.held_out)
        models, measured = compare(directory, seed, *size, arguments.minutes, TerminalReporter())
        print(f"Seed {seed}, {torch.get_num_threads()} threads\n\n{markdown(as_table(models, measured))}", flush=True)
        of_seeds.append(measured)
    print(markdown(means(of_seeds, arguments.seeds)))


if __name__ == "__main__":
    main()
