"""Which preset suits a machine and a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ssmt.config import CorpusConfig, Preset
from ssmt.files import require_file
from ssmt.text.formats import files_of, stream_pairs

FEW_PAIRS = 50_000  # of which a laptop makes an epoch of `tiny` in minutes; with more, `small` has enough to learn from


def preset_for(device: torch.device, pairs: int) -> Preset:
    if device.type != "cpu":
        return "base"
    return "tiny" if pairs <= FEW_PAIRS else "small"


def choose_preset(device: torch.device, corpora: Sequence[CorpusConfig]) -> tuple[Preset, str]:
    """The preset for training corpora, and why in words."""
    for path in (path for corpus in corpora for path in files_of(corpus)):
        require_file(path)
    pairs = sum(1 for corpus in corpora for _ in stream_pairs(corpus))
    preset = preset_for(device, pairs)
    return preset, f"Preset {preset}, for {pairs:,} pairs on {device.type}"
