"""Where a run ends, and what is said of that beforehand."""

from __future__ import annotations

import pytest
import torch

from ssmt.config import TrainingConfig
from ssmt.training import limits
from ssmt.training.limits import Forecast, Limit, reached_limit
from ssmt.training.presets import preset_for
from ssmt.training.state import State
from tests.test_progress import Clock
from tests.training.runs import Messages


@pytest.mark.parametrize(
    ("settings", "state", "limit"),
    [
        ({"max_epochs": 1}, {"epoch": 1}, Limit("max_epochs", "1 epoch is over")),
        ({"max_updates": 1}, {"update": 1}, Limit("max_updates", "1 update is made")),
        ({"max_updates": 2000}, {"update": 2000}, Limit("max_updates", "2,000 updates are made")),
        ({"max_minutes": 4}, {"seconds": 240.0}, Limit("max_minutes", "4 minutes are over")),
        ({"max_minutes": 1}, {"seconds": 60.0}, Limit("max_minutes", "1 minute is over")),
        (
            {"max_cpu_minutes": 4},
            {"cpu_seconds": 240.0},
            Limit("max_cpu_minutes", "4 minutes of CPU time are over"),
        ),
        ({"max_cpu_minutes": 4}, {"seconds": 240.0, "cpu_seconds": 239.0}, None),
        ({"patience": 3}, {"validations_since_best": 3}, Limit("patience", "no improvement in 3 validations")),
        ({"patience": 3, "min_epochs": 25}, {"validations_since_best": 9, "epoch": 24}, None),
        (
            {"patience": 3, "min_epochs": 25},
            {"validations_since_best": 9, "epoch": 25},
            Limit("patience", "no improvement in 3 validations"),
        ),
        ({"max_updates": 2}, {"update": 1}, None),
    ],
)
def test_a_limit_says_which_setting_it_is(
    settings: dict[str, float], state: dict[str, float], limit: Limit | None
) -> None:
    assert reached_limit(TrainingConfig(**settings), State(**state)) == limit  # type: ignore[arg-type]


def test_epochs_are_counted_from_one_and_alike_in_their_middle_and_at_their_end() -> None:
    assert [State(epoch=epoch, batch=batch).epoch_from_one for epoch, batch in ((0, 5), (1, 0), (1, 5))] == [1, 1, 2]


def forecast_of(settings: TrainingConfig, updates: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of a run whose updates take a second, with 100 batches an epoch."""
    clock, messages, state = Clock(), Messages(), State()
    monkeypatch.setattr(limits, "time", clock)
    forecast = Forecast(settings, messages)
    for _ in range(updates):
        forecast.begin(state, 100)
        clock.now += 1
        state.update, state.batch, state.seconds = state.update + 1, state.batch + 1, state.seconds + 1
        forecast.look(state, 100)
    return messages.said


def test_after_the_first_seconds_it_is_said_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TrainingConfig(max_updates=310, max_epochs=None, patience=None, validate_every=50)
    assert forecast_of(settings, 9, monkeypatch) == ["An epoch has 100 updates; validation every 50 updates"]
    assert forecast_of(settings, 30, monkeypatch)[1:] == ["At this pace it takes about 5 minutes more"]


def test_a_limit_before_the_first_validation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TrainingConfig(max_minutes=0.5, patience=None)
    said = forecast_of(settings, 20, monkeypatch)
    assert said[0] == "An epoch has 100 updates; validation after each"
    assert said[1:] == [
        "At this pace it takes about 20 seconds more",
        "It will end before its first validation is due; the model is validated once, at its end",
    ]
    assert len(forecast_of(TrainingConfig(max_minutes=10, patience=None), 20, monkeypatch)) == 2


def test_the_preset_suits_device_and_data() -> None:
    assert preset_for(torch.device("cpu"), 16_000) == "tiny"
    assert preset_for(torch.device("cpu"), 60_000) == "small"
    assert preset_for(torch.device("cuda"), 16_000) == "base"
