"""A model is a directory: config.json, model.safetensors, source.model (imported models: source.json), alphabet.json,
lexicon.txt.

Nothing in it can run code when it is loaded.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ssmt.config import Config
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.text.lines import replacing
from ssmt.text.vocabulary import Vocabulary

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save_description(directory: Path, vocabulary: Vocabulary, config: Config) -> None:
    """Everything but the weights."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary.save(directory)
    with replacing(directory / CONFIG) as temporary:
        temporary.write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")


def save_weights(directory: Path, weights: dict[str, Tensor]) -> None:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    with replacing(directory / WEIGHTS) as temporary:
        save_file(on_cpu, temporary)


def load_description(directory: Path) -> tuple[Vocabulary, Config]:
    if not directory.is_dir():
        raise UserError(f"{directory}: there is no such directory")
    if not (directory / CONFIG).is_file():
        raise UserError(f"{directory}: is not a model directory (it has no {CONFIG})")
    config = Config.load(directory / CONFIG)
    return Vocabulary.load(directory), config


def load_model(directory: Path, device: torch.device) -> tuple[SSMT, Config]:
    vocabulary, config = load_description(directory)
    path = directory / WEIGHTS
    if not path.is_file():
        raise UserError(f"{directory}: has no {WEIGHTS} yet; a training run writes it after its first validation")
    model = SSMT(vocabulary, config)
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: is damaged ({error})") from None
    expected = model.state_dict()
    for name in expected.keys() | weights.keys():
        ours, theirs = (tuple(w[name].shape) if name in w else None for w in (expected, weights))
        if ours != theirs:
            raise UserError(f"{path}: tensor {name!r} has shape {theirs}, but {CONFIG} asks for {ours}")
    model.load_state_dict(weights)
    return model.to(device).eval(), config


def choose_device(name: str) -> torch.device:
    """`auto` takes the first that is there of cuda, mps, cpu."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, there in available.items() if there)
    if not available.get(name.partition(":")[0], False):
        raise UserError(f"--device {name}: this machine has {', '.join(k for k, there in available.items() if there)}")
    return torch.device(name)
