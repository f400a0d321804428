"""The learning rate and the dropout over time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssmt.config import TrainingConfig
from ssmt.training.schedule import dropout, inverse_square_root, learning_rate


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


@given(st.floats(0, 1, exclude_max=True), st.floats(0.01, 1))
def test_in_the_last_part_of_a_run_the_learning_rate_falls_to_zero_in_a_line(share: float, part: float) -> None:
    settings = TrainingConfig(cooldown=part)
    before = learning_rate(TrainingConfig(), 5000, share)
    assert learning_rate(settings, 5000, share) == pytest.approx(before * min(1.0, (1 - share) / part), rel=1e-9)


def test_without_a_cooldown_the_learning_rate_knows_no_end() -> None:
    assert learning_rate(TrainingConfig(), 4000, 0.999) == learning_rate(TrainingConfig(), 4000, 0.0) == 5e-4


def test_dropout_rises_in_a_line_from_half_of_it_to_all() -> None:
    settings = TrainingConfig(dropout_epochs=8)
    rates = [dropout(0.2, settings, passes) for passes in (0, 2, 4, 8, 100)]
    assert rates == pytest.approx([0.1, 0.125, 0.15, 0.2, 0.2])
    assert dropout(0.0, settings, 4) == 0.0


@given(st.floats(0, 0.9), st.floats(0, 1000))
def test_dropout_stays_where_it_is_not_to_rise(rate: float, passes: float) -> None:
    assert dropout(rate, TrainingConfig(), passes) == rate
