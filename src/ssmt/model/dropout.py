"""Dropout that is not slow on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Module):
    """On a CPU torch draws one random number an element, one after the other, which is a large part of a training step.
    Here one draw of 64 bits serves four elements. The rate is rounded to 1/65536 and the scale fits that rate."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        self.dropped = round(rate * LEVELS)  # of every 65536

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.dropped == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.dropped / LEVELS)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= self.dropped - LEVELS // 2
        return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - self.dropped))


def set_dropout(network: nn.Module, rate: float) -> None:
    """Of all its layers."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.set_rate(rate)
