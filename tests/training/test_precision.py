"""The arithmetic of training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import torch

from ssmt.config import Config
from ssmt.text.preparation import TrainingFiles
from ssmt.training.precision import precision_of
from tests.training.runs import train


@pytest.mark.parametrize(
    ("setting", "device", "has_bf16", "expected"),
    [
        ("float32", "cuda", True, False),
        ("bf16", "cpu", False, True),
        ("auto", "cpu", True, False),
        ("auto", "cuda", False, False),
        ("auto", "cuda", True, True),
    ],
)
def test_auto_is_bf16_where_a_gpu_has_it(
    monkeypatch: pytest.MonkeyPatch,
    setting: Literal["auto", "float32", "bf16"],
    device: str,
    has_bf16: bool,
    expected: bool,
) -> None:
    monkeypatch.setattr("ssmt.training.precision.has_bf16", lambda device: has_bf16)
    chosen = precision_of(setting, torch.device(device))
    assert isinstance(chosen, partial)
    assert chosen.keywords["enabled"] == expected


def test_bf16_autocast_trains_close_to_float32(tmp_path: Path, toy_files: TrainingFiles, toy_config: Config) -> None:
    finals = []
    for precision in ("float32", "bf16"):
        settings = {"precision": precision, "max_updates": 60, "validate_every": 60, "learning_rate": 0.005}
        _, log = train(tmp_path / precision, toy_files, toy_config, **settings, warmup_updates=10)
        finals.append(log[-1]["valid_bits_per_character"])
    assert finals[1] == pytest.approx(finals[0], rel=0.1)
    assert finals[0] < 3.0
