"""What would be lost without a word: a value that another replaces, and a text that the answer replaces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.main import get_command

from ssmt.cli import app
from ssmt.cli.shared import Verb
from ssmt.text.preparation import TrainingFiles
from tests.cli.test_bad_input import Ssmt, refused, tree
from tests.cli.test_help import verbs


@pytest.mark.parametrize(
    ("call", "option"),
    [
        ("train --config a.yaml --config b.yaml -o run", "--config is given 2 times"),
        ("translate model -i a --input b", "--input is given 2 times"),
        ("translate model --beam=3 --beam 4", "--beam is given 2 times"),
        ("segment model --target a --target b", "--target is given 2 times"),
        ("score model --source a --target b --source c", "--source is given 2 times"),
        ("evaluate --reference a --hypothesis b --output c -o d -o e", "--output is given 3 times"),
        ("morphology --gold a --gold b --model c", "--gold is given 2 times"),
        ("report run --gold a --gold b", "--gold is given 2 times"),
        ("sweep decode --model a --source b --source c --reference d -o e", "--source is given 2 times"),
        ("demo --seed 1 --seed 2", "--seed is given 2 times"),
        ("config --preset tiny --preset small", "--preset is given 2 times"),
    ],
)
def test_an_option_with_one_value_is_given_once(ssmt: Ssmt, call: str, option: str) -> None:
    refused(ssmt(*call.split()), f"{option} and holds one value")


def test_every_verb_refuses_it() -> None:
    commands = [command for _, command in verbs(get_command(app)) if not hasattr(command, "commands")]
    assert len(commands) > 10
    assert [command.name for command in commands if not isinstance(command, Verb)] == []


def test_lists_and_switches_can_be_repeated(ssmt: Ssmt, toy_files: TrainingFiles) -> None:
    text = toy_files.valid_target
    call = ["evaluate", "--reference", text, "--hypothesis", f"a={text}", "--hypothesis", f"b={text}", "--samples", 0]
    assert ssmt(*call, "--json", "--json").status == 0


def test_no_verb_replaces_what_it_reads(
    ssmt: Ssmt, model_directory: Path, toy_files: TrainingFiles, tmp_path: Path
) -> None:
    source, target = tmp_path / "a.html", tmp_path / "b"
    source.write_bytes(toy_files.valid_source.read_bytes())
    target.write_bytes(toy_files.valid_target.read_bytes())
    os.symlink(source, tmp_path / "link.html")
    (tmp_path / "same").mkdir()
    detour = tmp_path / "same" / ".." / "b"
    subset = tmp_path / "divergence-0.2.source"
    subset.write_bytes(source.read_bytes())
    model, pair = model_directory, ("--source", source, "--target", target)
    before = tree(tmp_path)
    for call in (
        ("translate", model, "-i", source, "-o", source),
        ("translate", model, "-i", source, "-o", tmp_path / "link.html"),
        ("translate", model, "-i", source, "--prefix", target, "-o", detour),
        ("segment", model, *pair, "-o", target),
        ("score", model, *pair, "-o", source),
        ("evaluate", "--reference", target, "--hypothesis", source, "-o", detour),
        ("evaluate", "--reference", target, "--hypothesis", source, "-o", source),
        ("evaluate", "--reference", target, "--model", f"a={model}", "--source", source, "-o", source),
        ("morphology", "--gold", target, "--segmented", source, "-o", target),
        ("report", model, "--source", source, "--reference", target, "-o", tmp_path / "link.html"),
        ("compositional", "--train", target, "--test-source", subset, "--test-target", target, "-o", tmp_path),
    ):
        refused(ssmt(*call), "is read here and would be replaced; name another file")
        assert tree(tmp_path) == before
    kept = tmp_path / "ours.txt"
    target.rename(kept)
    call = ("evaluate", "--reference", kept, "--model", f"ours={model}", "--source", source)
    refused(ssmt(*call, "--save-translations", tmp_path), "ours.txt: is read here and would be replaced")
