"""From raw files to a vocabulary and corpora."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssmt.config import DataConfig, TextConfig
from ssmt.errors import Unfinished, UserError
from ssmt.progress import Reporter
from ssmt.text import corpus_writer, preparation
from ssmt.text.alphabet import is_word_character
from ssmt.text.corpus import Corpus
from ssmt.text.corpus_writer import Block, CorpusWriter
from ssmt.text.preparation import Learn, TrainingFiles, learn_segmental, learn_subwords, prepare
from ssmt.text.subwords import Subwords
from ssmt.text.vocabulary import BothSides, Vocabulary


class Listener(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        self.warnings.append(message)


CONFIG = TextConfig(source_vocabulary=60, lexicon_size=80, longest_segment=4)


def test_corpora_hold_the_texts_and_the_vocabulary_survives_its_files(
    tmp_path: Path, toy_files: TrainingFiles, toy_pairs: list[tuple[str, str]]
) -> None:
    listener = Listener()
    vocabulary, ratio = prepare(toy_files, CONFIG, tmp_path / "data", listener)
    assert listener.warnings == []
    assert (len(vocabulary.source), len(vocabulary.lexicon)) == (60, 80)
    vocabulary.save(tmp_path)
    loaded = Vocabulary.load(tmp_path)
    assert loaded.alphabet == vocabulary.alphabet
    assert loaded.lexicon.entries == vocabulary.lexicon.entries
    for part, pairs in (
        ("train", [pair for row, pair in enumerate(toy_pairs) if row % 6]),
        ("valid", toy_pairs[::6]),
    ):
        corpus = Corpus(tmp_path / "data" / part, vocabulary.batch_symbols)
        sources, targets = zip(*pairs, strict=True)
        assert [corpus.source[i].tolist() for i in range(len(corpus))] == loaded.source.encode(sources)
        assert [loaded.alphabet.decode(corpus.target[i]) for i in range(len(corpus))] == list(targets)
        assert all(corpus.target[i][-1] == loaded.alphabet.eos for i in range(len(corpus)))
        assert corpus.characters.tolist() == [len(target) + 1 for target in targets]
        assert corpus.lines.tolist() == list(range(1, len(pairs) + 1))
    train = [pair for row, pair in enumerate(toy_pairs) if row % 6]
    ratios = [len(target) / max(len(source), 20) for source, target in train]
    assert ratio == pytest.approx(np.percentile(ratios, 99.5), abs=0.006)


def test_skipped_lines_keep_their_numbers(tmp_path: Path, toy_files: TrainingFiles) -> None:
    lines = toy_files.source.read_text(encoding="utf-8").split("\n")
    lines[2], lines[7] = "", "x" * 2000
    changed = tmp_path / "source"
    changed.write_text("\n".join(lines), encoding="utf-8")
    listener = Listener()
    config = CONFIG.model_copy(update={"skip_bad_lines": True})
    prepare(replace(toy_files, source=changed), config, tmp_path / "data", listener)
    assert listener.warnings == ["2 training pairs left out: empty or too long"]
    corpus = Corpus(tmp_path / "data" / "train")
    assert corpus.lines.tolist()[:8] == [1, 2, 4, 5, 6, 7, 9, 10]


def test_unseen_characters_of_the_validation_text_are_named(tmp_path: Path, toy_files: TrainingFiles) -> None:
    lines = toy_files.valid_target.read_text(encoding="utf-8").split("\n")
    lines[3] += "Ω?"
    changed = tmp_path / "valid"
    changed.write_text("\n".join(lines), encoding="utf-8")
    listener = Listener()
    prepare(replace(toy_files, valid_target=changed), CONFIG, tmp_path / "data", listener)
    (warning,) = listener.warnings
    assert f"{changed}, line 4: validation text has characters that the training text lacks (2)" in warning
    assert "'Ω' (U+03A9), '?' (U+003F)" in warning


def test_sizes_that_do_not_fit_are_reported(tmp_path: Path, toy_files: TrainingFiles) -> None:
    listener = Listener()
    config = TextConfig(source_vocabulary=5000, lexicon_size=10, longest_segment=4)
    vocabulary, _ = prepare(toy_files, config, tmp_path / "data", listener)
    subwords, lexicon = listener.warnings
    assert f"too little text for 5,000 subwords: {len(vocabulary.source)} are used" in subwords
    assert f"lexicon_size is 10, but this corpus gives {len(vocabulary.lexicon)} entries" in lexicon


@pytest.mark.parametrize("which", ["source", "target", "valid_source", "valid_target"])
def test_nothing_is_written_if_any_file_has_a_bad_line(tmp_path: Path, toy_files: TrainingFiles, which: str) -> None:
    changed = tmp_path / "changed"
    lines = getattr(toy_files, which).read_bytes().split(b"\n")
    lines[4] = b"\xff\xfe"
    changed.write_bytes(b"\n".join(lines))
    with pytest.raises(UserError, match="changed, line 5: not UTF-8"):
        prepare(replace(toy_files, **{which: changed}), CONFIG, tmp_path / "data", Reporter())
    assert os.listdir(tmp_path) == ["changed"]


# Where the lexicon comes from


def texts_of(vocabulary: BothSides) -> set[str]:
    assert isinstance(vocabulary, Vocabulary)
    return set(vocabulary.lexicon.texts)


@pytest.mark.parametrize("source", ["bpe", "ulm"])
def test_a_lexicon_of_subwords_has_legal_segments_and_their_counts(
    tmp_path: Path, toy_files: TrainingFiles, source: str
) -> None:
    config = CONFIG.model_copy(update={"lexicon": source})
    vocabulary, _ = prepare(toy_files, config, tmp_path / "data", Listener())
    assert isinstance(vocabulary, Vocabulary)
    entries = texts_of(vocabulary)
    longer = {entry for entry in entries if len(entry) > 1 and not entry.startswith("<")}
    assert longer, "more than the characters"
    assert all(len(entry) <= 4 and all(map(is_word_character, entry)) for entry in longer)
    assert {"ni", "bo"} & longer or source == "ulm"
    targets = toy_files.target.read_text(encoding="utf-8")
    for entry in longer:
        gram = tuple(vocabulary.alphabet.encode(entry).tolist())
        occurrences = sum(targets.startswith(entry, place) for place in range(len(targets)))
        assert vocabulary.lexicon.counts[gram] == occurrences, entry


def test_a_lexicon_of_a_file(tmp_path: Path, toy_files: TrainingFiles) -> None:
    path = tmp_path / "entries"
    path.write_text("bon\nni\t12\n</s>\t3\na\nni\n", encoding="utf-8")
    config = CONFIG.model_copy(update={"lexicon": "file", "lexicon_file": str(path)})
    vocabulary, _ = prepare(toy_files, config, tmp_path / "data", Listener())
    assert {entry for entry in texts_of(vocabulary) if len(entry) > 1} == {"bon", "ni", "</s>", "<unk>"}


@pytest.mark.parametrize("entry", ["bonile", "a b", "Ω", "nix", ""])
def test_a_file_with_an_impossible_segment_is_refused(tmp_path: Path, toy_files: TrainingFiles, entry: str) -> None:
    path = tmp_path / "entries"
    path.write_text(f"ni\n{entry}\n", encoding="utf-8")
    config = CONFIG.model_copy(update={"lexicon": "file", "lexicon_file": str(path)})
    with pytest.raises(UserError, match=r"entries, line 2: .* cannot be a segment"):
        prepare(toy_files, config, tmp_path / "data", Listener())


def test_targets_much_shorter_than_their_sources_have_a_ratio(tmp_path: Path, toy_files: TrainingFiles) -> None:
    files = {"source": "a long word " * 50 + "\n", "target": "b\n"}
    paths = {name: tmp_path / name for name in files}
    for name, line in files.items():
        paths[name].write_text(5 * line, encoding="utf-8")
    short = TrainingFiles(paths["source"], paths["target"], paths["source"], paths["target"])
    _, ratio = prepare(short, CONFIG, tmp_path / "data", Reporter())
    assert ratio == 0.01


# Interruptions, and several processes


class PowerCut(Exception):  # noqa: N818
    pass


class CutOff(Listener):
    """Ends the preparation when a bar has come so far."""

    def __init__(self, title: str, pairs: int) -> None:
        super().__init__()
        self.title, self.pairs, self.said = title, pairs, list[str]()

    def say(self, message: str) -> None:
        self.said.append(message)

    @contextmanager
    def bar(self, title: str, total: float | None, log: bool = True) -> Iterator[Any]:
        reporter = self

        class Bar:
            def advance(self, done: float, text: str = "") -> None:
                if title == reporter.title and done >= reporter.pairs:
                    raise PowerCut

        yield Bar()


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_writer, "CHUNK_LINES", 7)
    monkeypatch.setattr(corpus_writer, "CHUNKS_BETWEEN_SAVES", 2)
    monkeypatch.setattr(preparation, "MANY_PAIRS", 1)
    monkeypatch.setattr(preparation, "cores", lambda: 3)


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
@pytest.mark.parametrize("learn", [learn_segmental, partial(learn_subwords, "bpe")])
def test_an_interrupted_preparation_goes_on_and_ends_the_same(
    tmp_path: Path, toy_files: TrainingFiles, monkeypatch: pytest.MonkeyPatch, learn: Learn
) -> None:
    whole, _ = prepare(toy_files, CONFIG, tmp_path / "whole", Listener(), learn)
    cut = CutOff("encoding train", 40)
    with pytest.raises(PowerCut):
        prepare(toy_files, CONFIG, tmp_path / "parted", cut, learn)
    assert (tmp_path / "parted" / "train.unfinished").is_dir()
    encoded: list[int] = []
    plain = CorpusWriter.append

    def append(self: CorpusWriter, block: Block) -> None:
        encoded.append(block.pairs)
        plain(self, block)

    monkeypatch.setattr(CorpusWriter, "append", append)
    listener = CutOff("", 0)
    parted, _ = prepare(toy_files, CONFIG, tmp_path / "parted", listener, learn)
    assert not any("Learning" in said for said in listener.said), "subwords are not learnt again"
    assert sum(encoded) == 60 - 42 + 12, "six blocks were saved, and the validation text was not begun"
    assert contents(tmp_path / "parted") == contents(tmp_path / "whole")
    for vocabulary, name in ((whole, "1"), (parted, "2")):
        (tmp_path / name).mkdir()
        vocabulary.save(tmp_path / name)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_interrupted_while_segments_are_counted_nothing_is_encoded_again(
    tmp_path: Path, toy_files: TrainingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = prepare(toy_files, CONFIG, tmp_path / "whole", Listener())
    with pytest.raises(PowerCut):
        prepare(toy_files, CONFIG, tmp_path / "parted", CutOff("counting segments", 1))
    monkeypatch.setattr(preparation, "write_corpus", None)  # which is not called
    parted, _ = prepare(toy_files, CONFIG, tmp_path / "parted", Listener())
    assert parted.rows("entries") == whole.rows("entries")
    assert contents(tmp_path / "parted") == contents(tmp_path / "whole")


def test_what_an_interruption_left_is_counted_only_if_it_is_text(tmp_path: Path, toy_files: TrainingFiles) -> None:
    with pytest.raises(PowerCut):
        prepare(toy_files, CONFIG, tmp_path / "data", CutOff("counting segments", 1))
    ids = next(path for path in (tmp_path / "data" / "train").glob("target.*") if path.suffix not in (".npy", ".json"))
    ids.write_bytes(b"\xff" * ids.stat().st_size)
    with pytest.raises(UserError, match="begin a new run"):
        prepare(toy_files, CONFIG, tmp_path / "data", Listener())


@pytest.mark.usefixtures("in_small_chunks")
def test_what_was_prepared_from_other_text_is_not_gone_on_with(tmp_path: Path, toy_files: TrainingFiles) -> None:
    changed = tmp_path / "changed"
    changed.write_text(toy_files.target.read_text(encoding="utf-8").replace("inyoni", "inyosi"), encoding="utf-8")
    with pytest.raises(PowerCut):
        prepare(replace(toy_files, target=changed), CONFIG, tmp_path / "data", CutOff("encoding train", 40))
    prepare(toy_files, CONFIG, tmp_path / "data", Listener())
    prepare(toy_files, CONFIG, tmp_path / "expected", Listener())
    assert contents(tmp_path / "data") == contents(tmp_path / "expected")


@pytest.mark.usefixtures("in_small_chunks")
def test_nor_what_has_another_validation_text_or_other_weights(tmp_path: Path, toy_files: TrainingFiles) -> None:
    valid = toy_files.data.valid[0]
    others = {
        "valid": DataConfig(train=toy_files.data.train, valid=toy_files.data.train),
        "weight": DataConfig(train=(toy_files.data.train[0].model_copy(update={"weight": 2.0}),), valid=(valid,)),
    }
    for name, data in others.items():
        with pytest.raises(PowerCut):
            prepare(toy_files, CONFIG, tmp_path / name, CutOff("encoding valid", 1))
        prepare(data, CONFIG, tmp_path / name, Listener())
        prepare(data, CONFIG, tmp_path / f"{name}-expected", Listener())
        assert contents(tmp_path / name) == contents(tmp_path / f"{name}-expected"), name


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.parametrize(
    "progress",
    [
        b"",
        b"[]",
        b'{"pairs": 14}',
        b'{"pairs": "14", "sizes": {}}',
        b'{"pairs": 14, "sizes": {"target.ids": -1}}',
        b'{"pairs": 14, "sizes": {"target.ids": 1000000000}}',
        b'{"pairs": 14, "sizes": {"nothing": 1}}',
        b"\xff",
    ],
)
def test_what_was_saved_and_spoilt_is_done_anew(tmp_path: Path, toy_files: TrainingFiles, progress: bytes) -> None:
    with pytest.raises(PowerCut):
        prepare(toy_files, CONFIG, tmp_path / "data", CutOff("encoding train", 40))
    (tmp_path / "data" / "train.unfinished" / "progress.json").write_bytes(progress)
    prepare(toy_files, CONFIG, tmp_path / "data", Listener())
    prepare(toy_files, CONFIG, tmp_path / "expected", Listener())
    assert contents(tmp_path / "data") == contents(tmp_path / "expected")


@pytest.mark.usefixtures("in_small_chunks")
def test_a_link_in_what_was_saved_is_not_followed(tmp_path: Path, toy_files: TrainingFiles) -> None:
    with pytest.raises(PowerCut):
        prepare(toy_files, CONFIG, tmp_path / "data", CutOff("encoding train", 40))
    outside, inside = tmp_path / "outside", tmp_path / "data" / "train.unfinished" / "target.ids"
    outside.write_bytes(inside.read_bytes() + b"and what is mine")
    before = outside.read_bytes()
    inside.unlink()
    inside.symlink_to(outside)
    prepare(toy_files, CONFIG, tmp_path / "data", Listener())
    assert outside.read_bytes() == before


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_a_killed_worker_ends_the_preparation_with_a_message(
    tmp_path: Path, toy_files: TrainingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, plain = os.getpid(), Subwords.encode

    def encode(self: Subwords, lines: Sequence[str]) -> list[list[int]]:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, lines)

    monkeypatch.setattr(Subwords, "encode", encode)
    with pytest.raises(Unfinished, match="was killed"):
        prepare(toy_files, CONFIG, tmp_path / "data", Listener())
