"""Short training runs on the toy text, with what they say and log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ssmt.config import Config, changed
from ssmt.directory import load_description
from ssmt.progress import Reporter
from ssmt.registry import build
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import read_log
from ssmt.training.loop import Trainer


class Messages(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    warn = say


def train(
    directory: Path, files: TrainingFiles, config: Config, **training: Any
) -> tuple[Messages, list[dict[str, Any]]]:
    defaults = {"chrf_sentences": 0, "batch_characters": 300, "max_epochs": None, "patience": None}
    messages = Messages()
    run.begin(files, directory, changed(config, {"training": defaults | training}, "test"), messages)
    run.train(directory, torch.device("cpu"), messages)
    return messages, read_log(directory)


def go_on(directory: Path, **training: Any) -> Messages:
    messages = Messages()
    run.adopt(directory, lambda config: changed(config, {"training": training}, "test"))
    run.train(directory, torch.device("cpu"), messages)
    return messages


def trainer_of(model_directory: Path, output: Path, **training: Any) -> Trainer:
    """A new run with the vocabulary and the text of a model directory and without dropout."""
    vocabulary, config = load_description(model_directory)
    config = changed(config, {"network": {"dropout": 0.0}, "training": training}, "test")
    output.mkdir(exist_ok=True)
    torch.manual_seed(1)
    train, valid = (run._corpus(model_directory / "data" / part, vocabulary) for part in ("train", "valid"))
    return Trainer(build(vocabulary, config), config, train, valid, output, Reporter())
