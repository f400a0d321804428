"""The state of a run: everything that decides its next update, as a checkpoint holds it.

The tensors of a checkpoint are named `model.<weight>` and `optimiser.<parameter>.<moment>`. Random numbers have no
state: those of an update are a function of the seed and its number.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ssmt.config import MANY
from ssmt.model.translation import TranslationModel
from ssmt.tensors import Stored

COSTS = ("best", "fewest_bits")  # of a state: infinite at first, and a chrF's is below zero
MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's, besides the number of steps


@dataclass
class State:
    """How far a run has come."""

    update: int = 0
    epoch: int = 0  # the epoch under way, from 0
    batch: int = 0  # the next batch of that epoch
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # in updates; of several processes, of the first
    best: float = math.inf  # the lowest cost of all validations, by what decides: bits per character, or minus chrF
    fewest_bits: float = math.inf  # per character, of all validations
    validations_since_best: int = 0  # without anything better that patience is for
    validated_at: int = 0  # the update of the last validation
    best_at: int = 0  # the update of the validation after which its weights became the run's model
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
    return Stored(tensors, asdict(state))  # JSON has no infinity: a cost that is none yet is written as null


def restore(stored: Stored, network: TranslationModel, optimiser: Optimizer) -> State:
    """Give weights and moments the state that was captured; returns how far the run had come.

    What is not of this run is a ValueError, and then nothing has changed."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}}
    for name, tensor in stored.tensors.items():
        part, _, rest = name.partition(".")
        if part == "random":  # of checkpoints whose random numbers had a state
            continue
        if part not in parts:
            raise ValueError(f"tensor {name!r} is nothing of a run")
        parts[part][rest] = tensor
    _require_same(parts["model"], network.state_dict())
    moments = _moments(
        parts["optimiser"], [parameter for group in optimiser.param_groups for parameter in group["params"]]
    )
    state = _state(stored.state)
    network.load_state_dict(parts["model"])
    optimiser.load_state_dict(optimiser.state_dict() | {"state": moments})
    return state


def _require_same(stored: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name in sorted(stored.keys() | expected.keys()):
        theirs, ours = stored.get(name), expected.get(name)
        if theirs is None or ours is None or theirs.shape != ours.shape or theirs.dtype != ours.dtype:
            raise ValueError(
                f"weight {name!r} is missing, unknown, or of another shape or type than the settings ask for"
            )
        if not theirs.isfinite().all():
            raise ValueError(f"weight {name!r} is not finite")


def _moments(stored: dict[str, Tensor], parameters: list[Tensor]) -> dict[int, dict[str, Tensor]]:
    """The optimiser's tensors, by the number of the parameter that they belong to."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        index, _, moment = name.partition(".")
        number = int(index) if index.isascii() and index.isdecimal() and len(index) < 10 else len(parameters)
        shapes = {
            "step": torch.Size(),
            **{key: parameters[number].shape for key in MOMENTS if number < len(parameters)},
        }
        if number >= len(parameters) or shapes.get(moment) != tensor.shape or not tensor.is_floating_point():
            raise ValueError(f"the optimiser has no tensor {name!r} of shape {tuple(tensor.shape)}")
        if not tensor.isfinite().all() or (moment == "step" and not 0 <= float(tensor) <= MANY):
            raise ValueError(f"tensor {name!r} of the optimiser is out of bounds")
        moments.setdefault(number, {})[moment] = tensor
    if any({*of_parameter} != {"step", *MOMENTS} for of_parameter in moments.values()):
        raise ValueError("the optimiser's tensors are not complete")
    return moments


def _state(stored: dict[str, Any]) -> State:
    """The fields of a state; those of later versions have defaults."""
    known = {field.name: field.type for field in fields(State)}
    values: dict[str, Any] = {name: math.inf if stored.get(name) is None else stored[name] for name in COSTS}
    for name, value in (stored | values).items():
        kinds = (int, float) if known.get(name) == "float" else (int,)
        if name not in known or isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"its {name} is {str(value)[:40]!r}")
        if (name not in COSTS and not 0 <= value <= MANY) or math.isnan(value):
            raise ValueError(f"its {name} is {str(value)[:40]!r}")
        values[name] = value
    return State(**values)
