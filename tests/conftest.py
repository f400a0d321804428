"""What the tests share: made-up sentence pairs, files of them, and a tiny model with random weights."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from ssmt.config import Config, compose
from ssmt.directory import save_description, save_weights
from ssmt.model.ssmt import SSMT
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles, prepare

Pair = tuple[str, str]
PAPER_DECODER = Path(__file__).parents[1] / "configs" / "paper_decoder.yaml"

# A made-up language: the verb takes its subject as a prefix and its tense as a suffix.
SUBJECTS = {"I": "ni", "you": "wu", "she": "a", "we": "ti"}
VERBS = {"see": "bon", "call": "biz", "carry": "thwál"}
TENSES = {"": "a", " now": "ako", " once": "ile"}
OBJECTS = {"a bird": "inyoni", "2 cows": "izinkomo ezi-2"}


@pytest.fixture(scope="session")
def toy_pairs() -> list[Pair]:
    """72 pairs of a made-up language, with a non-ASCII letter, digits, hyphens and full stops on the target side."""
    choices = itertools.product(SUBJECTS, VERBS, TENSES, OBJECTS)
    return [
        (
            f"{subject} {verb} {thing}{tense}.",
            f"{SUBJECTS[subject]}{VERBS[verb]}{TENSES[tense]} {OBJECTS[thing]}.",
        )
        for subject, verb, tense, thing in choices
    ]


def write_pairs(directory: Path, name: str, pairs: list[Pair]) -> tuple[Path, Path]:
    paths = directory / f"{name}.source", directory / f"{name}.target"
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


@pytest.fixture(scope="session")
def toy_files(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[Pair]) -> TrainingFiles:
    """Training and validation files of `toy_pairs`: every sixth pair validates. Shared: copy before changing."""
    directory = tmp_path_factory.mktemp("toy_files")
    train = write_pairs(directory, "train", [pair for row, pair in enumerate(toy_pairs) if row % 6])
    valid = write_pairs(directory, "valid", toy_pairs[::6])
    return TrainingFiles(*train, *valid)


@pytest.fixture(scope="session")
def toy_config() -> Config:
    """The paper's decoder, of width 16, 1+1 layers, L 4."""
    settings = ["text.source_vocabulary=60", "text.lexicon_size=80", "text.longest_segment=4"]
    settings += ["network.width=16", "network.heads=2", "network.feedforward=32"]
    settings += ["network.encoder_layers=1", "network.decoder_layers=1"]
    return compose("tiny", PAPER_DECODER, settings)


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles, toy_config: Config) -> Path:
    """A model directory with random weights. Shared: copy before changing."""
    directory = tmp_path_factory.mktemp("model")
    vocabulary, _ = prepare(toy_files, toy_config.text, directory / "data", Reporter())
    save_description(directory, vocabulary, toy_config)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        save_weights(directory, SSMT(vocabulary, toy_config).state_dict())
    return directory
