"""What people type who come from elsewhere, and what they see in a terminal."""

from __future__ import annotations

import gzip
import os
import pty
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ssmt as package
from ssmt.config import OTHER_NAMES, Config, Section
from ssmt.errors import UserError
from ssmt.interface import train
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from tests.cli.test_bad_input import Ssmt, refused
from tests.conftest import Pair, write_pairs
from tests.training.runs import Messages

TINY = ["network.width=16", "network.heads=2", "network.feedforward=16", "training.chrf_sentences=0"]
TINY += ["text.source_vocabulary=60", "text.lexicon_size=80", "network.encoder_layers=1", "network.decoder_layers=1"]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("generate model", "`ssmt translate MODEL` translates"),
        ("preprocess", "`ssmt train` takes text files as they are"),
        ("train --lr 0.1", r"No such option: --lr .*--set training.learning_rate="),
        ("train --batch-size 32", r"--set training.batch_characters="),
        ("train --epochs 3", r"No such option: --epochs .*--max-epochs"),
        ("translate model --beam-size 3", r"No such option: --beam-size .*--beam"),
    ],
)
def test_verbs_and_options_of_other_toolkits(ssmt: Ssmt, call: str, answer: str) -> None:
    refused(ssmt(*call.split()), answer)


@pytest.mark.parametrize(
    ("setting", "answer"),
    [
        ("training.lr=1", "did you mean 'training.learning_rate'"),
        ("lr=1", "did you mean 'training.learning_rate'"),
        ("training.batch_size=1", "did you mean 'training.batch_characters'"),
        ("epochs=1", "did you mean 'training.max_epochs'"),
        ("patience=1", "did you mean 'training.patience'"),
        ("training.beam_size=1", "there is no setting 'training.beam_size': a model can be asked for it"),
    ],
)
def test_settings_of_other_toolkits(ssmt: Ssmt, toy_files: TrainingFiles, setting: str, answer: str) -> None:
    files = ["--source", toy_files.source, "--target", toy_files.target]
    files += ["--valid-source", toy_files.valid_source, "--valid-target", toy_files.valid_target]
    refused(ssmt("train", *files, "-o", "nowhere", "--set", setting), answer)


def test_every_other_name_leads_to_a_setting() -> None:
    known = {
        f"{name}.{key}"
        for name, field in Config.model_fields.items()
        if isinstance(field.default, Section)
        for key in type(field.default).model_fields
    }
    assert set(OTHER_NAMES.values()) <= known


def test_devices_by_other_names(ssmt: Ssmt, model_directory: Path) -> None:
    text = model_directory / "data" / "valid" / "source.txt"
    refused(ssmt("translate", model_directory, "-i", text, "--device", "gpu"), "device gpu: this machine has .*cpu")


def test_compressed_text_is_read_and_other_encodings_are_recognised(
    ssmt: Ssmt, model_directory: Path, tmp_path: Path
) -> None:
    text = "I see a bird.\nyou call 2 cows.\n"
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.en").write_text(text)
    plain, packed = (ssmt("translate", model_directory, "-i", tmp_path / name).out for name in ("a.en", "a.gz"))
    assert plain == packed != ""
    (tmp_path / "a.txt").write_bytes("häuser".encode("utf-16"))
    refused(ssmt("translate", model_directory, "-i", tmp_path / "a.txt"), "iconv -f UTF-16")


def test_python_runs_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "ssmt", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ssmt {package.__version__}\n"


def test_validation_text_that_is_training_text_is_noticed(tmp_path: Path, toy_pairs: list[Pair]) -> None:
    train_files = write_pairs(tmp_path, "train", toy_pairs)
    for name, pairs, warned in (("same", toy_pairs, True), ("new", [("I see a bird.", "nibonanibona.")], False)):
        messages = Messages()
        valid = write_pairs(tmp_path, name, pairs)
        train(*train_files, *valid, tmp_path / name, preset="tiny", settings=TINY, max_updates=1, reporter=messages)
        assert any("validation pairs are training pairs too" in message for message in messages.said) == warned


def test_training_from_python_in_one_call(
    tmp_path: Path, toy_files: TrainingFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (toy_files.source, toy_files.target, toy_files.valid_source, toy_files.valid_target)
    model = package.train(*files, tmp_path / "run", settings=TINY, max_updates=2)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Preset tiny, for 60 pairs on cpu" in said.err
    assert repr(model).startswith("<Translator of kind ssmt: ")
    texts, segments, scores = model.translate(["I see a bird."])
    assert (len(texts), "".join(segments[0]), len(scores)) == (1, texts[0], 1)
    n_best = model.translate(["I see a bird."], n_best=2)
    assert len(n_best.texts[0]) == 2

    again = package.train(*files, tmp_path / "run", settings=TINY, max_updates=2, reporter=Reporter())
    assert again.translate(["I see a bird."]).texts == texts
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UserError, match=r"network.width was 16, now 32"):
        package.train(*files, tmp_path / "run", settings=[*TINY, "network.width=32"], reporter=Reporter())


def in_terminal(*arguments: object, typed: bytes = b"", wait_for: bytes = b"", into: str = "") -> str:
    """What a terminal of 80 columns shows of a call, without colours; `into` is what its answers are piped into."""
    program = [sys.executable, "-m", "ssmt", *map(str, arguments)]
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}
        if into:
            os.execv("/bin/sh", ["sh", "-c", f"{shlex.join(program)} | {into}"])
        os.execv(sys.executable, program)
    shown, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the child has closed it
            break
        if typed and wait_for in shown:
            os.write(terminal, typed)
            typed = b""
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "")


def test_whoever_types_sentences_is_prompted_and_answered(model_directory: Path) -> None:
    shown = in_terminal(
        "translate", model_directory, "--max-length", 3, typed=b"I see a bird.\n\x04", wait_for=b"> "
    )  # fmt: skip
    assert shown.startswith("One sentence a line, then Enter; Ctrl-D ends\n> I see a bird.\n")
    assert re.search(r"\n.{0,3}\n> \n$", shown), shown


def test_no_bar_touches_what_is_written_to_a_terminal(model_directory: Path, toy_files: TrainingFiles) -> None:
    files = ("--source", toy_files.valid_source, "--target", toy_files.valid_target)
    for into in ("", "cat"):
        assert re.fullmatch(r"(-\d+\.\d{6}\n){12}", in_terminal("score", model_directory, *files, into=into))


@pytest.mark.parametrize(("chosen", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_someone_has_chosen(chosen: str | None, policy: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if chosen is None else {"OMP_WAIT_POLICY": chosen}
    code = "import ssmt, sys, os; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [policy, "False"]
