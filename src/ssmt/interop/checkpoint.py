"""Checkpoints of fairseq, read without fairseq and without running anything that is in them.

A checkpoint is a pickle, and a pickle can call any function by its name. `torch.load(weights_only=True)` calls only
what is on a list; this module adds to that list what fairseq writes besides tensors, and refuses everything else.
"""

from __future__ import annotations

import _codecs
import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ssmt.errors import UserError
from ssmt.files import open_for_reading

# The options of a run are a Namespace; its running averages can be numbers and arrays of numpy.
_NUMPY_FUNCTIONS: tuple[Any, ...] = (np.float64(0).__reduce__()[0], np.zeros(1).__reduce__()[0])
HARMLESS: list[Any] = [
    argparse.Namespace,
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_)),
    _codecs.encode,  # how numbers of numpy come out of an old pickle
    *(
        (function, f"{module}.{function.__name__}")
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for function in _NUMPY_FUNCTIONS
    ),
]


PLAIN = (bool, int, float, str, type(None))
DEEPEST = 4  # tables in tables: fairseq has two


class Tensors:
    """A checkpoint's tensors, each taken once, with the shape that is expected of it."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self.path, self.tensors = path, tensors
        self.taken: set[str] = set()

    def take(self, name: str, *shape: int) -> Tensor:
        if name not in self.tensors:
            raise UserError(f"{self.path}: tensor {name!r} is missing; is this a model of the original SSMT code?")
        tensor = self.tensors[name]
        if tuple(tensor.shape) != shape:
            raise UserError(f"{self.path}: tensor {name!r} has shape {tuple(tensor.shape)}, but {shape} is expected")
        if not tensor.is_floating_point() or tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise UserError(f"{self.path}: tensor {name!r} is no dense table of real numbers ({tensor.dtype})")
        if not tensor.float().isfinite().all():
            raise UserError(f"{self.path}: tensor {name!r} has values that are not finite; the model is of no use")
        self.taken.add(name)
        return tensor.float()

    def refuse_others(self, *unused: str) -> None:
        """Whatever has not been taken would be lost, unless its name ends in one of `unused`."""
        for name in self.tensors:
            if name not in self.taken and not name.endswith(unused):
                raise UserError(f"{self.path}: there is no place for tensor {name!r} in this program's models")


def read_checkpoint(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors, and the options of the run that made them as one flat table."""
    content = _load(path)
    model = content.get("model") if isinstance(content, Mapping) else None
    if not isinstance(model, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in model.items()
    ):
        raise UserError(f"{path}: is no checkpoint of fairseq (it holds no table of tensors called 'model')")
    return Tensors(path, model), _options(path, content)


def _load(path: Path) -> Any:
    with open_for_reading(path), torch.serialization.safe_globals(HARMLESS):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a bad file can fail in any way at all; none of them is the program's fault
            if foreign := re.search(r"GLOBAL (\S+) (was not an allowed|whose module)", str(error)):
                raise UserError(
                    f"{path}: refused, and nothing in it was run. It asks to load {foreign[1]}, which can run code; a "
                    f"checkpoint of fairseq holds nothing but tensors and plain data"
                ) from None
            raise UserError(f"{path}: is no checkpoint, or a damaged one ({type(error).__name__})") from None


def _options(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """fairseq keeps the options as one Namespace `args` or, since 2020, as sections `cfg`, of which `model` and `task`
    matter here; a model's options can be nested (`encoder: {layers: 6}`) or flat (`encoder_layers: 6`)."""
    sections = _as_table(content.get("cfg"))
    groups = [sections.get("task"), sections.get("model")] if sections else [content.get("args")]
    options: dict[str, Any] = {}
    for group in groups:
        options |= _flat(_as_table(group))
    if not options:
        raise UserError(f"{path}: holds neither 'args' nor 'cfg', so that the network's shape is not known")
    return options


def _flat(table: Mapping[Any, Any], depth: int = 0) -> dict[str, Any]:
    """The plain values of a table, and those of tables in it; a table can be inside itself."""
    flat: dict[str, Any] = {}
    for key, value in table.items() if depth < DEEPEST else ():
        if inner := _as_table(value):
            flat |= {f"{key}_{name}": option for name, option in _flat(inner, depth + 1).items()}
        elif isinstance(value, PLAIN):
            flat[str(key)] = value
    return flat


def _as_table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, argparse.Namespace):
        return vars(value)
    return value if isinstance(value, Mapping) else {}
