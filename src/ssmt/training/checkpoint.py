"""The checkpoints of a run: the newest, the one before it in case the newest is damaged, and weights to average."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ssmt.errors import UserError
from ssmt.outputs import remove_leftovers
from ssmt.tensors import DamagedError, Stored, load, save

KEPT = 2


class Checkpoint(NamedTuple):
    name: str
    stored: Stored


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
        self.directory.mkdir(exist_ok=True)  # not its parents: a run whose directory is gone saves nothing
        save(self.directory / f"{kind}-{update:08}.safetensors", tensors, state)
        for path in self._paths(kind)[:-keep]:
            path.unlink()

    def load(self, name: str) -> Checkpoint:
        """The one that another process goes on from."""
        try:
            return Checkpoint(name, load(self.directory / name))
        except DamagedError as damage:
            raise UserError(
                f"{damage}. The first process, perhaps on another machine, has read it: all need the same directory"
            ) from None

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and what was wrong with newer ones."""
        problems: list[str] = []
        remove_leftovers(self.directory)
        for path in reversed(self._paths("update")):
            try:
                return Checkpoint(path.name, load(path)), problems
            except DamagedError as damage:
                problems.append(str(damage))
                path.rename(path.with_suffix(".damaged"))  # kept for whoever wants to look, but never used again
        return None, problems

    def average(self, most: int, network: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """The mean of the last validated weights that are whole and of this network, if there are at least two."""
        total: dict[str, Tensor] = {}
        count = 0
        for path in self._paths("validated")[-most:]:
            try:
                tensors = load(path).tensors
            except DamagedError:
                continue
            if _shapes(tensors) != _shapes(network):
                continue
            count += 1
            for name, tensor in tensors.items():
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / count).float() for name, tensor in total.items()} if count > 1 else None


def _shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[object, ...]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
