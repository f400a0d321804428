"""The learning rate and the dropout over time."""

import math

from ssmt.config import TrainingConfig


def learning_rate(settings: TrainingConfig, update: int, share: float) -> float:
    """Of an update, counted from 1, before which this share of the run was over."""
    rate = inverse_square_root(update, settings.learning_rate, settings.warmup_updates)
    is_cooling = share > 1 - settings.cooldown
    return rate * (1 - share) / settings.cooldown if is_cooling else rate


def dropout(whole: float, settings: TrainingConfig, passes: float) -> float:
    """After so many passes over the data. It is by passes that a network learns its text by heart, and each of the
    first ones teaches it more the less is dropped."""
    rise = settings.dropout_epochs
    return whole if rise is None else whole * (1 + min(1.0, passes / rise)) / 2


def inverse_square_root(update: int, highest: float, warmup: int) -> float:
    """Linear up to `highest` over `warmup` updates, then falling with the square root of the update."""
    return highest * min(update / warmup, math.sqrt(warmup / update))
