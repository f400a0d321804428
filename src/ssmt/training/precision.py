"""The arithmetic of the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from ssmt.devices import has_bf16

Precision = Callable[[], torch.autocast]  # a context for each forward pass


def precision_of(setting: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """`auto` is bf16 where a GPU has it."""
    bf16 = setting == "bf16" or (setting == "auto" and device.type == "cuda" and has_bf16(device))
    return partial(torch.autocast, device.type, dtype=torch.bfloat16 if bf16 else None, enabled=bf16)
