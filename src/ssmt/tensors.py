"""Files of tensors: written at once or not at all, and recognised when they are damaged.

Such a file is safetensors; whatever is not a tensor is JSON in its header. Nothing in it can run code.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ssmt.errors import UserError
from ssmt.files import as_json, open_for_reading, require_regular
from ssmt.outputs import replacing


class DamagedError(Exception):
    """The file is truncated or changed."""


class Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: str  # as the file says it: F32


class Stored(NamedTuple):
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    written = as_json(state)
    metadata = {"state": written, "checksum": str(_checksum(on_cpu, written))}
    with replacing(path) as temporary:
        save_file(on_cpu, temporary, metadata=metadata)


def load(path: Path, foreign: bool = False) -> Stored:
    """What `save` wrote; with `foreign`, also a file of another program, which has no checksum."""
    with _open(path) as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if foreign and "checksum" not in metadata:
            return Stored(tensors, {})
        if metadata["checksum"] != str(_checksum(tensors, metadata["state"])):
            raise DamagedError(f"{path}: its content does not match its checksum")
        return Stored(tensors, _state(metadata["state"]))


def header(path: Path) -> dict[str, Header]:
    """What the tensors of a file are, without reading them."""
    with _open(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: Header(tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """A file of tensors; whatever can be wrong with it, and is noticed meanwhile, is damage. What the machine lacks
    (rights, room for one more open file) is none: a checkpoint that cannot be read today is good tomorrow."""
    try:
        require_regular(path)
    except UserError as error:
        raise DamagedError(str(error)) from None
    with open_for_reading(path), open_for_reading(path), open_for_reading(path):  # as often as safetensors and torch
        pass
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OSError, MemoryError) as error:
        raise DamagedError(f"{path}: {error or type(error).__name__}") from None


def _state(text: str) -> dict[str, Any]:
    state = json.loads(text)
    if not isinstance(state, dict):
        raise ValueError("its state is no table")
    return state


def _checksum(tensors: dict[str, Tensor], state: str) -> int:
    """Of everything that `load` gives back: a changed header can pass for a whole file too."""
    checksum = zlib.crc32(state.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum
