"""Memory-mapped sentences, batches, and the reading of pairs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.config import TextConfig
from ssmt.errors import UserError
from ssmt.text import corpus_writer
from ssmt.text.batch import BatchSymbols, batches_by_length
from ssmt.text.corpus import Corpus, Sentences
from ssmt.text.corpus_writer import Block, CorpusWriter, content_of, ids_type, write_corpus
from ssmt.text.pairs import Pair, PairReader

PAD = 0


# Sentences on disk


@given(st.lists(st.lists(st.integers(0, 65535), max_size=8), max_size=20), st.booleans(), st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_sentences_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], large: bool, chunk: int
) -> None:
    """Also when they were written by a process that was killed and one that went on."""
    directory = tmp_path_factory.mktemp("sentences") / "corpus"
    offset = 2**20 if large else 0  # more than 16 bits hold
    rows = [[id + offset for id in row] for row in rows]
    dtype = ids_type(offset + 2**16)

    def block(rows: list[list[int]]) -> Block:
        return Block(len(rows), content_of("target", rows, dtype))

    killed = CorpusWriter(directory, {"target": dtype})
    killed.append(block(rows[:3]))
    killed.save()
    killed.append(block(rows[3:5]))
    killed.close()
    writer = CorpusWriter(directory, {"target": dtype})
    assert writer.pairs == len(rows[:3])
    writer.append(block(rows[3:]))
    writer.finish()
    assert os.listdir(directory.parent) == ["corpus"]
    assert sorted(os.listdir(directory)) == ["target.ids", "target.json", "target.offsets.npy"]
    sentences = Sentences(directory, "target")
    assert (directory / "target.ids").stat().st_size == sum(map(len, rows)) * (4 if large else 2)
    assert len(sentences) == len(rows)
    assert sentences.lengths.tolist() == [len(row) for row in rows]
    assert [sentences[i].tolist() for i in range(len(rows))] == rows
    chunks = [piece.tolist() for piece in sentences.chunks(chunk)]
    assert [id for piece in chunks for id in piece] == [id for row in rows for id in row]
    ends = {int(end) for end in sentences.offsets}
    for end in np.cumsum([len(piece) for piece in chunks]):
        assert int(end) in ends, "chunks end where sentences end"
    for piece in chunks:
        assert len(piece) <= max(chunk, max(map(len, rows)))


def test_a_corpus_whose_completion_is_interrupted_twice_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to encode then, and all of it is still known."""
    rows, dtype = [[1, 2], [], [3]], ids_type(10)

    def full(*arguments: object) -> None:
        raise OSError("no space left")

    for attempt in range(3):
        writer = CorpusWriter(tmp_path / "corpus", {"target": dtype})
        assert writer.pairs == (len(rows) if attempt else 0)
        if not attempt:
            writer.append(Block(len(rows), content_of("target", rows, dtype)))
        with monkeypatch.context() as patched:
            patched.setattr(np, "save", full)
            with pytest.raises(OSError, match="no space left"):
                writer.finish()
    CorpusWriter(tmp_path / "corpus", {"target": dtype}).finish()
    sentences = Sentences(tmp_path / "corpus", "target")
    assert [sentences[i].tolist() for i in range(len(rows))] == rows


# A corpus of given lengths, for batches


def corpus_of_lengths(directory: Path, lengths: list[tuple[int, int]]) -> Corpus:
    """Sources and targets with so many ids, `</s>` included; row i holds nothing but i + 1."""
    pairs = [Pair(number, "s" * source, "t" * (target - 1)) for number, (source, target) in enumerate(lengths, start=1)]
    rows = iter(range(1, len(lengths) + 1))
    write_corpus(
        directory / "corpus",
        pairs,
        lambda texts: [[PAD + 1] * len(text) for text in texts],
        lambda texts: [[next(rows)] * (len(text) + 1) for text in texts],
        (10, len(lengths) + 2),
    )
    return Corpus(directory / "corpus", BatchSymbols(PAD, PAD, 1))


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 300), st.none() | st.integers(0, 9), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_every_sentence_is_in_one_batch_and_the_budget_is_kept(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[tuple[int, int]], budget: int, seed: int | None, epoch: int
) -> None:
    corpus = corpus_of_lengths(tmp_path_factory.mktemp("batches"), lengths)
    batches = corpus.batches(budget, seed, epoch)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for indices in batches:
        widest = max(max(lengths[i]) for i in indices)
        assert len(indices) == 1 or len(indices) * widest <= budget
    again = corpus.batches(budget, seed, epoch)
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]


