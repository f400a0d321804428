"""SSMT and the paper's baselines on the same text for the same time: quality and learning curves, as Markdown.

    python benchmarks/baselines.py DATA en ss [--preset tiny] [--minutes 30] [--output runs/baselines] [--figures DIR]

DATA has train.en, train.ss, dev.en and dev.ss (for the endings en and ss). Models are trained one after the other; a
model that is trained already is only measured, and what was interrupted goes on. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch

from ssmt.config import Config, Preset, compose
from ssmt.directory import SEGMENTER
from ssmt.evaluation.model_output import translate_lines
from ssmt.evaluation.plots import learning_curve, save
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.evaluation.translation import TranslationReport, evaluate_translations
from ssmt.progress import Reporter, TerminalReporter
from ssmt.registry import KINDS
from ssmt.text.lines import read_parallel
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import kept_bits, read_log
from ssmt.translator import Translator

SEGMENTER_SHARE, CUTTING_SHARE = 0.43, 0.03  # of dpe's time, for its first two stages
METRICS = ("chrF", "BLEU")
Log = list[dict[str, Any]]


def config_of(model: str, preset: str, minutes: float, settings: list[str]) -> Config:
    """The first model of dpe, the cutting of the text and the second model together take the time of the others."""
    last_stage = minutes * (1 - SEGMENTER_SHARE - CUTTING_SHARE) if KINDS[model].segments_first else minutes
    limits = [f"training.max_minutes={last_stage:g}", f"segmenter.max_minutes={minutes * SEGMENTER_SHARE:g}"]
    return compose(preset, None, [f"model={model}", *limits, *settings])


def log_of(directory: Path) -> Log:
    """A run's log; its minutes begin with the training of its segmenter, if it has one."""
    first = directory / SEGMENTER
    before = read_log(first)[-1]["minutes"] if first.exists() else 0.0
    return [line | {"minutes": before + line["minutes"]} for line in read_log(directory)]


def curve(log: Log, key: str) -> tuple[list[float], list[float]]:
    lines = [line for line in log if key in line]
    return [line["minutes"] for line in lines], [line[key] for line in lines]


def as_table(logs: Mapping[str, Log], parameters: Mapping[str, int], quality: TranslationReport) -> Table:
    bits = {name: kept_bits(log) or math.inf for name, log in logs.items()}
    rows = []
    for name, log in logs.items():
        scores = [quality[name, metric] for metric in METRICS]
        rows.append(
            (
                Cell(name),
                Cell(f"{parameters[name]:,}"),
                Cell(f"{log[-1]['update']:,}"),
                Cell(f"{log[-1]['minutes']:.1f}"),
                Cell(f"{bits[name]:.3f}", underlined=bits[name] == min(bits.values())),
                *(
                    Cell(f"{score.score:.1f}", score.is_best, score.not_significantly_worse_than_best)
                    for score in scores
                ),
            )
        )
    notes = [
        "Bits per character: of ssmt, of the sum over segmentations; of the others, of the one they are given.",
        "The best of a column is underlined; bold is what does not differ from it with p < 0.05 (paired bootstrap).",
        *(f"{metric}: {quality[name, metric].signature}" for metric in METRICS),
    ]
    return Table(
        ("Model", "Parameters", "Updates", "Minutes", "Bits per character", *METRICS), tuple(rows), "", tuple(notes)
    )


def measure(directories: Mapping[str, Path], data: Path, endings: tuple[str, str], reporter: Reporter) -> Table:
    sources, references = read_parallel(*(data / f"dev.{ending}" for ending in endings))
    translations, parameters = {}, {}
    for name, directory in directories.items():
        translator = Translator.load(directory, "cpu")
        parameters[name] = sum(parameter.numel() for parameter in translator.model.parameters())
        translated = translate_lines(translator, sources, reporter=reporter, title=f"translating with {name}")
        translations[name] = [translation.text for translation in translated]
    quality = evaluate_translations(translations, references, metrics=METRICS)
    return as_table({name: log_of(directory) for name, directory in directories.items()}, parameters, quality)


def draw(logs: Mapping[str, Log], directory: Path) -> None:
    for key, label, name in (
        ("valid_bits_per_character", "bits per character", "baselines-bits.svg"),
        ("valid_chrf", "chrF of validation sentences, greedy", "baselines-chrf.svg"),
    ):
        curves = {model: curve(log, key) for model, log in logs.items()}
        save(learning_curve(curves, {}, "minutes", label), directory / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("endings", nargs=2, help="of the files of both languages, source first")
    parser.add_argument("--models", nargs="+", choices=list(KINDS), default=["bpe", "ulm", "dpe", "ssmt"])
    parser.add_argument("--preset", choices=get_args(Preset), default="tiny")
    parser.add_argument("--minutes", type=float, default=30.0, help="training time of each model")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--output", type=Path, default=Path("runs/baselines"), help="where the runs go")
    parser.add_argument("--figures", type=Path, help="a directory for the plots of the learning curves")
    arguments = parser.parse_args()
    reporter = TerminalReporter()
    files = [arguments.data / f"{part}.{ending}" for part in ("train", "dev") for ending in arguments.endings]
    directories = {model: arguments.output / model for model in arguments.models}
    for model, directory in directories.items():
        config = config_of(model, arguments.preset, arguments.minutes, arguments.settings)
        run.begin_or_adopt(TrainingFiles(*files), directory, config, reporter)
        if run.train(directory, torch.device("cpu"), reporter):
            raise SystemExit("Stopped; the same command goes on")
    print(markdown(measure(directories, arguments.data, tuple(arguments.endings), reporter)))
    if arguments.figures:
        draw({model: log_of(directory) for model, directory in directories.items()}, arguments.figures)


if __name__ == "__main__":
    main()
