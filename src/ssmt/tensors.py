"""Files of tensors: written at once or not at all, and recognised when they are damaged.

Such a file is safetensors; whatever is not a tensor is JSON in its header. Nothing in it can run code.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ssmt.files import replacing


class DamagedError(Exception):
    """The file is truncated or changed."""


class Stored(NamedTuple):
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    written = json.dumps(state)
    metadata = {"state": written, "checksum": str(_checksum(on_cpu, written))}
    with replacing(path) as temporary:
        save_file(on_cpu, temporary, metadata=metadata)


def load(path: Path, foreign: bool = False) -> Stored:
    """What `save` wrote; with `foreign`, also a file of another program, which has no checksum."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if foreign and "checksum" not in metadata:
            return Stored(tensors, {})
        if metadata["checksum"] != str(_checksum(tensors, metadata["state"])):
            raise DamagedError(f"{path}: its content does not match its checksum")
        return Stored(tensors, json.loads(metadata["state"]))
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OSError) as error:
        raise DamagedError(f"{path}: {error or type(error).__name__}") from None


def _checksum(tensors: dict[str, Tensor], state: str) -> int:
    """Of everything that `load` gives back: a changed header can pass for a whole file too."""
    checksum = zlib.crc32(state.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum
