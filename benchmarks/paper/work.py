"""Doing a job: in a process of its own with one thread, from the data's files to a JSON file below the output."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paper import systems
from paper.plan import Extract, Job, Run, Segment, Train, Translate
from ssmt.config import differences, in_words
from ssmt.devices import choose_device
from ssmt.directory import SEGMENTER, load_config
from ssmt.errors import Stopped, UserError
from ssmt.evaluation.composition import extract_subsets
from ssmt.evaluation.model_output import translate_lines
from ssmt.evaluation.sweep import digest, scores
from ssmt.evaluation.systems import compare_segmentations
from ssmt.files import as_json, read_json
from ssmt.outputs import open_for_writing, replacing
from ssmt.progress import Reporter
from ssmt.text.corpus import Corpus
from ssmt.text.lines import read_lines, read_parallel
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run as runs
from ssmt.training.log import kept_bits, read_log
from ssmt.translator import Translator

SOURCE = "en"
DEVICE = "cpu"  # budgets are of CPU time
# Settings that a run finds out or writes down when it begins; its texts are known by what is in them.
WRITTEN_BY_RUNS = ("text.length_ratio", "data.train", "data.valid")


@dataclass(frozen=True)
class Place:
    """Where the data is and where everything goes. What is measured on is copied, so that the output is all that the
    document needs."""

    data: Path
    output: Path

    def training_files(self, language: str) -> TrainingFiles:
        return TrainingFiles(
            *(self.data / language / f"{part}.{end}" for part in ("train", "dev") for end in (SOURCE, language))
        )

    def languages_with_aside(self) -> list[str]:
        """Those for which there is text of other kinds than the training text's."""
        return [
            language
            for language, name in systems.ASIDE.items()
            if all((self.data / language / f"{name}.{end}").exists() for end in (SOURCE, language))
        ]

    def validation_files(self, language: str) -> tuple[Path, Path]:
        return self.data / language / f"dev.{SOURCE}", self.data / language / f"dev.{language}"

    def test_files(self, language: str, split: str) -> tuple[Path, Path]:
        return self._kept(f"{language}/{split}.{SOURCE}"), self._kept(f"{language}/{split}.{language}")

    def gold(self, language: str) -> Path:
        return self._kept(f"morphology/{language}.sentences.tsv")

    def half(self, language: str, which: str) -> Path:
        """Every second line of the gold sentences: the `odd` or the `even` ones."""
        gold = self.gold(language)
        path = gold.with_name(f"{language}.{which}.tsv")
        if not path.exists():
            with open_for_writing(path) as stream:
                lines = read_lines(gold)
                stream.writelines(f"{line}\n" for line in (lines[::2] if which == "odd" else lines[1::2]))
        return path

    def _kept(self, name: str) -> Path:
        return self.output / "texts" / name

    def keep_texts(self, jobs: Iterable[Job]) -> None:
        """Copy what the jobs are measured on; refuse texts that are not those of an earlier call."""
        known = self.output / "texts" / "digests.json"
        before: dict[str, str] = read_json(known) if known.exists() else {}
        digests = dict(before)
        for name in sorted({name for job in jobs for name in _texts(job)}):
            now = digest(self.data / name)
            if digests.setdefault(name, now) != now:
                raise UserError(f"{self.data / name}: is not the text that {self.output} was made from")
            if not name.partition("/")[2].startswith("train.") and not self._kept(name).exists():
                self._kept(name).parent.mkdir(parents=True, exist_ok=True)
                with replacing(self._kept(name)) as temporary:
                    shutil.copyfile(self.data / name, temporary)
        if digests != before:
            known.parent.mkdir(parents=True, exist_ok=True)
            with open_for_writing(known) as stream:
                stream.write(as_json(digests, indent=2) + "\n")


def _texts(job: Job) -> list[str]:
    """The files of the data that a job reads."""
    language = job.language
    match job:
        case Train():
            parts = ["train", "dev"]
        case Translate():
            parts = [job.split, *(["dev"] if job.tuned and job.split != "dev" else [])]
        case Segment():
            return [f"morphology/{language}.sentences.tsv"]
        case Extract():
            parts = ["train", job.split]
        case _:
            raise AssertionError(job)
    return [f"{language}/{part}.{end}" for part in parts for end in (SOURCE, language)]


def require_same_settings(run: Run, output: Path) -> None:
    """Refuse a run that was begun with other settings: its numbers would stand under a wrong name."""
    directory = run.directory(output)
    if not runs.can_resume(directory):
        return
    changed = [
        difference
        for difference in differences(load_config(directory), run.config)
        if difference[0] not in WRITTEN_BY_RUNS
    ]
    if changed:
        raise UserError(
            f"{directory}: was trained with other settings ({in_words(changed)}). Remove it, from an archive too, to "
            f"train it again, or choose another output"
        )


