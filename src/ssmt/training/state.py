"""The state of a run: everything that decides its next update, as a checkpoint holds it.

The tensors of a checkpoint are named `model.<weight>`, `optimiser.<parameter>.<moment>` and `random.<device>`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from ssmt.model.translation import TranslationModel
from ssmt.tensors import Stored


@dataclass
class State:
    """How far a run has come."""

    update: int = 0
    epoch: int = 0  # the epoch under way, from 0
    batch: int = 0  # the next batch of that epoch
    seconds: float = 0.0
    best: float = math.inf  # the lowest cost of all validations, by `stop_on`: bits per character, or minus chrF
    validations_since_best: int = 0
    validated_at: int = 0  # the update of the last validation
    finished_at: int = 0  # the update at which the run ended: at a limit, with everything after the last update done

    @property
    def epoch_from_one(self) -> int:
        """The epoch of the last update, as messages count them."""
        return self.epoch + (self.batch > 0)


def capture(state: State, network: TranslationModel, optimiser: Optimizer) -> Stored:
    """What `restore` goes on from."""
    tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
    for index, moments in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": tensor for name, tensor in moments.items()}
    tensors |= {f"random.{name}": tensor for name, tensor in _random_state(network.device).items()}
    return Stored(tensors, asdict(state))


def restore(stored: Stored, network: TranslationModel, optimiser: Optimizer) -> State:
    """Give weights, moments and random numbers the state that was captured; returns how far the run had come."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "random": {}}
    for name, tensor in stored.tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    network.load_state_dict(parts["model"])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in parts["optimiser"].items():
        index, _, moment = name.partition(".")
        moments.setdefault(int(index), {})[moment] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": moments})
    _set_random_state(parts["random"], network.device)
    return State(**stored.state)


def _random_state(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def _set_random_state(states: dict[str, Tensor], device: torch.device) -> None:
    """A run that goes on on another kind of device finds no state for it there."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
    if "mps" in states and device.type == "mps":
        torch.mps.set_rng_state(states["mps"])
