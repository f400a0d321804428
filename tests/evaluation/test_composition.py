"""Divergences against the formulas of Appendix C, the greedy choice against brute force, files and errors."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.locks import another_at_work

from ssmt.errors import UserError
from ssmt.evaluation.composition import (
    Distribution,
    as_table,
    atom_divergence,
    chernoff_coefficient,
    compound_divergence,
    extract_subset,
    extract_subsets,
    read_subset,
    write_subset,
)
from ssmt.evaluation.morphemes import Sentence, Word, analyse, read_word_list


def sentence(text: str) -> list[Word]:
    """`a-b c` is two words, the first of two morphemes."""
    return [Word(word.replace("-", ""), tuple(word.split("-"))) for word in text.split()]


def literal_coefficient(p: Mapping[str, int], q: Mapping[str, int], alpha: float) -> float:
    """Σ_k p_k^α q_k^(1-α) over everything that occurs anywhere, as it is printed."""
    n, m = sum(p.values()), sum(q.values())
    return sum((p.get(k, 0) / n) ** alpha * (q.get(k, 0) / m) ** (1 - alpha) for k in {*p, *q})


def literal_divergences(train: Sequence[Sentence], test: Sequence[Sentence]) -> tuple[float, float]:
    words = [Counter(word.text for line in part for word in line) for part in (train, test)]
    atoms = [Counter(atom for line in part for word in line for atom in word.morphemes) for part in (train, test)]
    return 1 - literal_coefficient(*words, 0.1), 1 - literal_coefficient(*atoms, 0.5)


def test_divergences_worked_by_hand() -> None:
    # Words: p = (ab 3/4, cd 1/4), q = (ab 1/2, ad 1/2): C_0.1 = (3/4)^0.1 (1/2)^0.9.
    train, test = [sentence("a-b a-b a-b c-d")], [sentence("a-b a-d")]
    p, q = Distribution.of(train), Distribution.of(test)
    assert compound_divergence(p, q) == pytest.approx(1 - 0.75**0.1 * 0.5**0.9)
    # Atoms: p = (a 3/8, b 3/8, c 1/8, d 1/8), q = (a 2/4, b 1/4, d 1/4).
    coefficient = (3 / 8 * 1 / 2) ** 0.5 + (3 / 8 * 1 / 4) ** 0.5 + (1 / 8 * 1 / 4) ** 0.5
    assert atom_divergence(p, q) == pytest.approx(1 - coefficient)


COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1)


@given(COUNTS, COUNTS, st.floats(0.05, 0.95))
def test_the_coefficient_equals_its_formula(p: dict[str, int], q: dict[str, int], alpha: float) -> None:
    assert chernoff_coefficient(p, q, alpha) == pytest.approx(literal_coefficient(p, q, alpha))
    assert chernoff_coefficient(p, p, alpha) == pytest.approx(1)
    assert chernoff_coefficient(p, {"z": 1}, alpha) == 0


WORD = st.lists(st.sampled_from(["a", "b", "ba", "c"]), min_size=1, max_size=3).map(
    lambda m: Word("".join(m), tuple(m))
)
TEXT = st.lists(st.lists(WORD, min_size=1, max_size=4), min_size=1, max_size=8)


@given(TEXT, TEXT, st.floats(0, 1), st.integers(0, 99), st.data())
def test_every_step_takes_the_best_candidate(
    train: list[Sentence], test: list[Sentence], target: float, seed: int, data: st.DataObject
) -> None:
    """Against the formulas, recomputed over the whole subset for every candidate."""
    size = data.draw(st.integers(1, len(test)))
    candidates = data.draw(st.integers(1, len(test) + 2))
    subset = extract_subset(
        Distribution.of(train), test, size=size, target_divergence=target, candidates=candidates, seed=seed
    )
    assert len(set(subset.chosen)) == size
    rng = np.random.default_rng(seed)
    taken: list[int] = []
    for step, line_number in enumerate(subset.chosen):
        left = [i for i in range(len(test)) if i not in taken]
        drawn = rng.choice(left, size=min(candidates, len(left)), replace=False).tolist()
        found = {i: literal_divergences(train, [test[j] for j in [*taken, i]]) for i in sorted(drawn)}
        objective = {i: abs(d_c - target) + d_a for i, (d_c, d_a) in found.items()}
        smallest = min(objective.values())
        assert line_number - 1 == min(i for i in objective if objective[i] <= smallest + 1e-12)  # the first of equals
        taken.append(line_number - 1)
        divergences = (subset.compound_divergences[step], subset.atom_divergences[step])
        assert divergences == pytest.approx(found[line_number - 1], abs=1e-9)


def test_seeds_decide_and_equal_sentences_go_to_the_earlier_line() -> None:
    test = [sentence(text) for text in ("a-b c", "c-d", "a-b c", "b", "c-d a")] * 8
    train = Distribution.of([sentence("a-b c-a d")])

    def chosen(seed: int) -> tuple[int, ...]:
        return extract_subset(train, test, size=10, target_divergence=0.3, candidates=4, seed=seed).chosen

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    everything = extract_subset(train, [sentence("a")] * 4, size=4, target_divergence=0.3, candidates=9)
    assert everything.chosen == (1, 2, 3, 4)


def test_the_subset_comes_close_to_its_target() -> None:
    """Half of the sentences repeat words of the training text, half make new words of its morphemes."""
    rng = random.Random(0)
    morphemes = ["ba", "ku", "le", "mi", "no"]
    known = ["-".join(rng.choices(morphemes, k=3)) for _ in range(30)]
    new = ["-".join(rng.choices(morphemes, k=4)) for _ in range(30)]
    train = Distribution.of([sentence(" ".join(rng.choices(known, k=6))) for _ in range(200)])
    test = [sentence(" ".join(rng.choices(known if i % 2 else new, k=6))) for i in range(200)]
    for target in (0.3, 0.6):
        subset = extract_subset(train, test, size=50, target_divergence=target, candidates=50)
        assert subset.compound_divergence == pytest.approx(target, abs=0.03)
        assert subset.atom_divergence < 0.05
        part = Distribution.of([test[number - 1] for number in subset.line_numbers])
        assert compound_divergence(train, part) == pytest.approx(subset.compound_divergence)
        assert atom_divergence(train, part) == pytest.approx(subset.atom_divergence)


def test_sentences_without_words_are_never_chosen() -> None:
    subset = extract_subset(
        Distribution.of([sentence("a")]), [[], sentence("b"), [], sentence("a")], size=2, target_divergence=0
    )
    assert subset.line_numbers == (2, 4)


def test_the_papers_size_takes_seconds() -> None:
    """1,000 test sentences, 300 chosen among 100 candidates; the sums over all types are never taken again."""
    rng = random.Random(1)
    vocabulary = [Word(f"w{i}", (f"m{i % 90}", f"m{i % 77}")) for i in range(20_000)]
    test = [[vocabulary[int(20_000 * rng.random() ** 3)] for _ in range(20)] for _ in range(1000)]
    train = Distribution.of([[vocabulary[int(20_000 * rng.random() ** 3)] for _ in range(2000)] for _ in range(50)])
    start = time.perf_counter()
    extract_subset(train, test, size=300, target_divergence=0.2)
    assert time.perf_counter() - start < 5  # measured: 0.15 s; recomputing the sums takes minutes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 3}, "A subset of 3 sentences cannot be taken from a test set of 3, of which 2 have words"),
        ({"size": 0}, "must be at least 1"),
        ({"candidates": 0}, "must be at least 1"),
        ({"target_divergence": 1.5}, "divergences lie between 0 and 1"),
        ({"train": Distribution.of([])}, "The training text has no words"),
    ],
)
def test_impossible_wishes_are_refused(options: dict[str, Any], message: str) -> None:
    wishes: dict[str, Any] = {"train": Distribution.of([sentence("a")]), "size": 1, "target_divergence": 0.2} | options
    with pytest.raises(UserError, match=message):
        extract_subset(wishes.pop("train"), [sentence("a"), sentence("b"), []], **wishes)


# ---- files written ----


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_subsets_are_written_in_the_order_of_the_test_set(tmp_path: Path) -> None:
    test = [sentence(text) for text in ("a", "b", "c", "a-b", "b-c")]
    subset = extract_subset(Distribution.of([sentence("a-b b c")]), test, size=3, target_divergence=0.2)
    source, target = [f"source {i}" for i in range(1, 6)], [f"target {i}" for i in range(1, 6)]
    stem = write_subset(tmp_path / "new" / "folder", subset, source, target)
    assert stem.name == "divergence-0.2"
    numbers = sorted(subset.chosen)
    assert Path(f"{stem}.source").read_text() == "".join(f"source {i}\n" for i in numbers)
    assert Path(f"{stem}.target").read_text() == "".join(f"target {i}\n" for i in numbers)
    assert Path(f"{stem}.lines").read_text() == "".join(f"{i}\n" for i in numbers)
    written = json.loads(Path(f"{stem}.json").read_text())
    assert written["chosen"] == list(subset.chosen)
    assert written["compound_divergence"] == subset.compound_divergences[-1]
    assert written["trajectory"]["atom_divergence"] == list(subset.atom_divergences)


def test_files_give_the_subsets_that_their_sentences_give(tmp_path: Path) -> None:
    texts = {"train": ["abc de", "abc fgh"], "source": ["one", "two", "three"], "target": ["abc fg", "de", "fgh 12"]}
    paths = {name: write(tmp_path / name, "".join(f"{line}\n" for line in lines)) for name, lines in texts.items()}
    words = write(tmp_path / "words.tsv", "abc\ta-bc\nfgh\tf-gh\n")
    extraction = extract_subsets(
        paths["train"], paths["source"], paths["target"], tmp_path / "out", morphemes=[words],
        target_divergences=[0.3, 0.5, 0.3], size=2,
    )  # fmt: skip
    train, test = (analyse(texts[name], read_word_list(words)) for name in ("train", "target"))
    seen, whole = Distribution.of(train), Distribution.of(test)
    expected = [extract_subset(seen, test, size=2, target_divergence=divergence) for divergence in (0.3, 0.5)]
    assert list(extraction.subsets) == expected
    assert [read_subset(tmp_path / "out" / f"divergence-{divergence}.json") for divergence in (0.3, 0.5)] == expected
    assert extraction.compound_divergence == compound_divergence(seen, whole)
    assert [row[0].text for row in as_table(extraction).rows] == ["whole test set", "divergence-0.3", "divergence-0.5"]
    with another_at_work(tmp_path / "out"), pytest.raises(UserError, match="out: another process is at work there"):
        extract_subsets(*list(paths.values())[:3], tmp_path / "out", morphemes=[words])
    with pytest.raises(UserError, match="exclude each other"):
        extract_subsets(*list(paths.values())[:3], tmp_path, morphemes=[words], segmenter=tmp_path)


def test_what_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    subset = extract_subset(Distribution.of([sentence("a")]), [sentence("a")], size=1, target_divergence=0.2)
    write(tmp_path / "file", "")
    with pytest.raises(UserError, match="cannot be made a directory"):
        write_subset(tmp_path / "file", subset, ["x"], ["y"])
    with pytest.raises(UserError, match="source has 2 lines but its target has 1"):
        write_subset(tmp_path / "out", subset, ["x", "z"], ["y"])


@given(TEXT)
@settings(max_examples=20)
def test_counting_equals_counting_one_by_one(text: list[Sentence]) -> None:
    found = Distribution.of(text)
    assert found.compounds == Counter(word.text for line in text for word in line)
    assert found.atoms == Counter(atom for line in text for word in line for atom in word.morphemes)
