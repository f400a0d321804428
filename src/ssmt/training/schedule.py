"""The learning rate over time."""

import math

from ssmt.config import TrainingConfig


def learning_rate(settings: TrainingConfig, update: int, share: float) -> float:
    """Of an update, counted from 1, before which this share of the run was over."""
    rate = inverse_square_root(update, settings.learning_rate, settings.warmup_updates)
    is_cooling = share > 1 - settings.cooldown
    return rate * (1 - share) / settings.cooldown if is_cooling else rate


def inverse_square_root(update: int, highest: float, warmup: int) -> float:
    """Linear up to `highest` over `warmup` updates, then falling with the square root of the update."""
    return highest * min(update / warmup, math.sqrt(warmup / update))
