"""A model is a directory: config.json, model.safetensors, source.model (imported models: source.json), and of the
target alphabet.json and lexicon.txt or, where text is cut before training, target.model (bpe and ulm; none if the
languages share their subwords) or target.txt (dpe). `segmenter/` is the model directory of dpe's first model, and
`from/` that of the model which a run began with: until the run has weights of its own, it is the model.

Nothing in it can run code when it is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ssmt import tensors
from ssmt.config import Config, read_config
from ssmt.errors import UserError
from ssmt.files import read_description, require_regular
from ssmt.model.translation import TranslationModel
from ssmt.outputs import replacing
from ssmt.registry import build, kind_of
from ssmt.text.vocabulary import BothSides

CONFIG, WEIGHTS, SEGMENTER = "config.json", "model.safetensors", "segmenter"
FROM = "from"  # in a run's directory: the model that it began with
VOCABULARIES = ("source.model", "source.json", "target.model", "target.txt", "alphabet.json", "lexicon.txt")
_DIGEST = "vocabulary"  # in the state of the weights' file
_FLOATS = {"F64", "F32", "F16", "BF16"}  # what weights are kept in, by safetensors' names


def save_description(directory: Path, vocabulary: BothSides, config: Config) -> None:
    """Everything but the weights."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary.save(directory)
    save_config(directory, config)


def save_config(directory: Path, config: Config) -> None:
    with replacing(directory / CONFIG) as temporary:
        temporary.write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")


def save_weights(directory: Path, weights: dict[str, Tensor]) -> None:
    """The weights of a directory's model, with a digest of the vocabulary that they belong to."""
    tensors.save(directory / WEIGHTS, weights, {_DIGEST: vocabulary_digest(directory)})


def vocabulary_digest(directory: Path) -> str:
    """Of the vocabulary's files: another vocabulary of the same size would make garbage without a word."""
    content = hashlib.sha256()
    for name in VOCABULARIES:
        if (directory / name).exists():
            content.update(f"{name} {hashlib.sha256(read_description(directory / name)).hexdigest()}\n".encode())
    return content.hexdigest()


def load_config(directory: Path) -> Config:
    if not directory.is_dir():
        raise UserError(f"{directory}: there is no such directory")
    if not (directory / CONFIG).exists():
        raise UserError(f"{directory}: is not a model directory (it has no {CONFIG})")
    return read_config(directory / CONFIG)


def load_description(directory: Path) -> tuple[BothSides, Config]:
    config = load_config(directory)
    return kind_of(config).vocabulary.load(directory), config


def weights_of(directory: Path) -> Path:
    """The file of a model's weights, for whoever reads the whole of it: one of another size is refused."""
    return _weights_and_description(directory)[0]


def _weights_and_description(directory: Path) -> tuple[Path, BothSides, Config]:
    """The weights are in the directory itself or, before a run has any, in that of the model which it began with."""
    config = load_config(directory)
    path = directory / WEIGHTS
    if not path.exists():
        if (directory / FROM / CONFIG).exists():
            return _weights_and_description(directory / FROM)
        raise UserError(f"{directory}: has no {WEIGHTS} yet; a training run writes it after its first validation")
    require_regular(path)
    vocabulary = kind_of(config).vocabulary.load(directory)
    with _recognising_damage(path):
        _compare(path, tensors.header(path), expected_tensors(vocabulary, config))
    return path, vocabulary, config


@contextmanager
def _recognising_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except tensors.DamagedError as error:
        raise UserError(f"{path}: is damaged ({error}); copy it anew, or train on from its checkpoints") from None


def load_model(directory: Path, device: torch.device) -> tuple[TranslationModel, Config]:
    path, vocabulary, config = _weights_and_description(directory)
    with _recognising_damage(path):
        weights, state = tensors.load(path, foreign=True)
    if state.get(_DIGEST, digest := vocabulary_digest(path.parent)) != digest:
        raise UserError(
            f"{path}: was trained with another vocabulary than the one beside it; copy the whole directory anew"
        )
    model = build(vocabulary, config)
    model.load_state_dict(weights)
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise UserError(f"{path}: tensor {name!r} has values that are not finite; the model is of no use")
    return model.to(device).eval(), config


def load_segmenter_config(directory: Path) -> Config:
    """The configuration of the first model in a directory: one that cuts text itself."""
    config = load_config(directory / SEGMENTER)
    if kind_of(config).score_type != "marginal":
        raise UserError(
            f"{directory / SEGMENTER}: is a model of kind {config.model}, which cannot cut text for another"
        )
    return config


def expected_tensors(vocabulary: BothSides, config: Config) -> dict[str, Tensor]:
    """The weights that a configuration asks for: shapes and types, which take no memory."""
    with _WeightsWithoutMemory():
        return build(vocabulary, config).state_dict()


class _WeightsWithoutMemory(TorchFunctionMode):
    """Weights on torch's device `meta`, without the random numbers that they begin with; what is computed for a network
    is computed. (With all of it on `meta`, torch loads its compiler, which takes longer than the rest of a short
    command.)"""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.empty:
            kwargs = {**kwargs, "device": "meta"}
        elif func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _compare(path: Path, found: dict[str, tensors.Header], expected: dict[str, Tensor]) -> None:
    """Refuse weights that are not what the configuration asks for, before anything is built."""
    for name in sorted(expected.keys() | found.keys()):
        ours = tuple(expected[name].shape) if name in expected else None
        theirs = found[name].shape if name in found else None
        if ours != theirs:
            raise UserError(f"{path}: tensor {name!r} has shape {theirs}, but {CONFIG} asks for {ours}")
        if found[name].dtype not in _FLOATS:
            raise UserError(
                f"{path}: tensor {name!r} is of type {found[name].dtype}; weights are {', '.join(sorted(_FLOATS))}"
            )
