"""SSMT against BPE on the embedded corpus: of the same size, measured in the same way.

comparison = compare("demo")
print(tables.markdown(as_table(comparison.models, comparison.measured)))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ssmt.config import Config
from ssmt.demo.corpus import HELD_OUT, SEED, SENTENCES, SOURCE, TARGET, ensure_corpus
from ssmt.demo.settings import CORPUS, MODELS, UPDATES, config_of
from ssmt.devices import choose_device
from ssmt.errors import Stopped, UserError
from ssmt.evaluation import plots
from ssmt.evaluation.examples import evenly_spaced
from ssmt.evaluation.gold import Gold, GoldLine, read_gold, segments_of
from ssmt.evaluation.model_output import gold_cuts, translate_lines
from ssmt.evaluation.morphology import MorphologyScores, evaluate_segmentation
from ssmt.evaluation.report import runs_report
from ssmt.evaluation.tables import Cell, Table
from ssmt.evaluation.translation import TranslationReport, evaluate_translations
from ssmt.progress import Reporter
from ssmt.text.lines import read_parallel
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.translator import Translation, Translator, join_segments

SPLITS = ("test.hard", "test")


@dataclass(frozen=True)
class Comparison:
    """Both models by their names, what they made of each test set, and the page that shows it."""

    models: dict[str, Model]
    measured: list[Measured]
    page: Path | None  # none where nothing draws its plots

    @property
    def unfinished(self) -> list[str]:
        """The models that have not made all of their updates."""
        return unfinished(self.models)


def compare(
    output: str | Path,
    *,
    sentences: int = SENTENCES,
    held_out: int = HELD_OUT,
    seed: int = SEED,
    minutes: float | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Comparison:
    """Write the corpus, train both models, measure them; what is there already is not done again.

    `minutes` ends each training before all of its updates are made, for a look: its numbers mean nothing yet.
    A signal that stops a training raises `Stopped`.
    """
    reporter, output = reporter or Reporter(), Path(output)
    chosen_device, corpus = choose_device(device), output / CORPUS
    ensure_corpus(corpus, sentences, seed, held_out=held_out)
    reporter.say(f"{corpus}: {sentences:,} pairs of English and an artificial language that nobody speaks")
    for number, name in enumerate(MODELS, start=1):
        limit = "" if minutes is None else f" or {minutes:g} minutes"
        too = "" if number == len(MODELS) else "; the next takes about as long"
        reporter.say(
            f"\nModel {number} of {len(MODELS)}, {name}: {UPDATES[name]:,} updates{limit}, in {output / name}{too}"
        )
        if stopped_by := train(corpus, output / name, config_of(name, minutes, seed), chosen_device, reporter):
            raise Stopped(stopped_by)
    reporter.say("\nTranslating and measuring")
    models = {str(name): Model.load(output / name, device) for name in MODELS}
    measured = [measure(models, corpus, split, reporter) for split in SPLITS]
    return Comparison(models, measured, _write_page(output, corpus, device, reporter))


def _write_page(output: Path, corpus: Path, device: str, reporter: Reporter) -> Path | None:
    """The report of both runs on the hard test set, if what draws its plots is installed."""
    try:
        plots.require()
    except UserError as error:
        reporter.warn(f"no report: {error}")
        return None
    hard, path = SPLITS[0], output / "report.html"
    page = runs_report(
        [output / name for name in MODELS],
        source=corpus / f"{hard}.{SOURCE}",
        reference=corpus / f"{hard}.{TARGET}",
        gold=corpus / f"{hard}.sentences.tsv",
        title="ssmt demo: an artificial language",
        device=device,
        reporter=reporter,
    )
    page.write(path, reporter)
    return path


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
class Example:
    """A sentence with its gold morphemes, and what the models made of it."""

    line: GoldLine
    translations: dict[str, Translation]

    @property
    def reference(self) -> str:
        """With a hyphen between morphemes."""
        return join_segments(segments_of(self.line.text, self.line.cuts), "-")


@dataclass(frozen=True)
class Measured:
    """What the models, by their names, made of one test set."""

    split: str
    gold: Gold
    translations: dict[str, list[Translation]]
    quality: TranslationReport
    morphology: dict[str, MorphologyScores]

    def examples(self, count: int) -> list[Example]:
        """A few sentences from all over the test set."""
        rows = evenly_spaced(self.gold.texts, count)
        return [
            Example(self.gold.lines[row], {name: lines[row] for name, lines in self.translations.items()})
            for row in rows
        ]

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
        translations[name] = translate_lines(
            model.translator, sources, with_segments=True, reporter=reporter, title=title
        )
        morphology[name] = evaluate_segmentation(gold, gold_cuts(model.translator, gold))
    texts = {name: [translation.text for translation in lines] for name, lines in translations.items()}
    quality = evaluate_translations(texts, references, metrics=["chrF"], baseline=MODELS[0])
    return Measured(split, gold, translations, quality, morphology)


def as_table(models: Mapping[str, Model], measured: Sequence[Measured]) -> Table:
    """One row a model: its size, how long it trained, and its scores on each test set."""
    rows = []
    for name, model in models.items():
        row = [Cell(name), Cell(f"{model.parameters:,}"), Cell(f"{model.updates:,}"), Cell(f"{model.minutes:.1f}")]
        for test in measured:
            for score in (test.chrf, test.boundary_f1):
                row.append(Cell(f"{score(name):.1f}", bold=score(name) == max(map(score, models))))
        rows.append(tuple(row))
    heads = [f"{test.split} {score}" for test in measured for score in ("chrF", "F1")]
    columns = ("Model", "Parameters", "Updates", "Minutes", *heads)
    title = "Models of equal size: chrF and F1 of morpheme boundaries"
    return Table(columns, tuple(rows), title, tuple(_notes(models, measured)))


def unfinished(models: Mapping[str, Model]) -> list[str]:
    """The models that have not made all of their updates."""
    return [name for name, model in models.items() if model.updates < UPDATES[name]]


def _notes(models: Mapping[str, Model], measured: Sequence[Measured]) -> Iterator[str]:
    baseline, model = MODELS
    if begun := unfinished(models):
        made = ", ".join(f"{name} {models[name].updates:,} of {UPDATES[name]:,} updates" for name in begun)
        yield f"STOPPED EARLY: these numbers mean nothing yet, not even which model is better ({made})."
    yield "test.hard: known morphemes in words that training never showed; test: sentences like those of training."
    for test in measured:
        yield f"{test.split}: chrF differs with p = {test.quality[model, 'chrF'].p_value:.3f} (paired bootstrap)."
    yield f"chrF: {measured[0].quality[baseline, 'chrF'].signature}"
    yield f"F1 of morpheme boundaries, in percent: {measured[0].morphology[baseline].signature}"
