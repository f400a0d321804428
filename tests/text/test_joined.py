"""Pairs that are read two and two: what an epoch has of them, and that a joined pair says what its two say."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ssmt.config import CorpusConfig, DataConfig, TextConfig
from ssmt.progress import Reporter
from ssmt.text.corpus import LONGEST_JOINED, Corpus
from ssmt.text.preparation import Learn, TrainingFiles, learn_segmental, learn_subwords, prepare
from ssmt.text.vocabulary import BothSides
from tests.conftest import Pair, write_pairs
from tests.text.test_corpus import corpus_of_lengths, many_lengths

SIZES = TextConfig(source_vocabulary=60, subword_vocabulary=90, lexicon_size=80, longest_segment=4)
LEARNERS = {"ssmt": learn_segmental, "bpe": partial(learn_subwords, "bpe")}


def pairs_of(corpus: Corpus, indices: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """What each index stands for, as the note in `Corpus` says it."""
    n = len(corpus)
    return [(i,) if i < n else (i // n - 1, i % n) for i in indices.tolist()]


def test_an_epoch_has_each_pair_once_and_half_of_them_in_company(tmp_path: Path) -> None:
    corpus = corpus_of_lengths(tmp_path, many_lengths(3000))
    company = []
    for epoch in range(2):
        batches = corpus.batches(1500, 7, epoch, joined=0.5)
        rows = [pairs for batch in batches for pairs in pairs_of(corpus, batch)]
        assert sorted(row for pairs in rows for row in pairs) == list(range(3000))
        joined = [pairs for pairs in rows if len(pairs) == 2]
        assert 0.45 * 3000 < 2 * len(joined) <= 0.5 * 3000
        lengths = [sum(int(corpus.characters[row]) for row in pairs) for pairs in joined]
        assert max(lengths) <= LONGEST_JOINED
        company.append({frozenset(pairs) for pairs in joined})
        for batch in batches:
            assert corpus.batch(batch).characters == corpus.characters_of(batch).sum()
            assert len(batch) == 1 or len(batch) * corpus.characters_of(batch).max() <= 1500
        assert [batch.tolist() for batch in batches] == [
            batch.tolist() for batch in corpus.batches(1500, 7, epoch, joined=0.5)
        ]
    assert len(company[0] & company[1]) < 20


def test_without_any_joined_all_is_as_before(tmp_path: Path) -> None:
    """The order of a seed and an epoch is part of what a resumed run must make again."""
    corpus = corpus_of_lengths(tmp_path, [(length, length) for length in range(1, 9)])
    batches = [batch.tolist() for batch in corpus.batches(16, 1, 0)]
    assert batches == [[1, 0, 2], [6, 5], [4, 3], [7]]


def test_long_ones_and_an_odd_one_stay_alone(tmp_path: Path) -> None:
    half = LONGEST_JOINED // 2
    corpus = corpus_of_lengths(tmp_path, [(5, half), (5, half + 1), (half + 1, 5)])
    for seed in range(20):
        rows = [pairs for batch in corpus.batches(9000, seed, joined=1.0) for pairs in pairs_of(corpus, batch)]
        assert sorted(row for pairs in rows for row in pairs) == [0, 1, 2]
        assert {0, 1} not in map(set, rows), "501 characters of the target"
    assert all(len(pairs) == 1 for batch in corpus.batches(half, 1, joined=1.0) for pairs in pairs_of(corpus, batch))
    corpus = corpus_of_lengths(tmp_path / "sources", [(half, 5), (half + 1, 5)])
    assert all(len(pairs) == 1 for batch in corpus.batches(9000, 1, joined=1.0) for pairs in pairs_of(corpus, batch))


@pytest.fixture(params=sorted(LEARNERS))
def learn(request: pytest.FixtureRequest) -> Learn:
    return LEARNERS[request.param]


def prepared(directory: Path, files: TrainingFiles | DataConfig, learn: Learn) -> tuple[Corpus, BothSides]:
    vocabulary, _ = prepare(files, SIZES, directory / "data", Reporter(), learn)
    return Corpus(directory / "data" / "train", vocabulary.batch_symbols), vocabulary


def source_text(vocabulary: BothSides, ids: list[int]) -> str:
    no_text = vocabulary.source.no_text
    return "".join(vocabulary.source.pieces[id] for id in ids if id not in no_text).replace("▁", " ").removeprefix(" ")


def test_two_as_one_are_what_one_line_of_both_would_be(
    tmp_path: Path, toy_files: TrainingFiles, toy_pairs: list[Pair], learn: Learn
) -> None:
    corpus, vocabulary = prepared(tmp_path, toy_files, learn)
    train = [pair for row, pair in enumerate(toy_pairs) if row % 6]
    n = len(train)
    batch = corpus.batch([3, n * (1 + 5) + 2, n * (1 + 2) + 5])
    assert batch.source is not None
    for place, rows in enumerate(((3,), (5, 2), (2, 5))):
        text = " ".join(train[row][0] for row in rows), " ".join(train[row][1] for row in rows)
        target = batch.target[place, : batch.target_lengths[place]].tolist()
        source = [id for id in batch.source[place].tolist() if id != vocabulary.source_pad]
        assert source == list(vocabulary.encode_sources([text[0]])[0])
        assert target == list(np.asarray(vocabulary.encode_targets([text[1]])[0]))
        assert (source_text(vocabulary, source), vocabulary.decode(target[:-1])) == text
    assert batch.lines == (4, 6, 3, 3, 6)
    assert batch.characters == sum(len(train[row][1]) + 1 for row in (3, 5, 2, 2, 5))


def test_only_pairs_of_one_language_and_origin_are_joined_and_say_it_once(
    tmp_path: Path, toy_pairs: list[Pair], learn: Learn
) -> None:
    parts = {}
    for name, rows in (("aa", toy_pairs[:40]), ("bb", [(source, target.upper()) for source, target in toy_pairs])):
        source, target = write_pairs(tmp_path, name, rows)
        parts[name] = CorpusConfig(
            source=(str(source),), target=(str(target),), target_language=name, origin="web", tagged=name == "bb"
        )
    files = DataConfig(train=tuple(parts.values()), valid=(parts["aa"],))
    vocabulary, _ = prepare(files, SIZES.model_copy(update={"tag_source": True}), tmp_path / "data", Reporter(), learn)
    corpus = Corpus(tmp_path / "data" / "train", vocabulary.batch_symbols)
    indices = np.concatenate(corpus.batches(1000, 1, joined=1.0))
    joined = [pairs for pairs in pairs_of(corpus, indices) if len(pairs) == 2]
    assert len(joined) > 50
    assert all((first < 40) == (last < 40) for first, last in joined)
    tags = set(vocabulary.source.tags.values())
    for index in indices[indices >= len(corpus)]:
        batch = corpus.batch([int(index)])
        assert batch.source is not None
        source = batch.source[0].tolist()
        count = 1 if pairs_of(corpus, np.array([index]))[0][0] < 40 else 2
        assert [id in tags for id in source] == [True] * count + [False] * (len(source) - count)
        assert source.count(vocabulary.source.eos) == 1


def test_where_nothing_is_written_between_words_nothing_comes_between_two(tmp_path: Path) -> None:
    pairs = [(f"word {number}", "字" * number) for number in range(1, 9)]
    paths = [*write_pairs(tmp_path, "train", pairs), *write_pairs(tmp_path, "valid", pairs[:1])]
    corpus, vocabulary = prepared(tmp_path, TrainingFiles(*paths), learn_segmental)
    batch = corpus.batch([len(corpus) * (1 + 2) + 3])
    assert vocabulary.decode(batch.target[0].tolist()) == "字" * 7
