"""Lexicon and trie against dictionaries, n-gram counts against a Counter."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.text import lexicon as lexicon_module
from ssmt.text.alphabet import EOS, UNK, Alphabet
from ssmt.text.lexicon import (
    ABSENT,
    Lexicon,
    Trie,
    legal_lengths,
    most_frequent_ngrams,
    read_entries,
    single_entries,
)

# Letters, a combining mark, a digit, a space and a hyphen: few, so that random texts repeat themselves.
LETTERS = "abc\u0301"
OTHERS = " 1-"
TEXT = st.text(st.sampled_from(LETTERS * 3 + OTHERS), max_size=25)
SMALL = Alphabet.of_characters(LETTERS + OTHERS)


def is_legal(alphabet: Alphabet, gram: tuple[int, ...], longest: int) -> bool:
    """The definition: one character of any kind, or 2 to L word characters in a row."""
    return len(gram) == 1 or (len(gram) <= longest and all(alphabet.is_word[id] for id in gram))


def encoded(alphabet: Alphabet, text: str) -> list[int]:
    return [*alphabet.encode(text).tolist(), alphabet.eos]


# Legal lengths


@given(st.lists(TEXT, min_size=1, max_size=4), st.integers(1, 10))
@settings(max_examples=200, deadline=None)
def test_legal_lengths_are_the_definition(texts: list[str], longest: int) -> None:
    rows = [encoded(SMALL, text) for text in texts]
    width = max(map(len, rows)) + 2
    characters = torch.tensor([row + [SMALL.pad] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    found = legal_lengths(characters, torch.from_numpy(SMALL.is_word), longest, lengths)
    for row, legal in zip(rows, found.tolist(), strict=True):
        for start in range(width):
            sizes = [
                size
                for size in range(1, len(row) - start + 1)
                if is_legal(SMALL, tuple(row[start : start + size]), longest)
            ]
            assert legal[start] == max(sizes, default=0)


@given(TEXT, st.integers(1, 10))
@settings(max_examples=100, deadline=None)
def test_flat_text_of_many_sentences_is_cut_at_their_ends(text: str, longest: int) -> None:
    once = encoded(SMALL, text)
    is_word = torch.from_numpy(SMALL.is_word)
    expected = legal_lengths(torch.tensor(once), is_word, longest).tolist()
    assert legal_lengths(torch.tensor(once * 3), is_word, longest).tolist() == expected * 3


# The trie


@pytest.fixture(params=["dense", "sorted"])
def kind_of_trie(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str = request.param
    if kind == "sorted":
        monkeypatch.setattr(lexicon_module, "DENSE_TRIE_CELLS", 0)
    return kind


def random_grams(seed: int, alphabet_size: int, count: int, longest: int) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    ids = [rng.randrange(alphabet_size) for _ in range(min(alphabet_size, 12))]  # few of many, so that prefixes meet
    grams = [tuple(rng.choices(ids, k=rng.randint(1, longest))) for _ in range(count)]
    return sorted({*grams, (0,), (alphabet_size - 1,), (alphabet_size - 1,) * longest})


@pytest.mark.parametrize(
    ("alphabet_size", "count", "longest"), [(5, 1, 1), (5, 60, 4), (200, 300, 10), (40_000, 300, 7)]
)
def test_trie_is_the_dictionary_of_all_prefixes(
    kind_of_trie: str, alphabet_size: int, count: int, longest: int
) -> None:
    entries = random_grams(alphabet_size + count, alphabet_size, count, longest)
    trie = Trie.of_entries(entries, alphabet_size)
    assert (trie.dense is None) == (kind_of_trie == "sorted" or alphabet_size == 40_000)
    prefixes = {entry[:size] for entry in entries for size in range(len(entry) + 1)}
    node_of: dict[tuple[int, ...], int] = {(): 0}
    for prefix in sorted(prefixes - {()}, key=lambda prefix: (len(prefix), prefix)):
        node = int(trie.child(torch.tensor([node_of[prefix[:-1]]]), torch.tensor([prefix[-1]]))[0])
        assert node == len(node_of), "nodes are numbered breadth first, in the order of texts"
        node_of[prefix] = node
    id_of = {entry: id for id, entry in enumerate(entries)}
    for prefix, node in node_of.items():
        below = [id for id, entry in enumerate(entries) if entry[: len(prefix)] == prefix]
        assert list(range(int(trie.range_start[node]), int(trie.range_end[node]))) == below
        assert trie.entry_of_node[node] == id_of.get(prefix, ABSENT)
    assert len(trie.entry_of_node) == len(node_of)

    some = [*node_of.items()][:: max(1, len(node_of) // 25)]
    children = trie.children_of(torch.tensor([*(node for _, node in some), ABSENT]))
    assert children.shape == (len(some) + 1, alphabet_size)
    assert (children[-1] == ABSENT).all()
    for (prefix, _), row in zip(some, children, strict=False):
        expected = {prefix_[-1]: node for prefix_, node in node_of.items() if prefix_ and prefix_[:-1] == prefix}
        assert {int(i): int(row[i]) for i in torch.nonzero(row != ABSENT)} == expected
    assert trie.child(torch.tensor([ABSENT, 0]), torch.tensor([0, 0])).tolist() == [ABSENT, node_of[(0,)]]


# Ids of segments


def check_ids_of_segments(lexicon: Lexicon, rows: list[list[int]], longest: int) -> None:
    """Every (start, length) against a look-up in a dictionary."""
    alphabet = lexicon.alphabet
    width = max(map(len, rows)) + 1
    characters = torch.tensor([row + [alphabet.pad] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    legal = legal_lengths(characters, torch.from_numpy(alphabet.is_word), longest, lengths)
    found = lexicon.trie.ids_of_segments(characters, legal, longest)
    assert found.shape == (len(rows), width, longest)
    id_of = {entry: id for id, entry in enumerate(lexicon.entries)}
    expected = np.full(found.shape, ABSENT)
    for b, row in enumerate(rows):
        for start in range(len(row)):
            for size in range(1, min(longest, len(row) - start) + 1):
                gram = tuple(row[start : start + size])
                if is_legal(alphabet, gram, longest):
                    expected[b, start, size - 1] = id_of.get(gram, ABSENT)
    assert (found.numpy() == expected).all()


@given(
    st.lists(TEXT, min_size=1, max_size=4),
    st.sets(st.text(st.sampled_from(LETTERS), min_size=1, max_size=10)),
    st.integers(1, 10),
)
@settings(max_examples=150, deadline=None)
def test_ids_of_segments_are_a_dictionary_look_up(texts: list[str], segments: set[str], longest: int) -> None:
    lexicon = Lexicon.of_texts(SMALL, segments)
    assert sorted(lexicon.texts) == sorted(segments | set(SMALL.symbols) - {"<pad>", "<eom>"})
    check_ids_of_segments(lexicon, [encoded(SMALL, text) for text in texts], longest)


@pytest.mark.parametrize("longest", [1, 5, 10])
def test_ids_of_segments_with_a_big_alphabet(kind_of_trie: str, longest: int) -> None:
    rng = random.Random(longest)
    ideographs = [chr(code) for code in range(0x4E00, 0x4E00 + 6000)]
    alphabet = Alphabet.of_characters([*ideographs, " ", "。"])
    frequent = rng.sample(ideographs, 5)
    words = ["".join(rng.choices(frequent, k=rng.randint(1, 10))) for _ in range(200)]
    lexicon = Lexicon.of_texts(alphabet, words[:100])
    texts = [" ".join(rng.choices(words, k=8)) + rng.choice(ideographs) + "。" for _ in range(10)]
    check_ids_of_segments(lexicon, [encoded(alphabet, text) for text in texts], longest)


def test_unknown_characters_have_the_id_of_unk_alone() -> None:
    lexicon = Lexicon.of_texts(SMALL, ["ab"])
    row = torch.tensor(encoded(SMALL, "aXb"))
    legal = legal_lengths(row, torch.from_numpy(SMALL.is_word), 3)
    found = lexicon.trie.ids_of_segments(row, legal, 3)
    assert lexicon.texts[found[1, 0]] == UNK
    assert (found[1, 1:] == ABSENT).all()


# Counting


def counted_literally(texts: list[str], alphabet: Alphabet, size: int, longest: int) -> dict[tuple[int, ...], int]:
    """All legal n-grams in one Counter; the most frequent, ties by text."""
    counts: Counter[tuple[int, ...]] = Counter()
    for text in texts:
        row = encoded(alphabet, text)
        for start in range(len(row)):
            for length in range(1, min(longest, len(row) - start) + 1):
                if is_legal(alphabet, gram := tuple(row[start : start + length]), longest):
                    counts[gram] += 1
    singles = single_entries(alphabet)
    longer = sorted(((-n, gram) for gram, n in counts.items() if len(gram) > 1))[: max(size - len(singles), 0)]
    return {gram: counts[gram] for gram in singles} | {gram: -n for n, gram in longer}


def chunked(texts: list[str], alphabet: Alphabet, sentences: int) -> Iterator[np.ndarray]:
    for first in range(0, len(texts), sentences):
        rows = [encoded(alphabet, text) for text in texts[first : first + sentences]]
        yield np.concatenate(rows).astype(np.uint16)


@given(st.lists(TEXT, min_size=1, max_size=8), st.integers(1, 60), st.integers(1, 6), st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_most_frequent_ngrams_are_those_of_a_counter(texts: list[str], size: int, longest: int, chunk: int) -> None:
    alphabet = Alphabet.of_characters({character for text in texts for character in text})
    expected = counted_literally(texts, alphabet, size, longest)
    lexicon = most_frequent_ngrams(lambda: chunked(texts, alphabet, chunk), alphabet, size, longest)
    assert lexicon.counts == expected
    assert lexicon.entries == sorted(expected)


@pytest.mark.parametrize("seed", range(3))
def test_most_frequent_ngrams_of_longer_texts(seed: int) -> None:
    rng = random.Random(seed)
    syllables = ["".join(rng.choices("abdeiklmnou", k=rng.randint(1, 3))) for _ in range(30)]
    texts = [
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 12))) + "."
        for _ in range(70)
    ]
    alphabet = Alphabet.of_characters({character for text in texts for character in text})
    for size, longest in ((40, 5), (500, 10), (10**6, 3)):
        expected = counted_literally(texts, alphabet, size, longest)
        chunk = rng.choice([3, 20, 70])
        lexicon = most_frequent_ngrams(lambda n=chunk: chunked(texts, alphabet, n), alphabet, size, longest)  # type: ignore[misc]
        assert lexicon.counts == expected


def test_ties_go_by_text() -> None:
    alphabet = Alphabet.of_characters("abcd")
    lexicon = most_frequent_ngrams(lambda: chunked(["cd", "ab", "bc"], alphabet, 2), alphabet, len(alphabet), 2)
    assert [text for text in lexicon.texts if len(text) == 2] == ["ab", "bc"]  # cd is as frequent, but there is no room


# Files


@given(st.sets(st.text(st.characters(categories=["L", "M"]), min_size=1, max_size=5), max_size=20))
@settings(max_examples=50, deadline=None)
def test_saved_and_loaded_is_the_same(tmp_path_factory: pytest.TempPathFactory, segments: set[str]) -> None:
    path = tmp_path_factory.mktemp("lexicon") / "lexicon.txt"
    special = " \t\"'\u00a0\u2028\u2029\u0085\f\v\r\ufeff,\\#</s>"
    alphabet = Alphabet.of_characters(set(special).union(*segments))
    lexicon = Lexicon.of_texts(alphabet, segments)
    lexicon.counts = {gram: id * 3 for id, gram in enumerate(lexicon.entries)}
    lexicon.save(path)
    loaded = Lexicon.load(path, alphabet)
    assert loaded.entries == lexicon.entries
    assert loaded.counts == lexicon.counts


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", "is empty"),
        ("</s>\t1\nab\n", "line 2"),
        ("</s>\t1\na\tmany\n", "line 2"),
        ("</s>\t1\n<unk>\t0\naX\t2\n", "line 3"),
        ("\t1\n", "line 1"),
        ("a\t1\n</s>\t1\n", "in the order of the alphabet"),
        ("</s>\t1\na\t1\na\t1\nb\t1\n", "repetitions"),
    ],
)
def test_what_is_no_lexicon_is_refused(tmp_path: Path, content: str, where: str) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=rf"lexicon\.txt.*{where}"):
        Lexicon.load(path, SMALL)


def test_every_lexicon_can_spell_every_text() -> None:
    lexicon = Lexicon.of_texts(SMALL, [])
    assert set(lexicon.texts) == {EOS, UNK, *LETTERS, *OTHERS}


def test_a_tab_can_be_an_entry_of_a_file_with_counts(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("ab\t12\n\t\t3\nc\n", encoding="utf-8")
    assert read_entries(path, Alphabet.of_characters("abc\t"), 3) == ["ab", "\t", "c"]
