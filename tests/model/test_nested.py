"""Nested subwords: what is within a subword, and what it adds to an input."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from ssmt.model.nested import LONGEST, MOST, NestedSubwords, subwords_within
from tests.models import SOURCES, random_model, source_subwords, translator

PIECES = ["<unk>", "</s>", "<unk>s", "▁minister", "▁", "▁ministers", "ter", "ters", "minister", "s", "rs"]
PIECES += ["<2zu>", "2zu"]
NO_TEXT = {0, 1, 11}


@dataclass
class Vocabulary:
    pieces: Sequence[str]
    no_text: Collection[int]


def test_within_a_subword_are_the_shorter_ones_that_it_contains() -> None:
    within = [[PIECES[id] for id in nested] for nested in subwords_within(PIECES, NO_TEXT)]
    assert within[5] == ["▁minister", "minister", "ters", "ter", "rs"]  # and neither itself nor single characters
    assert within[3] == ["minister", "ter"]
    assert within[7] == ["ter", "rs"]
    assert within[6] == within[4] == within[9] == []
    assert within[11] == []  # a symbol is no text
    assert within[2] == []  # nor is it part of one


def test_of_very_many_the_longest_count() -> None:
    letters = [chr(ord("a") + place) for place in range(14)]
    pieces = ["</s>", *("".join(letters[a:b]) for a in range(13) for b in range(a + 2, 15)), "".join(letters)]
    within = subwords_within(pieces, {0})[-1]
    assert len(within) == MOST
    assert {len(pieces[id]) for id in within} == {4, 5, 6, 7, 8, 9, 10, 11, 12, 13}


def test_what_is_too_long_for_a_subword_contains_nothing() -> None:
    pieces = ["x" * 10_000_000, "x" * LONGEST, "x" * (LONGEST - 1)]
    assert subwords_within(pieces, ()) == [[], [2], []]


def test_the_input_is_the_sum_of_their_vectors_over_the_root_of_its_length() -> None:
    nested = NestedSubwords(Vocabulary(PIECES, NO_TEXT), width=6)
    rows = subwords_within(PIECES, NO_TEXT)
    found = nested(torch.tensor([[5, 3], [6, 7]]))
    assert found.shape == (2, 2, 6)
    for added, subword in zip(found.view(4, 6), (5, 3, 6, 7), strict=True):
        vectors = [nested.vectors.weight[row] for row in rows[subword]]
        expected = sum(vectors, torch.zeros(6)) / len(PIECES[subword]) ** 0.5
        torch.testing.assert_close(added, expected)


def test_nothing_within_stays_nothing_in_training() -> None:
    nested = NestedSubwords(Vocabulary(PIECES, NO_TEXT), width=4)
    nested(torch.arange(len(PIECES))).square().sum().backward()
    gradient = nested.vectors.weight.grad
    assert gradient is not None
    assert not gradient[-1].any()
    assert not nested.vectors.weight[-1].any()
    assert gradient[8].any()  # `minister`


def test_an_encoder_reads_them_with_the_subword() -> None:
    model, without = random_model(nested_subwords=True), random_model()
    nested = model.encoder.embedding.nested
    assert nested is not None
    source = torch.tensor([source_subwords().encode([SOURCES[0]])[0]])
    with torch.no_grad():
        plain = model.encoder.embedding.tokens(source)
        torch.testing.assert_close(model.encoder.embedding.unscaled(source), plain + nested(source))
        assert nested(source).any()
        model.load_state_dict(without.state_dict(), strict=False)
        nested.vectors.weight.zero_()
        torch.testing.assert_close(model.encode(source).states, without.encode(source).states)  # type: ignore[union-attr]


def test_a_model_with_them_scores_what_it_finds_and_whatever_the_batch() -> None:
    model = translator(random_model(nested_subwords=True))
    together = model.translate(SOURCES, beam=4)
    for source, text, score in zip(SOURCES, together.texts, together.scores, strict=True):
        alone = model.translate([source], beam=4)
        assert alone.texts == [text]
        torch.testing.assert_close(alone.scores[0], score, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model.score([source], [text])[0], score, rtol=1e-4, atol=1e-4)


def test_source_subwords_say_which_are_no_text() -> None:
    subwords = source_subwords().with_tags(["<2zu>"])
    assert {subwords.pieces[id] for id in subwords.no_text} >= {"<2zu>"}
    assert len({*subwords.no_text}) == 4
