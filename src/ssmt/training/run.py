"""A training run and its directory: begun from two text files, or gone on with."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from ssmt.config import Config, changed, differences
from ssmt.errors import UserError
from ssmt.model.directory import CONFIG, WEIGHTS, load_description, save_description
from ssmt.model.ssmt import SSMT
from ssmt.progress import Reporter
from ssmt.text.corpus import CORPUS_LINES, Corpus
from ssmt.text.preparation import TrainingFiles, prepare
from ssmt.text.vocabulary import Vocabulary
from ssmt.training.loop import Trainer

# What may differ between the sessions of one run: it does not change any update.
CHANGEABLE = {f"training.{key}" for key in ("max_epochs", "max_updates", "max_minutes", "patience", "checkpoint_every")}

WRITTEN = (WEIGHTS, "source.model", "alphabet.json", "lexicon.txt", "checkpoints", "log.jsonl", "tensorboard")


def begin(files: TrainingFiles, directory: Path, config: Config, reporter: Reporter) -> None:
    """Prepare a new run. Its config is written last: a directory with one is ready to train."""
    if (directory / CONFIG).exists():
        raise UserError(
            f"{directory}: already holds a run. Go on with it by --resume, or choose another --output; "
            f"nothing is ever overwritten"
        )
    interrupted = (directory / "data" / "train" / CORPUS_LINES).exists()  # an earlier preparation of ours
    in_the_way = [name for name in WRITTEN if (directory / name).exists()]
    if in_the_way and not interrupted:
        raise UserError(f"{directory}: has {', '.join(in_the_way)}, which a run would replace; choose another --output")
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made ({error.strerror})") from None
    try:
        vocabulary, length_ratio = prepare(files, config.text, directory / "data", reporter)
        if config.text.length_ratio is None:
            config = changed(config, {"text": {"length_ratio": length_ratio}}, "length_ratio")
        save_description(directory, vocabulary, config)
    except BaseException:
        if is_new:
            shutil.rmtree(directory, ignore_errors=True)
        raise


def can_resume(directory: Path) -> bool:
    return (directory / CONFIG).exists()


def adopt(directory: Path, reconfigure: Callable[[Config], Config]) -> None:
    """Change the settings of a run before it goes on; only limits can change."""
    vocabulary, old = load_description(directory)
    new = reconfigure(old)
    if new.text.length_ratio is None:  # measured when the run began, so no preset or file can know it
        new = changed(new, {"text": {"length_ratio": old.text.length_ratio}}, "length_ratio")
    conflicts = [difference for difference in differences(old, new) if difference[0] not in CHANGEABLE]
    if conflicts:
        listed = "; ".join(f"{key} was {before}, now {after}" for key, before, after in conflicts)
        raise UserError(f"{directory}: a run goes on with the settings it began with ({listed}). Leave them out")
    if new != old:
        save_description(directory, vocabulary, new)


def train(directory: Path, device: torch.device, reporter: Reporter) -> str | None:
    """Train the run in a directory until a limit; returns the name of the signal that ended it before, if one did."""
    vocabulary, config = load_description(directory)
    torch.manual_seed(config.training.seed)
    model = SSMT(vocabulary, config).to(device)
    trainer = Trainer(
        model,
        config,
        _corpus(directory / "data" / "train", vocabulary),
        _corpus(directory / "data" / "valid", vocabulary),
        directory,
        reporter,
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    reporter.say(f"{parameters:,} parameters on {device}, {torch.get_num_threads()} threads")
    try:
        return trainer.run()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"{directory}: no space left ({os.strerror(error.errno)}). The last whole checkpoint is kept; "
                f"make room and go on with --resume"
            ) from None
        raise


def _corpus(directory: Path, vocabulary: Vocabulary) -> Corpus:
    try:
        return Corpus(directory, vocabulary.source_pad, vocabulary.target_pad)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: the run's prepared data is missing; begin a new run") from None
