"""Alignment against a plain transcription of expectation maximisation, and on a language whose dictionary is known."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest
import torch

from ssmt.config import Config
from ssmt.text import alignment as alignment_module
from ssmt.text.alignment import OF_NONE, ROUNDS, ROUNDS_TOGETHER, TENSION, UNSEEN, Alignment, evenly
from ssmt.text.alphabet import Alphabet
from ssmt.text.batch import padded
from ssmt.text.lexicon import Lexicon
from ssmt.text.vocabulary import NO_UNIT, Vocabulary
from tests.models import SOURCES, source_subwords

Ids = Sequence[int]
TARGETS = ["inja ibona", "inja", "kati, inja ikati", "ikati", "i k a t i", "ibona inja ikati", "inja ikati"]


def vocabulary_of(texts: Sequence[str], entries: Sequence[str]) -> Vocabulary:
    alphabet = Alphabet.of_characters("".join(texts))
    return Vocabulary(source_subwords(), alphabet, Lexicon.of_texts(alphabet, entries))


VOCABULARY = vocabulary_of(TARGETS, ["inja", "in", "kati", "bona", "on"])


def tensors(
    vocabulary: Vocabulary, sources: Sequence[str], targets: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        padded(vocabulary.encode_sources(sources), vocabulary.source_pad),
        padded(vocabulary.encode_targets(targets), vocabulary.target_pad),
    )


Table = dict[tuple[int, int], float]  # of what is given (-1: none) and what is written


def plain_prior(unit: int, units: int, subword: int, subwords: int, by_place: bool) -> float:
    distance = abs((unit + 0.5) / units - (subword + 0.5) / subwords)
    return math.exp(-TENSION * distance) if by_place else 1.0


def plain_posteriors(given: Ids, written: Ids, table: Table, by_place: bool) -> list[list[float]]:
    """Of each that is written, the probability that it translates each that is given, none as the last."""
    posteriors = []
    for place, one in enumerate(written):
        prior = [plain_prior(place, len(written), at, len(given), by_place) for at in range(len(given))]
        joint = [(1 - OF_NONE) * p / sum(prior) * table[g, one] for p, g in zip(prior, given, strict=True)]
        joint.append(OF_NONE * table[-1, one])
        posteriors.append([probability / sum(joint) for probability in joint])
    return posteriors


def plain_agreed(forth: list[list[float]], back: list[list[float]]) -> list[list[float]]:
    """Of each unit and each subword, what both directions say."""
    return [[forth[u][s] * back[s][u] for s in range(len(back))] for u in range(len(forth))]


def plain_counted(pairs: list[tuple[Ids, Ids, list[list[float]]]], different: int) -> Table:
    """What is given, what is written, and the probabilities of each that is written."""
    counts: Table = defaultdict(lambda: UNSEEN / different)
    totals: dict[int, float] = defaultdict(lambda: UNSEEN)
    for given, written, posteriors in pairs:
        for one, of_one in zip(written, posteriors, strict=True):
            for other, probability in zip([*given, -1], of_one, strict=True):
                counts[other, one] += probability
                totals[other] += probability
    return {
        (g, w): counts[g, w] / totals[g]
        for g in {g for given, _, _ in pairs for g in [*given, -1]}
        for w in {w for _, written, _ in pairs for w in written}
    }


def plain_tables(pairs: list[tuple[Ids, Ids]], subwords: int, units: int) -> tuple[Table, Table]:
    """Of sources and units; how many different subwords and units there are. Forth, back."""
    forth: Table = defaultdict(lambda: 1 / units)
    back: Table = defaultdict(lambda: 1 / subwords)
    for number in range(ROUNDS + ROUNDS_TOGETHER):
        together = number >= ROUNDS
        of_forth, of_back = [], []
        for source, target in pairs:
            f, b = plain_posteriors(source, target, forth, together), plain_posteriors(target, source, back, together)
            if together:
                agreed = plain_agreed(f, b)
                f = [[*row, 1 - sum(row)] for row in agreed]
                columns = [list(column) for column in zip(*agreed, strict=True)]
                b = [[*column, 1 - sum(column)] for column in columns]
            of_forth.append((source, target, f))
            of_back.append((target, source, b))
        forth, back = plain_counted(of_forth, units), plain_counted(of_back, subwords)
    return forth, back


def plain_units(vocabulary: Vocabulary, text: str) -> list[tuple[int, int]]:
    """The longest entry each time: where it begins, and its id. `</s>` is the last."""
    entries, found, place = vocabulary.lexicon.texts, [], 0
    while place < len(text):
        longest = max((e for e in entries if text.startswith(e, place)), key=len)
        found += [] if longest == " " else [(place, entries.index(longest))]
        place += len(longest)
    return [*found, (len(text), entries.index("</s>"))]


def test_units_are_the_longest_entries_from_the_left_and_no_blanks() -> None:
    _, targets = tensors(VOCABULARY, SOURCES, TARGETS)
    for text, row in zip(TARGETS, VOCABULARY.units(targets).tolist(), strict=True):
        assert [(place, id) for place, id in enumerate(row) if id != NO_UNIT] == plain_units(VOCABULARY, text)


def test_probabilities_are_those_of_the_plain_formulas() -> None:
    alignment = Alignment(VOCABULARY)
    batches = [tensors(VOCABULARY, SOURCES[:3], TARGETS[:3]), tensors(VOCABULARY, SOURCES[3:], TARGETS[3:])]
    alignment.learn(batches)
    encoded = [list(map(int, ids)) for ids in VOCABULARY.encode_sources(SOURCES)]  # type: ignore[call-overload]
    units = [plain_units(VOCABULARY, text) for text in TARGETS]
    pairs: list[tuple[Ids, Ids]] = [(s, [id for _, id in u]) for s, u in zip(encoded, units, strict=True)]
    forth, back = plain_tables(pairs, VOCABULARY.sizes[0], VOCABULARY.unit_count)
    source, target = tensors(VOCABULARY, SOURCES, TARGETS)
    found = alignment.of(source, target)
    assert found.shape == (*target.shape, source.shape[1])
    for row, (subwords, text) in enumerate(zip(encoded, TARGETS, strict=True)):
        ids = [id for _, id in units[row]]
        of_units = plain_posteriors(subwords, ids, forth, by_place=True)
        agreed = plain_agreed(of_units, plain_posteriors(ids, subwords, back, by_place=True))
        scaled = [[x * sum(u[:-1]) / sum(a) for x in a] for a, u in zip(agreed, of_units, strict=True)]
        for place in range(len(text) + 1):
            number = sum(begin <= place for begin, _ in units[row]) - 1  # the unit that it is in, or comes after
            torch.testing.assert_close(
                found[row, place, : len(subwords)], torch.tensor(scaled[number]), atol=1e-5, rtol=1e-3
            )
        assert not found[row, len(text) + 1 :].any()
        assert not found[row, :, len(subwords) :].any()


def test_a_sentence_is_aligned_alike_in_any_company() -> None:
    alignment = Alignment(VOCABULARY)
    alignment.learn([tensors(VOCABULARY, SOURCES, TARGETS)])
    together = alignment.of(*tensors(VOCABULARY, SOURCES, TARGETS))
    for row in range(len(SOURCES)):
        alone = alignment.of(*tensors(VOCABULARY, SOURCES[row : row + 1], TARGETS[row : row + 1]))
        torch.testing.assert_close(together[row, : alone.shape[1], : alone.shape[2]], alone[0])


@pytest.mark.parametrize(("cells", "least"), [(alignment_module.MOST_CELLS, 0.9), (31 * 11, 0.75)])
def test_a_dictionary_is_found_whatever_the_order_of_words(
    cells: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table is small and some units have to share their columns with others. (A guess is right one time
    in four; and that words stay in their places, which is expected of them, is not so here.)"""
    monkeypatch.setattr(alignment_module, "MOST_CELLS", cells)
    words = {"cat": "kati", "dog": "inja", "sees": "bona", "runs": "gijima", "the": "lo", "a": "ye"}
    rng = random.Random(1)
    sources, targets = [], []
    for _ in range(300):
        chosen = rng.sample(list(words), 4)
        sources.append(" ".join(chosen))
        targets.append(" ".join(words[word] for word in rng.sample(chosen, 4)))
    vocabulary = vocabulary_of(targets, list(words.values()))
    alignment = Alignment(vocabulary)
    alignment.learn([tensors(vocabulary, sources, targets)])
    source, target = tensors(vocabulary, sources, targets)
    best = alignment.of(source, target).argmax(dim=2)
    right = of_all = 0
    for row, (english, zulu) in enumerate(zip(sources, targets, strict=True)):
        begins = [sum(len(word) + 1 for word in zulu.split()[:n]) for n in range(4)]
        subwords = [vocabulary.source.pieces[id] for id in source[row].tolist()]
        word_of_subword = [sum(piece.startswith("▁") for piece in subwords[: n + 1]) - 1 for n in range(len(subwords))]
        for word, begin in zip(zulu.split(), begins, strict=True):
            found = english.split()[min(word_of_subword[int(best[row, begin])], 3)]
            right, of_all = right + (words[found] == word), of_all + 1
    assert right / of_all > least


def test_what_is_learnt_from_comes_from_all_parts_of_the_text() -> None:
    assert list(evenly(5, 5)) == [0, 1, 2, 3, 4]
    assert list(evenly(7, 3)) == [0, 3, 6]
    assert len(evenly(10**7)) <= alignment_module.MOST_PAIRS
    assert Config().training.alignment_weight == 0
