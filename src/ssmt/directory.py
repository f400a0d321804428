"""A model is a directory: config.json, model.safetensors, source.model (imported models: source.json), and of the
target alphabet.json and lexicon.txt or, where text is cut before training, target.model (bpe and ulm; none if the
languages share their subwords) or target.txt (dpe). `segmenter/` is the model directory of dpe's first model.

Nothing in it can run code when it is loaded.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ssmt import tensors
from ssmt.config import Config
from ssmt.errors import UserError
from ssmt.files import replacing
from ssmt.model.translation import TranslationModel
from ssmt.registry import build, kind_of
from ssmt.text.vocabulary import BothSides

CONFIG, WEIGHTS, SEGMENTER = "config.json", "model.safetensors", "segmenter"


def save_description(directory: Path, vocabulary: BothSides, config: Config) -> None:
    """Everything but the weights."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary.save(directory)
    save_config(directory, config)


def save_config(directory: Path, config: Config) -> None:
    with replacing(directory / CONFIG) as temporary:
        temporary.write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")


def save_weights(directory: Path, weights: dict[str, Tensor]) -> None:
    tensors.save(directory / WEIGHTS, weights, {})


def load_config(directory: Path) -> Config:
    if not directory.is_dir():
        raise UserError(f"{directory}: there is no such directory")
    if not (directory / CONFIG).is_file():
        raise UserError(f"{directory}: is not a model directory (it has no {CONFIG})")
    return Config.load(directory / CONFIG)


def load_description(directory: Path) -> tuple[BothSides, Config]:
    config = load_config(directory)
    return kind_of(config).vocabulary.load(directory), config


def load_model(directory: Path, device: torch.device) -> tuple[TranslationModel, Config]:
    config = load_config(directory)
    path = directory / WEIGHTS
    if not path.is_file():
        raise UserError(f"{directory}: has no {WEIGHTS} yet; a training run writes it after its first validation")
    model = build(kind_of(config).vocabulary.load(directory), config)
    try:
        weights = tensors.load(path, foreign=True).tensors
    except tensors.DamagedError as error:
        raise UserError(f"{path}: is damaged ({error}); copy it anew, or train on from its checkpoints") from None
    expected = model.state_dict()
    for name in expected.keys() | weights.keys():
        ours, theirs = (tuple(w[name].shape) if name in w else None for w in (expected, weights))
        if ours != theirs:
            raise UserError(f"{path}: tensor {name!r} has shape {theirs}, but {CONFIG} asks for {ours}")
    model.load_state_dict(weights)
    return model.to(device).eval(), config
