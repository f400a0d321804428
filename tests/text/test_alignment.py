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
from ssmt.text.alignment import OF_NONE, ROUNDS, ROUNDS_BY_PLACE, TENSION, UNSEEN, Alignment, evenly
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


def plain_prior(unit: int, units: int, subword: int, subwords: int, by_place: bool) -> float:
    distance = abs((unit + 0.5) / units - (subword + 0.5) / subwords)
    return math.exp(-TENSION * distance) if by_place else 1.0


def plain_posteriors(source: Ids, units: Ids, table: dict[tuple[int, int], float], by_place: bool) -> list[list[float]]:
    """Of each unit, the probability that it translates each subword, none as the last."""
    posteriors = []
    for place, unit in enumerate(units):
        prior = [plain_prior(place, len(units), at, len(source), by_place) for at in range(len(source))]
        joint = [(1 - OF_NONE) * p / sum(prior) * table[s, unit] for p, s in zip(prior, source, strict=True)]
        joint.append(OF_NONE * table[-1, unit])
        posteriors.append([one / sum(joint) for one in joint])
    return posteriors


def plain_table(pairs: list[tuple[Ids, Ids]], different_units: int) -> dict[tuple[int, int], float]:
    table: dict[tuple[int, int], float] = defaultdict(lambda: 1 / different_units)
    for number in range(ROUNDS + ROUNDS_BY_PLACE):
        counts: dict[tuple[int, int], float] = defaultdict(lambda: UNSEEN / different_units)
        totals: dict[int, float] = defaultdict(lambda: UNSEEN)
        for source, units in pairs:
            for unit, of_unit in zip(units, plain_posteriors(source, units, table, number >= ROUNDS), strict=True):
                for subword, probability in zip([*source, -1], of_unit, strict=True):
                    counts[subword, unit] += probability
                    totals[subword] += probability
        subwords = {s for source, _ in pairs for s in source} | {-1}
        every = {unit for _, units in pairs for unit in units}
        table = {(s, u): counts[s, u] / totals[s] for s in subwords for u in every}
    return table


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
    table = plain_table([(s, [id for _, id in u]) for s, u in zip(encoded, units, strict=True)], VOCABULARY.unit_count)
    source, target = tensors(VOCABULARY, SOURCES, TARGETS)
    found = alignment.of(source, target)
    assert found.shape == (*target.shape, source.shape[1])
    for row, (subwords, text) in enumerate(zip(encoded, TARGETS, strict=True)):
        of_units = plain_posteriors(subwords, [id for _, id in units[row]], table, by_place=True)
        for place in range(len(text) + 1):
            number = sum(begin <= place for begin, _ in units[row]) - 1  # the unit that it is in, or comes after
            torch.testing.assert_close(
                found[row, place, : len(subwords)], torch.tensor(of_units[number][:-1]), atol=1e-5, rtol=1e-3
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
