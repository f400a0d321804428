"""Which preset suits a machine and a text."""

from __future__ import annotations

from pathlib import Path

import torch

from ssmt.config import Preset
from ssmt.files import open_for_reading, require_file

FEW_PAIRS = 50_000  # of which a laptop makes an epoch of `tiny` in minutes; with more, `small` has enough to learn from


def preset_for(device: torch.device, pairs: int) -> Preset:
    if device.type != "cpu":
        return "base"
    return "tiny" if pairs <= FEW_PAIRS else "small"


def choose_preset(device: torch.device, source: str | Path) -> tuple[Preset, str]:
    """The preset for a training text, and why in words."""
    require_file(source)
    with open_for_reading(source) as stream:
        pairs = sum(1 for _ in stream)
    preset = preset_for(device, pairs)
    return preset, f"Preset {preset}, for {pairs:,} pairs on {device.type}"