def many_lengths(count: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(1)
    targets = rng.gamma(3, 25, count).astype(int) + 2
    return [(int(target) // 4 + 1, int(target)) for target in targets]


def test_epochs_and_seeds_differ_in_order_and_company(tmp_path: Path) -> None:
    corpus = corpus_of_lengths(tmp_path, many_lengths(2000))
    orders = [
        [batch.tolist() for batch in corpus.batches(1000, seed, epoch)] for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert orders[first] != orders[second]
        company = [{frozenset(batch) for batch in orders[which]} for which in (first, second)]
        assert len(company[0] & company[1]) < 0.2 * len(company[0])


@pytest.mark.parametrize("seed", [None, 7])
def test_sentences_of_like_length_are_together(tmp_path: Path, seed: int | None) -> None:
    lengths = many_lengths(5000)
    corpus = corpus_of_lengths(tmp_path, lengths)
    batches = corpus.batches(4000, seed)
    cells = sum(len(indices) * max(lengths[i][1] for i in indices) for indices in batches)
    real = sum(target for _, target in lengths)
    assert real / cells > 0.93  # at random it is about 0.4
    assert len(batches) < 1.2 * real / 4000
    if seed is not None:  # short and long batches alternate, or the last updates of an epoch see only long sentences
        firsts = [lengths[indices[0]][1] for indices in batches]
        assert firsts != sorted(firsts)
        assert abs(np.corrcoef(firsts, range(len(firsts)))[0, 1]) < 0.5


def test_a_batch_is_padded_and_knows_its_lines(tmp_path: Path) -> None:
    corpus = corpus_of_lengths(tmp_path, [(2, 4), (5, 1), (1, 3)])
    batch = corpus.batch([2, 0, 1])
    assert batch.source.tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert batch.target.tolist() == [[3, 3, 3, 0], [1, 1, 1, 1], [2, 0, 0, 0]]
    assert batch.target_lengths.tolist() == [3, 4, 1]
    assert batch.characters == 8
    assert batch.lines == (3, 1, 2)


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 120))
@settings(max_examples=100, deadline=None)
def test_batches_by_length_hold_every_row_once(lengths: list[int], budget: int) -> None:
    batches = list(batches_by_length(lengths, budget))
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= budget
    longest = [max(lengths[row] for row in rows) for rows in batches]
    assert longest == sorted(longest, reverse=True)


# Writing


def write_texts(directory: Path, texts: list[str]) -> None:
    pairs = [Pair(number, text, text) for number, text in enumerate(texts, start=1)]
    write_corpus(directory, pairs, lambda lines: [[1]] * len(lines), lambda lines: [[1]] * len(lines), (5, 5), True)


def test_raw_text_is_kept_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_writer, "CHUNK_LINES", 2)
    texts = ["one", "two\u2028\fthree", "four\rfive", "six"]
    write_texts(tmp_path / "corpus", texts)
    assert Corpus(tmp_path / "corpus").texts([3, 1, 2]) == [(texts[i], texts[i]) for i in (3, 1, 2)]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_texts(tmp_path / "corpus", ["one"])

    def failing(lines: object) -> list[list[int]]:
        raise UserError("bad line")

    with pytest.raises(UserError, match="bad line"):
        write_corpus(tmp_path / "corpus", [Pair(1, "x", "y")], failing, failing, (5, 5))
    assert sorted(os.listdir(tmp_path)) == ["corpus", "corpus.unfinished"]  # which the next attempt goes on with
    assert Corpus(tmp_path / "corpus").texts([0]) == [("one", "one")]


def test_a_directory_of_the_users_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "english.txt").write_text("precious")
    with pytest.raises(UserError, match="train: exists and was not made by ssmt"):
        write_texts(tmp_path / "train", ["one"])
    assert (tmp_path / "train" / "english.txt").read_text() == "precious"


