"""A model directory that something has happened to: a message that names the file, before anything is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ssmt import tensors
from ssmt.config import with_settings
from ssmt.directory import WEIGHTS, expected_tensors, load_description, load_model, save_description, save_weights
from ssmt.errors import UserError
from ssmt.registry import build
from ssmt.translator import Translator


@pytest.fixture
def copy(tmp_path: Path, model_directory: Path) -> Path:
    return Path(shutil.copytree(model_directory, tmp_path / "model"))


def refused(directory: Path, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_model(directory, torch.device("cpu"))


def change_weight(directory: Path, change: Callable[[Tensor], Tensor], name: str = "segments.gate.weight") -> None:
    weights = load_file(directory / WEIGHTS)
    weights[name] = change(weights[name]).contiguous()
    save_weights(directory, weights)


def test_expected_tensors_are_those_of_the_network_and_take_no_memory(model_directory: Path) -> None:
    vocabulary, config = load_description(model_directory)
    built, expected = build(vocabulary, config).state_dict(), expected_tensors(vocabulary, config)
    assert {name: (weight.shape, weight.dtype) for name, weight in expected.items()} == {
        name: (weight.shape, weight.dtype) for name, weight in built.items()
    }
    assert {name for name, weight in expected.items() if weight.nbytes > 100 and not weight.is_meta} == set()


def test_whoever_may_read_one_file_of_a_model_may_read_all(model_directory: Path) -> None:
    modes = {path.name: oct(path.stat().st_mode) for path in model_directory.iterdir() if path.is_file()}
    assert WEIGHTS in modes
    assert len({*modes.values()}) == 1, modes


def test_a_model_is_loaded_without_the_compiler(model_directory: Path) -> None:
    code = f"import ssmt, sys; ssmt.Translator.load({str(model_directory)!r}); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(copy: Path, value: float) -> None:
    change_weight(copy, lambda weight: torch.full_like(weight, value))
    refused(copy, r"model\.safetensors: tensor 'segments\.gate\.weight' has values that are not finite")


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int64])
def test_weights_of_another_type_are_refused(copy: Path, dtype: torch.dtype) -> None:
    change_weight(copy, lambda weight: weight.to(dtype))
    refused(copy, r"tensor 'segments\.gate\.weight' is of type")


def test_weights_of_half_the_size_are_weights(copy: Path) -> None:
    change_weight(copy, lambda weight: weight.half())
    model, _ = load_model(copy, torch.device("cpu"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_lexicon_by_first_character_can_be_loaded(copy: Path) -> None:
    vocabulary, config = load_description(copy)
    config = with_settings(config, ["network.lexicon_by_first_character=true"])
    save_description(copy, vocabulary, config)
    save_weights(copy, build(vocabulary, config).state_dict())
    model, _ = load_model(copy, torch.device("cpu"))
    assert "segments.classes.logits.weight" in model.state_dict()


def test_finite_weights_whose_results_are_not_are_recognised(copy: Path) -> None:
    for name in load_file(copy / WEIGHTS):
        change_weight(copy, lambda weight: torch.full_like(weight, 3e38), name)
    translator = Translator.load(copy, "cpu")
    for call in (
        *(
            partial(translator.translate, ["we see a bird."], search=search)
            for search in ("marginal", "dynamic", "mixture", "sample", "mbr")
        ),
        lambda: translator.score(["we see a bird."], ["tibona inyoni."]),
        lambda: translator.segment(None, ["tibona inyoni."]),
        lambda: translator.boundary_posteriors(None, ["tibona inyoni."]),
    ):
        with pytest.raises(UserError, match="are not numbers"):
            call()


@pytest.mark.parametrize("name", ["source.model", "alphabet.json", "lexicon.txt"])
def test_another_vocabulary_of_the_same_size_is_recognised(copy: Path, name: str) -> None:
    load_model(copy, torch.device("cpu"))
    path = copy / name
    if name == "source.model":
        path.write_bytes(path.read_bytes() + b"\x1a\x00")  # an empty field: the same model to sentencepiece
    elif name == "alphabet.json":
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    else:
        path.write_text(re.sub(r"\t\d+\n", "\t77\n", path.read_text(encoding="utf-8")), encoding="utf-8")
    refused(copy, "was trained with another vocabulary|is not a sentencepiece model")


def test_weights_without_a_digest_are_still_weights(copy: Path) -> None:
    weights = load_file(copy / WEIGHTS)
    tensors.save(copy / WEIGHTS, weights, {})  # as earlier versions wrote them
    load_model(copy, torch.device("cpu"))
    (copy / WEIGHTS).unlink()
    save_file(weights, copy / WEIGHTS)  # as other programs do
    load_model(copy, torch.device("cpu"))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("network", "encoder_layers", 1_000_000),
        ("network", "encoder_layers", 100),
        ("network", "width", 100_000),
        ("network", "width", 65_536),
        ("network", "feedforward", 65_536),
        ("text", "length_ratio", 1e6),
        ("text", "longest_target", 10**31),
        ("training", "seed", "DIGITS"),
        ("network", "width", [[[[]]]]),
    ],
)
def test_sizes_are_refused_before_anything_is_built(copy: Path, section: str, key: str, value: Any) -> None:
    config = json.loads((copy / "config.json").read_text())
    config[section][key] = value
    (copy / "config.json").write_text(json.dumps(config).replace('"DIGITS"', "9" * 5000))
    refused(copy, r"config\.json|model\.safetensors")


def test_an_entry_of_many_characters_is_refused(copy: Path) -> None:
    with open(copy / "lexicon.txt", "a", encoding="utf-8") as stream:
        stream.write("a" * 100_000 + "\t1\n")
    refused(copy, r"lexicon\.txt, line \d+: the entry has 100,000 characters")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "alphabet.json", "lexicon.txt", "source.model"])
def test_a_pipe_or_a_device_is_not_waited_for(copy: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    refused(copy, f"{name}: is no plain file")
    (copy / name).unlink()
    (copy / name).symlink_to("/dev/zero")
    refused(copy, f"{name}: is no plain file")


@pytest.mark.parametrize(
    "content",
    [
        {"symbols": ["<pad>", "</s>", "<unk>", "<eom>", "a"], "word_characters": 3},
        {"symbols": ["<pad>", "</s>", "<unk>", "<eom>", "a"], "word_characters": [{}]},
        {"symbols": ["<pad>", "</s>", "<unk>", "<eom>", "\ud800"]},
        {"symbols": ["<pad>", "</s>", "<unk>", "<eom>", ""]},
        {"symbols": {"<pad>": 1}},
    ],
)
def test_wrong_types_in_an_alphabet_are_refused(copy: Path, content: Any) -> None:
    (copy / "alphabet.json").write_text(json.dumps(content))
    refused(copy, r"alphabet\.json: ")


def test_a_first_model_must_be_one_that_cuts(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model": "dpe"}))
    (copy / "segmenter").symlink_to(".")
    (copy / "target.txt").write_text("▁\t1\n", encoding="utf-8")
    with pytest.raises(UserError):
        Translator.load(copy, "cpu")
    from ssmt.directory import load_segmenter_config

    with pytest.raises(UserError, match="segmenter: is a model of kind dpe, which cannot cut"):
        load_segmenter_config(copy)
