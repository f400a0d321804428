"""The learning rate over time."""

import math


def inverse_square_root(update: int, highest: float, warmup: int) -> float:
    """Linear up to `highest` over `warmup` updates, then falling with the square root of the update."""
    return highest * min(update / warmup, math.sqrt(warmup / update))