@pytest.mark.parametrize("name", ["target.ids", "source.offsets.npy", "target.json", "lines.npy", "characters.npy"])
def test_truncated_data_is_recognised(tmp_path: Path, name: str) -> None:
    write_texts(tmp_path / "corpus", ["one", "two", "three"])
    path = tmp_path / "corpus" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match="corpus: the prepared data is damaged or missing"):
        Corpus(tmp_path / "corpus")


@pytest.mark.parametrize("header", [b"{(", b"{'a':\n  b\n c}", b"{'descr': '<i8' 1}", b"\xff"])
def test_spoilt_headers_are_recognised(tmp_path: Path, header: bytes) -> None:
    write_texts(tmp_path / "corpus", ["one", "two", "three"])
    path = tmp_path / "corpus" / "lines.npy"
    content = bytearray(path.read_bytes())
    content[10 : content.index(b"\n")] = header.ljust(content.index(b"\n") - 10)  # after magic, version and length
    path.write_bytes(content)
    with pytest.raises(UserError, match="corpus: the prepared data is damaged or missing"):
        Corpus(tmp_path / "corpus")


# Reading pairs


def reader(tmp_path: Path, source: str | bytes, target: str | bytes, **limits: object) -> PairReader:
    for name, content in (("source", source), ("target", target)):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return PairReader.of_files(tmp_path / "source", tmp_path / "target", TextConfig.model_validate(limits))


def test_pairs_are_numbered_and_can_be_read_again(tmp_path: Path) -> None:
    pairs = reader(tmp_path, "a\nb\n", "x\r\ny")
    assert list(pairs) == list(pairs) == [(1, "a", "x", 0), (2, "b", "y", 0)]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\n\nc\n", "x\ny\nz\n", r"source, line 2: is empty\. Mend it in both files, or .*text.skip_bad_lines=true"),
        ("a\nb\nc\n", "x\ny\n \t\u00a0\n", r"target, line 3: is empty"),
        ("a\nbbbbbbbbbbb\n", "x\ny\n", r"source, line 2: has 11 characters, more than the 10 of text.longest_source"),
        ("a\nb\n", "x\n" + "y" * 10_000 + "\n", r"target, line 2: has 10,000 characters.*text.longest_target"),
        ("a\nb\nc\n", "x\n", r"source has 3 lines but .*target has 1.*Line 2"),
        ("a\n", "x\ny\nz\n", r"source has 1 lines but .*target has 3.*Line 2"),
        (b"a\nb\n", b"x\n\xe9\n", r"target, line 2: not UTF-8"),
        ("", "", r"source: is empty"),
        ("", "x\n", r"source has 0 lines"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, source: str | bytes, target: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(reader(tmp_path, source, target, longest_source=10, longest_target=10))


def test_bad_lines_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    source = "a\n\nc\nd\ntoo long\n"
    target = "x\ny\n\nz\nx\n"
    pairs = reader(tmp_path, source, target, longest_source=5, skip_bad_lines=True)
    for _ in range(2):
        assert list(pairs) == [(1, "a", "x", 0), (4, "d", "z", 0)]
        assert pairs.skipped == 3


def test_unequal_files_and_bad_bytes_are_never_skipped(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 2 lines but"):
        list(reader(tmp_path, "a\nb\n", "x\n", skip_bad_lines=True))
    with pytest.raises(UserError, match="line 1: not UTF-8"):
        list(reader(tmp_path, b"\xff\n", "x\n", skip_bad_lines=True))


def test_files_without_one_good_line_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 2 lines, and none of them can be used"):
        list(reader(tmp_path, "\n\n", "x\ny\n", skip_bad_lines=True))


def test_streams_are_refused_because_they_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x\n")
    with pytest.raises(UserError, match="standard input: is read several times"):
        PairReader.of_files("-", tmp_path / "target", TextConfig())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: is read several times"):
        PairReader.of_files(tmp_path / "pipe", tmp_path / "target", TextConfig())