def perform(job: Job, place: Place) -> str:
    """Do a job, keep its result, and say in a few words what came out."""
    try:
        record = _record(job, place)
    except UserError as error:  # its subclasses do not survive the way to another process
        raise UserError(str(error)) from None
    path = job.result(place.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_for_writing(path) as stream:
        stream.write(as_json(record, indent=1) + "\n")
    return _said(job, record)


def _record(job: Job, place: Place) -> dict[str, Any]:
    match job:
        case Train():
            return train(job.run, place)
        case Translate():
            return translate(job, place)
        case Segment():
            return segment(job, place)
        case Extract():
            return extract(job, place)
    raise AssertionError(job)


def _said(job: Job, record: dict[str, Any]) -> str:
    match job:
        case Train():
            return f"{record['updates']:,} updates, {record['bits_per_character']:.3f} bits per character"
        case Translate():
            return f"chrF {record['chrF']:.1f}, BLEU {record['BLEU']:.1f}"
        case Segment():
            best_path = record["all"]["systems"][job.run.system]
            return f"F1 of boundaries {best_path['boundary_micro']['f1']['value']:.1f}"
        case _:
            return ", ".join(f"{subset['compound_divergence']:.2f}" for subset in record["subsets"])


def train(run: Run, place: Place) -> dict[str, Any]:
    directory = run.directory(place.output)
    reporter = Reporter()
    runs.begin_or_adopt(place.training_files(run.language), directory, run.config, reporter)
    if stopped_by := runs.train(directory, choose_device(DEVICE), reporter):
        raise Stopped(stopped_by)
    logs = [read_log(path) for path in (directory / SEGMENTER, directory) if path.exists()]
    model = Translator.load(directory, DEVICE).model
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "pairs": len(Corpus(_first(directory) / "data" / "train")),
        "updates": logs[-1][-1]["update"],
        "epochs": max(line.get("epoch", 0) for line in logs[-1]),
        "cpu_minutes": sum(log[-1]["cpu_minutes"] for log in logs),
        "bits_per_character": kept_bits(logs[-1]),
        "torch_threads": torch.get_num_threads(),
    }


def _first(directory: Path) -> Path:
    """The directory of the model that was trained first."""
    return directory / SEGMENTER if (directory / SEGMENTER).exists() else directory


def translate(job: Translate, place: Place) -> dict[str, Any]:
    sources, references = (
        lines[: job.sentences] for lines in read_parallel(*place.test_files(job.language, job.split))
    )
    translator = Translator.load(job.run.directory(place.output), DEVICE)
    tuned = _length_penalty(job, place, translator)
    begun = time.process_time()
    texts = _translated(job, translator, sources, tuned["length_penalty"] if tuned else job.length_penalty)
    seconds = time.process_time() - begun
    return scores(texts, [references]) | {"cpu_seconds": round(seconds, 1), "translations": texts} | (tuned or {})


def _translated(
    job: Translate, translator: Translator, sources: Sequence[str], length_penalty: float | None
) -> list[str]:
    translated = translate_lines(
        translator,
        sources,
        search=job.search,
        beam=job.beam,
        length_penalty=length_penalty,
        repetition_penalty=job.repetition_penalty,
    )
    return [translation.text for translation in translated]


def _length_penalty(job: Translate, place: Place, translator: Translator) -> dict[str, Any] | None:
    """That of a job which is tuned."""
    if job.tuned_as:
        return {"length_penalty": read_json(job.tuned_as.result(place.output))["length_penalty"]}
    return _length_of_validation(job, place, translator) if job.tuned else None


def _length_of_validation(job: Translate, place: Place, translator: Translator) -> dict[str, Any]:
    """What is shorter than its reference has a lower chrF and BLEU for that alone, and models differ in how soon they
    end: so each is compared at the length that fits."""
    sources, references = (
        spread(lines, systems.TUNING_SENTENCES) for lines in read_parallel(*place.validation_files(job.language))
    )
    lengths = {
        penalty: words_in(_translated(job, translator, sources, penalty)) / words_in(references)
        for penalty in systems.LENGTH_PENALTIES
    }
    return {"length_penalty": nearest_length(lengths), "validation_lengths": lengths}


def spread(lines: Sequence[str], most: int) -> list[str]:
    """So many of them, at even distances, in their order; all of them if they are fewer."""
    chosen = min(most, len(lines))
    return [lines[place * len(lines) // chosen] for place in range(chosen)]


def nearest_length(lengths: Mapping[float, float]) -> float:
    """The penalty whose length, relative to the references', is nearest to 1; of equal ones the lowest."""
    return min(sorted(lengths), key=lambda penalty: abs(math.log(max(lengths[penalty], 1e-9))))


def words_in(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)


def segment(job: Segment, place: Place) -> dict[str, Any]:
    """All gold sentences by the best segmentation; the even ones also by the threshold that is best on the odd ones."""
    models = {job.run.system: job.run.directory(place.output)}
    gold, odd, even = place.gold(job.language), place.half(job.language, "odd"), place.half(job.language, "even")
    whole = compare_segmentations(gold, models=models, curves=False, device=DEVICE)
    tuned = compare_segmentations(even, models=models, tune_on=odd, curves=False, device=DEVICE)
    records = {"all": whole.record(), "even": tuned.record()}
    return {which: record | {"gold": Path(record["gold"]).name} for which, record in records.items()}


def extract(job: Extract, place: Place) -> dict[str, Any]:
    """Morphemes are learnt by Morfessor from the training text: the paper's segmenters are supervised, and not here."""
    output = job.result(place.output).parent
    train_target = place.training_files(job.language).target
    return extract_subsets(
        train_target,
        *place.test_files(job.language, job.split),
        output,
        target_divergences=job.divergences,
        size=job.size,
    ).record()
