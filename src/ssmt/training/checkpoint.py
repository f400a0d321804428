"""Checkpoints: written at once or not at all, and recognised when they are damaged.

A checkpoint is one safetensors file; whatever is not a tensor is JSON in its header. Nothing in it can run code.
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

from ssmt.text.lines import replacing

KEPT = 2  # the newest and the one before it, in case the newest is damaged


class DamagedError(Exception):
    """The file is truncated or changed."""


class Checkpoint(NamedTuple):
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    written = json.dumps(state)
    metadata = {"state": written, "checksum": str(_checksum(on_cpu, written))}
    with replacing(path) as temporary:
        save_file(on_cpu, temporary, metadata=metadata)


def load(path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata["checksum"] != str(_checksum(tensors, metadata["state"])):
            raise DamagedError(f"{path}: its content does not match its checksum")
        return Checkpoint(tensors, json.loads(metadata["state"]))
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


class Checkpoints:
    """The checkpoints of a run, by number of updates."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _paths(self, kind: str) -> list[Path]:
        return sorted(self.directory.glob(f"{kind}-*.safetensors"))

    def save(self, update: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Everything needed to go on exactly from here."""
        self._write("update", update, tensors, state, KEPT)

    def save_validated(self, update: int, tensors: dict[str, Tensor], keep: int) -> None:
        """Only the weights, for averaging."""
        self._write("validated", update, tensors, {}, keep)

    def _write(self, kind: str, update: int, tensors: dict[str, Tensor], state: dict[str, Any], keep: int) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        save(self.directory / f"{kind}-{update:08}.safetensors", tensors, state)
        for path in self._paths(kind)[:-keep]:
            path.unlink()

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and what was wrong with newer ones."""
        problems: list[str] = []
        for leftover in self.directory.glob(".*.tmp"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        for path in reversed(self._paths("update")):
            try:
                return load(path), problems
            except DamagedError as damage:
                problems.append(str(damage))
                path.rename(path.with_suffix(".damaged"))  # kept for whoever wants to look, but never used again
        return None, problems

    def average(self, most: int) -> dict[str, Tensor] | None:
        """The mean of the last validated weights that are whole, if there are at least two."""
        total: dict[str, Tensor] = {}
        count = 0
        for path in self._paths("validated")[-most:]:
            try:
                tensors = load(path).tensors
            except DamagedError:
                continue
            count += 1
            for name, tensor in tensors.items():
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / count).float() for name, tensor in total.items()} if count > 1 else None
