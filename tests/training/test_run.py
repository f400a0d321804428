"""A run and its directory: who may train in it, and what is refused."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

import ssmt
from ssmt.config import Config
from ssmt.errors import UserError
from ssmt.progress import Reporter
from ssmt.text import preparation
from ssmt.text.preparation import TrainingFiles
from ssmt.text.subwords import Subwords
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
    assert ["another process is at work there" in str(error) for error in refusals] == [True]
    assert run.train(directory, torch.device("cpu"), Reporter()) is None


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_what_a_killed_process_has_forked_does_not_hold_its_lock(tmp_path: Path) -> None:
    """As the processes that encode text, which end a moment after the one that was killed."""
    ready, told = os.pipe()
    holder = os.fork()
    if holder == 0:
        with run.alone(tmp_path / "run"):
            if os.fork() == 0:
                os.write(told, os.getpid().to_bytes(8, "little"))
            signal.pause()
    forked = int.from_bytes(os.read(ready, 8), "little")
    try:
        with pytest.raises(UserError, match="another process is at work there"), run.alone(tmp_path / "run"):
            pass
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        with run.alone(tmp_path / "run"):
            os.kill(forked, 0)  # it is there
    finally:
        os.kill(forked, signal.SIGKILL)


def test_a_preparation_that_was_interrupted_is_kept_and_gone_on_with(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.begin(toy_files, tmp_path / "run", toy_config, Reporter())
    assert (tmp_path / "run" / "data" / preparation.PREPARING / "bpe-60-1.model").exists()
    with monkeypatch.context() as patched:
        patched.setattr(Subwords, "train", interrupted)  # which is not needed again
        run.begin(toy_files, tmp_path / "run", toy_config, Reporter())
    assert sorted(path.name for path in (tmp_path / "run" / "data").iterdir()) == ["train", "valid"]
    with pytest.raises(UserError, match="already holds a run"):
        run.begin(toy_files, tmp_path / "run", toy_config, Reporter())


def test_a_file_of_settings_says_the_kind_of_model_from_python_too(toy_files: TrainingFiles, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: bpe\ntext:\n  subword_vocabulary: 60\n")
    files = (toy_files.source, toy_files.target, toy_files.valid_source, toy_files.valid_target)
    settings = ["network.width=16", "network.heads=2", "training.chrf_sentences=0", "training.max_updates=1"]
    given: dict[str, Any] = {
        "config": tmp_path / "c.yaml",
        "settings": settings,
        "reporter": Reporter(),
        "preset": "tiny",
    }
    assert ssmt.train(*files, tmp_path / "bpe", **given).config.model == "bpe"
    settings.append("text.subword_vocabulary=50")
    assert ssmt.train(*files, tmp_path / "ulm", model="ulm", **given).config.model == "ulm"
    with pytest.raises(UserError, match="model was bpe, now ssmt"):
        ssmt.train(
            *files, tmp_path / "other", model="ssmt", start=tmp_path / "bpe", settings=settings, reporter=Reporter()
        )
