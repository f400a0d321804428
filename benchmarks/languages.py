"""What other data is worth: related languages in one model, a model trained before, text of the target language alone.

    python benchmarks/languages.py DATA --output DIR [--model ssmt bpe] [--updates 4000] [--experiment joint ...]

DATA holds a directory for each language (xh, zu, ss) with train.en, train.zu, dev.en, dev.zu and so on. Three
experiments, each of which says what it measured on dev, with p-values by paired bootstrap:

    joint      each language alone with `--updates`, all together with as many for each, then that model on ss alone
    transfer   a model of zu that goes on with 2,000 pairs of ss, against ss from nothing: learning curves
    back       ss with half of its pairs, with the targets of the other half translated back, and with all pairs

Runs are kept in DIR/KIND, and a call goes on where an earlier one stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from ssmt.backtranslation import backtranslate
from ssmt.config import Config, CorpusConfig, DataConfig, compose, compose_from
from ssmt.directory import load_config
from ssmt.errors import Stopped
from ssmt.evaluation import plots, tables
from ssmt.evaluation.systems import evaluate_systems
from ssmt.outputs import open_for_writing
from ssmt.progress import Reporter, reporter_here
from ssmt.search.options import SearchOptions
from ssmt.text.formats import PairWriter
from ssmt.text.lines import read_lines
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.translator import Translator

LANGUAGES = ("xh", "zu", "ss")
RELATED, SMALL = "zu", "ss"  # of transfer: from which to which
BITS = "valid_bits_per_character"
EXPERIMENTS = ("joint", "transfer", "back")


class Study:
    """The runs of one kind of model."""

    def __init__(self, data: Path, output: Path, kind: str, options: argparse.Namespace) -> None:
        self.data, self.output, self.kind, self.options = data, output / kind, kind, options
        self.reporter: Reporter = reporter_here()
        self.output.mkdir(parents=True, exist_ok=True)

    def corpus(self, part: str, language: str, directory: Path | None = None, reverse: bool = False) -> CorpusConfig:
        folder = directory or self.data / language
        sides = [str(folder / f"{part}.{ending}") for ending in ("en", language)]
        source, target = reversed(sides) if reverse else sides
        return CorpusConfig(source=(source,), target=(target,), target_language="en" if reverse else language)

    def config(self, updates: int, start: Path | None = None) -> Config:
        every = max(1, min(updates, self.options.updates) // self.options.validations)
        settings = [f"training.max_updates={updates}", f"training.validate_every={every}", "training.patience=none"]
        settings += ["training.max_epochs=none", f"training.seed={self.options.seed}", *self.options.set]
        if start is None:
            return compose(self.options.preset, None, [f"model={self.kind}", *settings])
        begun = f"start={json.dumps({'model': str(start)})}"
        return compose_from(load_config(start), None, [begun, *settings])

    def trained(self, name: str, data: DataConfig, updates: int, start: Path | None = None) -> Path:
        directory = self.output / name
        self.reporter.say(f"{self.kind}: {name}, {updates:,} updates")
        run.begin_or_adopt(data, directory, self.config(updates, start), self.reporter)
        if stopped_by := run.train(directory, torch.device("cpu"), self.reporter):
            raise Stopped(stopped_by)
        return directory

    def of_language(self, language: str, *more: CorpusConfig) -> DataConfig:
        return DataConfig(train=(self.corpus("train", language), *more), valid=(self.corpus("dev", language),))

    def compare(self, title: str, language: str, models: dict[str, Path]) -> None:
        """chrF and BLEU on dev, each against the first."""
        several = {name for name, path in models.items() if Translator.load(path, "cpu").languages}
        folder = self.output / "translations" / language
        kept: dict[str, Path] = {}
        for name, path in models.items():
            translator = Translator.load(path, "cpu")
            kept[name] = folder / f"{title}.{name}.txt"
            if not kept[name].exists():
                folder.mkdir(parents=True, exist_ok=True)
                asked = translator.into(language) if name in several else translator
                texts = asked.translate(read_lines(self.data / language / "dev.en"), beam=self.options.beam).texts
                with open_for_writing(kept[name]) as stream:
                    stream.writelines(f"{text}\n" for text in texts)
        evaluation = evaluate_systems(
            [self.data / language / f"dev.{language}"],
            hypotheses=kept,
            metrics=["chrF", "BLEU"],
            samples=self.options.samples,
        )
        print(f"\n## {self.kind}, {title}: {language}\n\n{tables.markdown(evaluation.tables()[0])}")

    # Experiments

    def joint(self) -> None:
        updates = self.options.updates
        alone = {
            language: self.trained(f"alone.{language}", self.of_language(language), updates) for language in LANGUAGES
        }
        together = DataConfig(
            train=tuple(self.corpus("train", language) for language in LANGUAGES),
            valid=tuple(self.corpus("dev", language) for language in LANGUAGES),
        )
        all_of_them = self.trained("together", together, updates * len(LANGUAGES))
        tuned = self.trained("together.then.ss", self.of_language(SMALL), updates, all_of_them)
        for language in LANGUAGES:
            models = {"alone": alone[language], "together": all_of_them}
            self.compare("joint", language, models | ({"then ss alone": tuned} if language == SMALL else {}))

    def transfer(self) -> None:
        """Both runs have the same pairs and the same updates; the first has another model's weights to begin with."""
        few = self._first(self.options.few)
        data = DataConfig(train=(self.corpus("train", SMALL, few),), valid=(self.corpus("dev", SMALL),))
        related = self.trained(f"alone.{RELATED}", self.of_language(RELATED), self.options.updates)
        begun = self.trained("transfer.from.zu", data, self.options.updates, related)
        fresh = self.trained("transfer.from.nothing", data, self.options.updates)
        self.compare("transfer", SMALL, {"from nothing": fresh, f"from {RELATED}": begun})
        self._plot({"from nothing": fresh, f"from {RELATED}": begun}, self.output / "transfer.svg")

    def back(self) -> None:
        sources, targets = (read_lines(self.data / SMALL / f"train.{side}") for side in ("en", SMALL))
        half = self._first(len(sources) // 2, "half")
        pairs, updates = self.corpus("train", SMALL, half), self.options.updates
        valid = (self.corpus("dev", SMALL),)
        reversed_data = DataConfig(
            train=(self.corpus("train", SMALL, half, reverse=True),), valid=(self.corpus("dev", SMALL, reverse=True),)
        )
        reverse = self.trained("back.reverse", reversed_data, updates)
        written = self.output / "back.jsonl"
        if not written.exists():
            options = SearchOptions(search="sample", seed=self.options.seed)
            with PairWriter.open([str(written)]) as writer:
                found = backtranslate(Translator.load(reverse, "cpu"), targets[len(sources) // 2 :], options)
                for one in (one for one in found if one.problem is None):
                    writer.write(one.pair._replace(target_language=SMALL, source_language=None))
        more = CorpusConfig(pairs=(str(written),), origin="backtranslated", tagged=True, target_language=SMALL)
        models = {
            "half": self.trained("back.half", DataConfig(train=(pairs,), valid=valid), updates),
            "half and back-translation": self.trained(
                "back.more", DataConfig(train=(pairs, more), valid=valid), updates
            ),
            "all pairs": self.trained(f"alone.{SMALL}", self.of_language(SMALL), updates),
        }
        self.compare("back", SMALL, models)

    def _first(self, count: int, name: str = "few") -> Path:
        """The first pairs of the small language, in a directory of their own."""
        folder = self.output / name
        folder.mkdir(exist_ok=True)
        for side in ("en", SMALL):
            lines = read_lines(self.data / SMALL / f"train.{side}")[:count]
            (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return folder

    def _plot(self, runs: dict[str, Path], path: Path) -> None:
        series = {}
        for name, directory in runs.items():
            log = [entry for entry in read_log(directory) if BITS in entry]
            series[name] = [entry["update"] for entry in log], [entry[BITS] for entry in log]
        title = f"{self.kind}: {self.options.few:,} pairs of {SMALL}"
        plots.save(plots.lines(series, "updates", "bits per character of validation", title), path)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a directory for each language")
    parser.add_argument("--output", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--experiment", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--model", nargs="+", default=["ssmt", "bpe"], help="kinds of model")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--updates", type=int, default=4000, help="for each language")
    parser.add_argument("--validations", type=int, default=20, help="in so many updates")
    parser.add_argument("--few", type=int, default=2000, help="pairs of transfer")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    return parser.parse_args(given)


def main() -> None:
    options = arguments()
    for kind in options.model:
        study = Study(options.data, options.output, kind, options)
        for experiment in options.experiment:
            getattr(study, experiment)()


if __name__ == "__main__":
    main()
