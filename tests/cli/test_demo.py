"""`ssmt demo` as a newcomer runs it, with a corpus and a training of toy size."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ssmt.cli.demo import how_to_call
from ssmt.demo import ensure_corpus, write_corpus
from ssmt.demo.settings import MODELS, UPDATES, config_of
from ssmt.progress import Reporter
from ssmt.registry import build, kind_of
from ssmt.text.preparation import TrainingFiles, prepare
from tests.cli.test_bad_input import Ssmt, refused, tree

SMALL = ("--sentences", 500, "--held-out", 8)


def test_everything_what_to_type_next_and_again(ssmt: Ssmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = ssmt("demo", *SMALL, "--max-minutes", 0.005)
    assert first.status == 0, first.err
    assert "artificial language" in first.err
    assert all(f"Model {number} of 2, {name}" in first.err for number, name in enumerate(MODELS, start=1))
    assert first.out.count("English") == first.out.count("reference  ") == 5
    gold = (tmp_path / "demo" / "corpus" / "test.hard.sentences.tsv").read_text(encoding="utf-8").splitlines()
    morphemes = [line.split("\t")[2].replace("|", "-") for line in gold]
    assert sum(one in first.out for one in morphemes) == 5
    assert [len(re.findall(rf"^ +{name} .*\d\.\d", first.out, flags=re.MULTILINE)) for name in MODELS] == [1, 1]
    assert "STOPPED EARLY: these numbers mean nothing yet" in first.out
    assert "numbers mean nothing yet" in first.err
    page = tmp_path / "demo" / "report.html"
    assert page.as_uri() in first.out
    assert "Morphemes</h2>" in page.read_text(encoding="utf-8")

    (segment,) = re.findall(r"^ +\S*ssmt (segment .*)$", first.out, flags=re.MULTILINE)
    assert ssmt(*segment.split()).out.count("\n") == 8
    ((sentence, translate),) = re.findall(r'echo "(.*)" \| \S*ssmt (translate .*)$', first.out, flags=re.MULTILINE)
    (tmp_path / "in").write_text(f"{sentence}\n", encoding="utf-8")
    assert ssmt(*translate.split(), "-i", "in").out.count("\n") == 1

    weights = [(tmp_path / "demo" / name / "model.safetensors").read_bytes() for name in MODELS]
    again = ssmt("demo", *SMALL, "--max-minutes", 0.005)
    assert (again.status, again.out) == (0, first.out)
    assert again.err.count("Nothing to do") == 2
    assert weights == [(tmp_path / "demo" / name / "model.safetensors").read_bytes() for name in MODELS]

    before = tree(tmp_path / "demo")
    refused(ssmt("demo", *SMALL, "--seed", 2), "demo/corpus: holds a corpus of another size or seed; choose another")
    assert tree(tmp_path / "demo") == before


@pytest.mark.parametrize(
    ("called", "typed"),
    [("/there/ssmt/__main__.py", f"{sys.executable} -m ssmt"), ("/there/bin/ssmt", "/there/bin/ssmt")],
)
def test_what_to_type_next_can_be_typed(called: str, typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", [called, "demo"])
    assert how_to_call() == typed


def test_only_the_corpus_by_size_and_seed(ssmt: Ssmt, tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert ssmt("demo", "--write-corpus", tmp_path / name, *SMALL, "--seed", seed).status == 0
    write_corpus(tmp_path / "d", 500, 5, held_out=8)
    files = {name: tree(tmp_path / name) for name in "abcd"}
    assert files["a"] == files["b"] == files["d"] != files["c"]
    assert files["a"]["train.en"].count(b"\n") == 500
    assert b"Nobody speaks" in files["a"]["README.txt"]
    assert {path.name for path in tmp_path.iterdir()} == set("abcd")  # and nothing beside them


def test_a_corpus_overwrites_nothing(ssmt: Ssmt, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    assert ssmt("demo", "--write-corpus", mine, *SMALL).status == 0  # empty
    assert ssmt("demo", "--write-corpus", mine, *SMALL).status == 0  # the same
    before = tree(mine)
    refused(ssmt("demo", "--write-corpus", mine, *SMALL, "--seed", 9), "mine: holds a corpus of another size or seed")
    (mine / "README.txt").unlink()
    refused(ssmt("demo", "--write-corpus", mine, *SMALL), "mine: holds something else")
    refused(ssmt("demo", "--write-corpus", mine / "train.en", *SMALL), "train.en: holds something else")
    assert tree(mine) == {name: content for name, content in before.items() if name != "README.txt"}
    refused(ssmt("demo", "--write-corpus", tmp_path / "few", "--sentences", 10), "--sentences")
    refused(ssmt("demo", "--write-corpus", tmp_path / "many", "--held-out", 65536), "--held-out")


def test_an_interrupted_corpus_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ssmt.demo.corpus.word_list", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure_corpus(tmp_path / "corpus", 500, held_out=8)
    assert list(tmp_path.iterdir()) == []


def test_help_says_what_the_language_is(ssmt: Ssmt) -> None:
    said = " ".join(ssmt("demo", "--help").out.split())
    assert "artificial language" in said
    assert "nothing about a real language" in said


def test_models_have_the_same_size(tmp_path: Path) -> None:
    write_corpus(tmp_path, held_out=8)
    files = TrainingFiles(*(tmp_path / name for name in ("train.en", "train.art", "dev.en", "dev.art")))
    sizes = []
    for model in MODELS:
        config = config_of(model)
        learn = kind_of(config).learn
        assert learn is not None
        vocabulary, _ = prepare(files, config.text, tmp_path / model, Reporter(), learn)
        sizes.append(sum(parameter.numel() for parameter in build(vocabulary, config).parameters()))
    assert abs(sizes[0] / sizes[1] - 1) < 0.02


def test_the_demo_is_bounded_by_updates() -> None:
    for model in MODELS:
        settings = config_of(model).training
        assert (settings.max_updates, settings.max_minutes, settings.max_epochs) == (UPDATES[model], None, None)
