"""The learning rate over time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssmt.training.schedule import inverse_square_root


def test_schedule() -> None:
    rates = [inverse_square_root(update, 0.1, 100) for update in (1, 50, 100, 400)]
    assert rates == pytest.approx([0.001, 0.05, 0.1, 0.05])


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.floats(1e-6, 1))
def test_learning_rate_rises_linearly_and_falls_with_the_square_root(update: int, warmup: int, highest: float) -> None:
    rate = inverse_square_root(update, highest, warmup)
    expected = highest * update / warmup if update <= warmup else highest * math.sqrt(warmup) / math.sqrt(update)
    assert rate == pytest.approx(expected, rel=1e-9)
    assert 0 < rate <= highest
    assert inverse_square_root(warmup, highest, warmup) == highest
