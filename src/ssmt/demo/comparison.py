"""SSMT against BPE on the embedded corpus: trained for the same time, measured in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ssmt.config import Config
from ssmt.demo.corpus import SOURCE, TARGET
from ssmt.demo.settings import MODELS
from ssmt.evaluation.gold import Gold, read_gold
from ssmt.evaluation.model_output import gold_cuts, translate_lines
from ssmt.evaluation.morphology import MorphologyScores, evaluate_segmentation
from ssmt.evaluation.tables import Cell, Table
from ssmt.evaluation.translation import TranslationReport, evaluate_translations
from ssmt.progress import Reporter
from ssmt.text.lines import read_parallel
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.translator import Translation, Translator

SPLITS = ("test.hard", "test")


def train(corpus: Path, directory: Path, config: Config, device: torch.device, reporter: Reporter) -> str | None:
    """Train a model, or go on where its training stopped; returns the name of the signal that ended it, if one did."""
    names = [f"{split}.{ending}" for split in ("train", "dev") for ending in (SOURCE, TARGET)]
    run.begin_or_adopt(TrainingFiles(*(corpus / name for name in names)), directory, config, reporter)
    return run.train(directory, device, reporter)


@dataclass(frozen=True)
class Model:
    """A trained model, and what its training took."""

    translator: Translator
    updates: int
    minutes: float

    @staticmethod
    def load(directory: Path, device: str = "auto") -> Model:
        log = read_log(directory)
        updates, minutes = (max(line.get(key, 0) for line in log) for key in ("update", "minutes"))
        return Model(Translator.load(directory, device), updates, minutes)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.translator.model.parameters())


@dataclass(frozen=True)
class Measured:
    """What the models, by their names, made of one test set."""

    split: str
    gold: Gold
    translations: dict[str, list[Translation]]
    quality: TranslationReport
    morphology: dict[str, MorphologyScores]

    def chrf(self, model: str) -> float:
        return self.quality[model, "chrF"].score

    def boundary_f1(self, model: str) -> float:
        return self.morphology[model].boundary_micro.f1.value


def measure(models: Mapping[str, Model], corpus: Path, split: str, reporter: Reporter) -> Measured:
    """chrF of the translations; and for both models alike, the boundaries of the best segmentation of the references,
    given their sources."""
    sources, references = read_parallel(corpus / f"{split}.{SOURCE}", corpus / f"{split}.{TARGET}")
    gold = read_gold(corpus / f"{split}.sentences.tsv")
    translations, morphology = {}, {}
    for name, model in models.items():
        title = f"translating {split} with {name}"
        translations[name] = translate_lines(model.translator, sources, reporter=reporter, title=title)
        morphology[name] = evaluate_segmentation(gold, gold_cuts(model.translator, gold))
    texts = {name: [one.text for one in found] for name, found in translations.items()}
    quality = evaluate_translations(texts, references, metrics=["chrF"], baseline=MODELS[0])
    return Measured(split, gold, translations, quality, morphology)


def as_table(models: Mapping[str, Model], measured: Sequence[Measured]) -> Table:
    """One row a model: its size, how long it trained, and its scores on each test set."""
    rows = []
    for name, model in models.items():
        row = [Cell(name), Cell(f"{model.parameters:,}"), Cell(f"{model.updates:,}"), Cell(f"{model.minutes:.1f}")]
        for one in measured:
            for score in (one.chrf, one.boundary_f1):
                row.append(Cell(f"{score(name):.1f}", bold=score(name) == max(map(score, models))))
        rows.append(tuple(row))
    heads = [f"{one.split} {score}" for one in measured for score in ("chrF", "F1")]
    columns = ("Model", "Parameters", "Updates", "Minutes", *heads)
    title = "Equal size, equal time: chrF and F1 of morpheme boundaries"
    return Table(columns, tuple(rows), title, tuple(_notes(measured)))


def _notes(measured: Sequence[Measured]) -> Iterator[str]:
    baseline, model = MODELS
    yield "test.hard: known morphemes in words that training never showed; test: sentences like those of training."
    for one in measured:
        yield f"{one.split}: chrF differs with p = {one.quality[model, 'chrF'].p_value:.3f} (paired bootstrap)."
    yield f"chrF: {measured[0].quality[baseline, 'chrF'].signature}"
    yield f"F1 of morpheme boundaries, in percent: {measured[0].morphology[baseline].signature}"
