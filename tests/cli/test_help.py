"""Help is complete, and the shell completes verbs and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from ssmt.cli import app
from tests.cli.test_bad_input import Ssmt

PROGRAM = Path(sys.executable).parent / "ssmt"


def verbs(command: Any, name: str = "ssmt") -> Iterator[tuple[str, Any]]:
    for verb, inner in getattr(command, "commands", {}).items():
        yield f"{name} {verb}", inner
        yield from verbs(inner, f"{name} {verb}")


@pytest.mark.parametrize(("name", "command"), [pytest.param(*verb, id=verb[0]) for verb in verbs(get_command(app))])
def test_verb_and_all_its_options_are_explained(name: str, command: Any) -> None:
    assert command.help, name
    shown = [parameter for parameter in command.params if parameter.name != "help"]
    assert [parameter.name for parameter in shown if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("verb", ["", *(name.removeprefix("ssmt ") for name, _ in verbs(get_command(app)))])
def test_help_shows_no_types(ssmt: Ssmt, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    shown = ssmt(*verb.split(), "--help").out
    assert "--help" in shown
    assert re.findall(r"<(?!unk>|=)[^ ]*|list\[.*|range", shown) == []


def test_paragraphs_are_folded_to_the_terminal_and_not_where_the_code_has_them() -> None:
    for name, command in verbs(get_command(app)):
        paragraphs = (command.help or "").split("\n\n")
        assert all(paragraph and "\n" not in paragraph for paragraph in paragraphs), name


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ssmt tr", {"train", "translate"}),
        ("ssmt train --max", {"--max-updates", "--max-epochs", "--max-minutes"}),
        ("ssmt translate model --search m", {"marginal", "mixture", "mbr"}),
    ],
)
def test_bash_completes(typed: str, completed: set[str]) -> None:
    asked = {"_SSMT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    found = subprocess.run([PROGRAM], env=os.environ | asked, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == completed


def test_completion_can_be_shown() -> None:
    """What `--show-completion` prints for bash. (The option itself asks which shell it runs under, and a test may run
    under one that has no completion.)"""
    environment = {**os.environ, "_SSMT_COMPLETE": "source_bash"}
    found = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, "complete_bash" in found.stdout) == (0, True), found.stderr
