"""A run and its directory: who may train in it, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path

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
    refusals: list[UserError] = []

    def elsewhere() -> None:
        try:
            run.train(directory, torch.device("cpu"), Reporter())
        except UserError as error:
            refusals.append(error)

    with run.alone(directory):
        thread = threading.Thread(target=elsewhere)  # to a lock, another thread is like another process
        thread.start()
        thread.join()
    assert ["another process is training there" in str(error) for error in refusals] == [True]
    assert run.train(directory, torch.device("cpu"), Reporter()) is None
