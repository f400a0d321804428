"""Importing made-up checkpoints of all styles: numbers as of a literal restatement, and messages for bad files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ssmt import Translator, lattice
from ssmt.errors import UserError
from ssmt.interop.fairseq import import_fairseq
from ssmt.search.decode import search_batch
from ssmt.search.job import Request
from ssmt.search.marginal import MarginalScorer
from ssmt.search.options import SearchOptions
from ssmt.search.table import SEARCHES
from ssmt.text.batch import make_batch, padded
from tests.interop.original import (
    CHARACTERS,
    LEXICON,
    SPECIALS,
    Files,
    Original,
    Shape,
    checkpoint_of,
    random_tensors,
    write_files,
)

STYLES = {
    "cfg": ("cfg", Shape()),
    "args": ("args", Shape(encoder_normalize_before=True, max_seg_len=5)),
    "nested": ("nested", Shape(no_scale_embedding=True, encoder_layers=1, decoder_layers=3)),
}
SENTENCES = [("I see a bird .", "bona ni 2."), ("a cow@@ s see .", "é\u030ca-baan \u2126\u03a9"), ("I", "x")]


def made_up(directory: Path, shape: Shape | None = None, style: str = "cfg", seed: int = 1) -> Files:
    directory.mkdir(exist_ok=True)
    shape = shape or Shape()
    return write_files(directory, checkpoint_of(random_tensors(shape, seed), shape.options(), style))


def imported(directory: Path, files: Files) -> Path:
    import_fairseq(*files.arguments(directory / "model"))
    return directory / "model"


def ids_of(text: str) -> list[int]:
    symbols = [*SPECIALS, "<eom>", *CHARACTERS]
    return [*(symbols.index(character) if character in symbols else 3 for character in text), 2]


@pytest.mark.parametrize("name", STYLES)
def test_computes_what_the_original_computes(tmp_path: Path, name: str) -> None:
    style, shape = STYLES[name]
    tensors = random_tensors(shape, seed=3)
    files = write_files(tmp_path, checkpoint_of(tensors, shape.options(), style))
    translator = Translator.load(imported(tmp_path, files), "cpu", pretokenised=True)
    original = Original(tensors, shape)
    sources = translator.vocabulary.encode_sources([source for source, _ in SENTENCES])
    targets = [ids_of(target) for _, target in SENTENCES]
    batch = make_batch(sources, targets, translator.vocabulary.batch_symbols)
    with torch.inference_mode():
        tables = lattice.forward_table(translator.model.lattice(batch)).tolist()
    for table, source, target in zip(tables, sources, targets, strict=True):
        expected = original.forward_table(list(source), target)
        assert table[: len(target) + 1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("beam", "normalisation", "averaged", "shortest"),
    [
        (1, "seg-seg", False, 1),
        (3, "seg-seg", False, 1),
        (3, "char-char", False, 4),
        (3, "none-none", False, 1),
        (3, "seg-none", False, 1),
        (3, "seg-seg", True, 1),
        (2, "char-seg", True, 1),
    ],
)
def test_decodes_as_the_original_decodes(
    tmp_path: Path, beam: int, normalisation: str, averaged: bool, shortest: int
) -> None:
    longest, shape = 7, Shape(max_seg_len=4)
    tensors = random_tensors(shape, seed=beam)
    tensors["decoder.lex_decoder.fc.bias"][SPECIALS.index("<pad>")] -= 20  # which no model learns to write
    tensors["decoder.char_decoder.fc.bias"][2] -= 1  # `</s>`: not so soon
    files = write_files(tmp_path, checkpoint_of(tensors, shape.options(), "cfg"))
    model = Translator.load(imported(tmp_path, files), "cpu").model
    names: dict[str, Any] = {"seg": "segments", "char": "characters", "none": "none"}
    in_search, at_end = (names[part] for part in normalisation.split("-"))
    options = SearchOptions(
        "dynamic",
        beam,
        beam,
        min_length=shortest,
        normalise=in_search,
        stop="paper",
        final_normalise=at_end,
        average_next=averaged,
    )
    sources = [[4, 5, 6, 2], [8, 9, 2]]
    lengths = torch.tensor([longest, longest])
    request = Request.of_lengths(model.vocabulary.start, lengths, shortest)
    found = search_batch(model, MarginalScorer, SEARCHES["dynamic"], padded(sources, 1), request, options)
    for source, few in zip(sources, found, strict=True):
        expected = Original(tensors, shape).decode(source, beam, normalisation, averaged, longest, shortest)
        assert [(tuple(one.symbols), tuple(one.ends or ())) for one in few] == [one[:2] for one in expected]
        assert [one.rank for one in few] == pytest.approx([one[2] for one in expected], abs=1e-4)


def test_an_unused_output_layer_is_passed_over(tmp_path: Path) -> None:
    tensors = random_tensors(Shape(), 1)
    tensors["decoder.output_projection.weight"] = tensors["decoder.embed_tokens.weight"]
    files = write_files(tmp_path, checkpoint_of(tensors, Shape().options(), "cfg"))
    translator = Translator.load(imported(tmp_path, files), "cpu")
    assert translator.config.network.decoder_layers == 1


def test_halves_become_float32(tmp_path: Path) -> None:
    tensors = {name: tensor.half() for name, tensor in random_tensors(Shape(), 1).items()}
    files = write_files(tmp_path, checkpoint_of(tensors, Shape().options(), "cfg"))
    weights = Translator.load(imported(tmp_path, files), "cpu").model.state_dict()
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_letters_are_the_originals_and_symbols_stay_as_they_are(tmp_path: Path) -> None:
    alphabet = Translator.load(imported(tmp_path, made_up(tmp_path)), "cpu").vocabulary.alphabet
    assert alphabet.symbols == (*SPECIALS, "<eom>", *CHARACTERS)
    assert [symbol for symbol in alphabet.symbols if alphabet.is_word[alphabet.symbols.index(symbol)]] == [
        character for character in CHARACTERS if character.isalpha()
    ]
    assert not alphabet.is_word[alphabet.symbols.index("\u030c")]  # a word character in models of our own


def test_lexicon_rows_follow_their_entries(tmp_path: Path) -> None:
    lexicon = Translator.load(imported(tmp_path, made_up(tmp_path)), "cpu").vocabulary.lexicon
    assert sorted(lexicon.texts) == sorted([*SPECIALS, *LEXICON])
    assert lexicon.entries == sorted(lexicon.entries)


def test_raw_source_goes_through_the_codes(tmp_path: Path) -> None:
    directory = imported(tmp_path, made_up(tmp_path))
    pairs = ["I see cows  zebra .", "I"], ["bona 2.", "na"]
    raw = Translator.load(directory, "cpu").score(*pairs)
    split = Translator.load(directory, "cpu", pretokenised=True)
    assert split.score(["I see cow@@ s z@@ e@@ b@@ r@@ a .", "I"], pairs[1]) == raw
    assert split.vocabulary.encode_sources(["cow@@ s q"]) == [[8, 9, 3, 2]]


def test_pretokenised_source_of_a_sentencepiece_model(model_directory: Path) -> None:
    sources, targets = ["I see a bird.", "we call 2 cows now."], ["nibona inyoni.", "tibizako izinkomo ezi-2."]
    raw = Translator.load(model_directory, "cpu")
    pieces = raw.vocabulary.source.processor.encode(sources, out_type=str)  # type: ignore[attr-defined]
    split = Translator.load(model_directory, "cpu", pretokenised=True)
    assert split.score([" ".join(few) for few in pieces], targets) == raw.score(sources, targets)


def test_runs_of_white_space_in_targets_are_one_blank(tmp_path: Path) -> None:
    translator = Translator.load(imported(tmp_path, made_up(tmp_path)), "cpu")
    one, several = translator.n_best_segmentations(["I see"] * 2, ["bona 2.", " bona \t 2. "], 1)
    assert several[0].segments == one[0].segments
    assert translator.score(["I see"], [" bona \t 2. "]) == translator.score(["I see"], ["bona 2."])


def test_without_codes_raw_source_is_refused(tmp_path: Path) -> None:
    files = made_up(tmp_path)
    import_fairseq(files.checkpoint, files.source_dict, files.characters, files.lexicon, None, tmp_path / "model")
    assert Translator.load(tmp_path / "model", "cpu", pretokenised=True).score(["I see"], ["na"])
    with pytest.raises(UserError, match=r"without BPE codes.*\(pretokenised\)"):
        Translator.load(tmp_path / "model", "cpu").score(["I see"], ["na"])


def test_without_subword_nmt_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(imported(tmp_path, made_up(tmp_path)), "cpu")
    monkeypatch.setitem(sys.modules, "subword_nmt.apply_bpe", None)
    with pytest.raises(UserError, match=r"pip install 'ssmt\[fairseq\]'"):
        translator.score(["I see"], ["na"])


def test_the_originals_stop_writes_specials_and_their_segments_have_no_text(tmp_path: Path) -> None:
    tensors = random_tensors(Shape(), 1)
    tensors["decoder.lex_decoder.fc.bias"][SPECIALS.index("<unk>")] += 20
    tensors["decoder.mixture_gate_func.bias"] -= 20
    files = write_files(tmp_path, checkpoint_of(tensors, Shape().options(), "cfg"))
    translator = Translator.load(imported(tmp_path, files), "cpu")
    (paper,) = translator.n_best_translations(["I see"], n_best=3, beam=3, search="dynamic", stop="paper", max_length=6)
    (safe,) = translator.n_best_translations(["I see"], n_best=3, beam=3, search="dynamic", max_length=6)
    assert len(paper) == 3
    assert max(one.score for one in paper) > max(one.score for one in safe) + 5
    for one in [*paper, *safe]:
        assert "" not in one.segments
        assert len(one.text) <= 6


@pytest.mark.parametrize("character", ["\u2126", " "])
def test_output_is_not_normalised(tmp_path: Path, character: str) -> None:
    """The Ohm sign and several blanks would be other text, with another score, if they came in."""
    tensors = random_tensors(Shape(), 1)
    tensors["decoder.lex_decoder.fc.bias"][len(SPECIALS) + LEXICON.index(character)] += 20
    tensors["decoder.mixture_gate_func.bias"] -= 20
    files = write_files(tmp_path, checkpoint_of(tensors, Shape().options(), "cfg"))
    found = Translator.load(imported(tmp_path, files), "cpu").translate(["I see"], beam=2, min_length=4, max_length=4)
    assert found.texts == [4 * character]
    assert found.segments == [4 * [character]]


def test_command_line_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = made_up(tmp_path)
    (tmp_path / "source").write_text("I see\na bird .\n", encoding="utf-8")
    (tmp_path / "target").write_text("bona\nni 2.\n", encoding="utf-8")
    assert run_command(*command_for(files, tmp_path / "model")) == 0
    text = ["--source", f"{tmp_path}/source", "--target", f"{tmp_path}/target", "--device", "cpu"]
    assert run_command("score", f"{tmp_path}/model", *text) == 0
    scores = [float(line) for line in capsys.readouterr().out.split()]
    expected = Translator.load(tmp_path / "model", "cpu").score(["I see", "a bird ."], ["bona", "ni 2."])
    assert scores == pytest.approx(expected, abs=1e-4)
    assert run_command("segment", f"{tmp_path}/model", *text, "--pretokenised", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["".join(record["segments"]) for record in records] == ["bona", "ni 2."]
    options = ["-i", f"{tmp_path}/source", "--search", "dynamic", "--stop", "paper", "--max-length", "9"]
    assert run_command("translate", f"{tmp_path}/model", *options, "--pretokenised", "--average-next") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


class RunsCode:
    """A pickle that calls a function when it is loaded; `os.mkdir` would leave a trace."""

    def __init__(self, function: Any, path: Path) -> None:
        self.function, self.path = function, path

    def __reduce__(self) -> Any:
        return (self.function, (str(self.path),))


@pytest.mark.parametrize("zipped", [True, False], ids=["as now", "as before torch 1.6"])
@pytest.mark.parametrize("function", [os.mkdir, sys.setrecursionlimit, eval], ids=lambda function: function.__name__)
def test_a_checkpoint_that_would_run_code_is_refused(
    tmp_path: Path, function: Any, zipped: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    files = made_up(tmp_path)
    content = checkpoint_of(random_tensors(Shape(), 1), Shape().options(), "cfg")
    content["extra_state"] = RunsCode(function, tmp_path / "was_run")
    torch.save(content, files.checkpoint, _use_new_zipfile_serialization=zipped)
    assert run_command(*command_for(files, tmp_path / "model")) == 2
    message = " ".join(capfd.readouterr().err.split())
    assert "refused" in message
    assert function.__name__ in message
    assert "Traceback" not in message
    assert not (tmp_path / "was_run").exists()
    assert not (tmp_path / "model").exists()


def damaged(change: str) -> dict[str, Any]:
    tensors = random_tensors(Shape(), 1)
    options = Shape().options()
    if change == "missing":
        del tensors["decoder.layers.0.encoder_attn.k_proj.bias"]
    elif change == "shape":
        tensors["decoder.lex_decoder.fc.weight"] = torch.zeros(3, 12)
    elif change == "extra":
        tensors["decoder.project_in_dim.weight"] = torch.zeros(12, 12)
    elif change == "option":
        options["activation_fn"] = "gelu"
    elif change == "sides":
        options["decoder_attention_heads"] = 4
    elif change == "segments":
        del options["max_seg_len"]
    elif change == "heads":
        options["encoder_attention_heads"] = options["decoder_attention_heads"] = 5
    content = checkpoint_of(tensors, options, "args")
    if change == "options":
        del content["args"]
    elif change == "model":
        del content["model"]
    return content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing", "tensor 'decoder.layers.0.encoder_attn.k_proj.bias' is missing"),
        ("shape", r"tensor 'decoder.lex_decoder.fc.weight' has shape \(3, 12\), but \(17, 12\) is expected"),
        ("extra", "no place for tensor 'decoder.project_in_dim.weight'"),
        ("option", "activation_fn='gelu'"),
        ("sides", "encoder_attention_heads=3 but decoder_attention_heads=4"),
        ("segments", "do not say 'max_seg_len'"),
        ("heads", "width 12 must be even and divisible by heads 5"),
        ("options", "neither 'args' nor 'cfg'"),
        ("model", "no checkpoint of fairseq"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_by_name(tmp_path: Path, change: str, message: str) -> None:
    files = write_files(tmp_path, damaged(change))
    with pytest.raises(UserError, match=message):
        imported(tmp_path, files)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("checkpoint", b"no checkpoint", "model.pt: is no checkpoint"),
        ("checkpoint", b"PK\x03\x04 cut off", "model.pt: is no checkpoint"),
        ("source_dict", b"the 3\nof\n", r"dict.en.txt, line 2: expected a symbol, a blank and its count"),
        ("source_dict", b"the 3\nof 2\nthe 1\n", "dict.en.txt, line 3: 'the' stands in the dictionary twice"),
        ("source_dict", b"t 3\nh 2\ne 1\n! 1\n", r"'encoder.embed_tokens.weight' has shape \(12, 12\), but \(8, 12\)"),
        ("characters", b"a 3\nth 2\n", "char.txt, line 2: 'th' is not a single character"),
        ("lexicon", b"a 3\nax 2\n", "lex.txt, line 2: 'ax' has 'x', which is not among the characters"),
        ("source_codes", b"#version: 0.2\nt h\nt h e 5\n", "codes, line 3: is no BPE code"),
        ("source_codes", b"\xff\n", "codes, line 1: not UTF-8"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    files = made_up(tmp_path)
    getattr(files, name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        imported(tmp_path, files)


def test_missing_files_and_full_directories_are_named(tmp_path: Path) -> None:
    files = made_up(tmp_path)
    with pytest.raises(UserError, match="is not empty"):
        import_fairseq(*files.arguments(tmp_path))
    files.checkpoint.unlink()
    with pytest.raises(UserError, match=r"model\.pt: there is no such file"):
        imported(tmp_path, files)


def test_a_symbol_may_come_twice_where_the_dictionary_says_so(tmp_path: Path) -> None:
    from ssmt.text.dictionary import DictionarySubwords

    (tmp_path / "dict").write_text("the 3\n<unk> 2 #fairseq:overwrite\n", encoding="utf-8")
    subwords = DictionarySubwords.read(tmp_path / "dict", None)
    assert subwords.encode_split(["the <unk> of"]) == [[4, 5, 3, 2]]


def command_for(files: Files, output: Path) -> list[str]:
    command = ["import-fairseq", "--output", str(output)]
    for option, path in vars(files).items():
        command += [f"--{option.replace('_', '-')}", str(path)]
    return command


def run_command(*arguments: str) -> int:
    """The command line in this process; its exit status."""
    from ssmt.cli import main

    before, sys.argv = sys.argv, ["ssmt", *arguments]
    try:
        main()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    finally:
        sys.argv = before
