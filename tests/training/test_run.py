"""A run and its directory: who may train in it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ssmt.config import Config
from ssmt.errors import UserError
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from tests.training.runs import train


def test_two_processes_do_not_train_in_one_directory(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config
) -> None:
    directory = tmp_path / "run"
    train(directory, toy_files, toy_config, max_epochs=1)
    with run._alone(directory), pytest.raises(UserError, match="another process is training there"):
        run.train(directory, torch.device("cpu"), Reporter())
    assert run.train(directory, torch.device("cpu"), Reporter()) is None
