"""Texts come apart into sentences and together again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.serve.sentences import split_sentences

TEXTS = st.text(st.sampled_from('abZé.!?…,。！ \n\r\t\x0b\x85\xa0\u2028\u3000()"1'))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n ", []),
        ("One.", ["One."]),
        ("One. Two!  Three?\n\nFour", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith came at 5 p.m. on Monday. He left.", ["Dr. Smith came at 5 p.m. on Monday.", "He left."]),
        ("He said “Go!” She went.", ["He said “Go!”", "She went."]),
        ("“Really?” he asked.", ["“Really?” he asked."]),
        ("1. First. 2. Second.", ["1. First.", "2. Second."]),
        ("It cost 3.50 today. Yes.", ["It cost 3.50 today.", "Yes."]),
        ("A heading\nA line", ["A heading", "A line"]),
        ("你好。世界！（是）", ["你好。", "世界！", "（是）"]),
        ("आप कैसे हैं। ठीक।", ["आप कैसे हैं।", "ठीक।"]),
        ("The answer is no. He left.", ["The answer is no.", "He left."]),
    ],
)
def test_sentences_end_where_people_end_them(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, 1000).sentences == sentences


@settings(deadline=None)
@given(TEXTS, st.integers(1, 30), st.booleans())
def test_a_text_is_put_together_again(text: str, longest: int, at_marks: bool) -> None:
    split = split_sentences(text, longest, at_marks)
    assert split.joined(split.sentences) == text
    assert len(split.gaps) == len(split.sentences) + 1
    assert all(gap == "" or gap.isspace() for gap in split.gaps)
    for sentence in split.sentences:
        assert sentence == sentence.strip() != ""
        assert len(sentence) <= longest
        assert "\n" not in sentence


@settings(deadline=None)
@given(TEXTS, st.booleans())
def test_without_line_breaks_as_ends_only_white_space_changes(text: str, at_marks: bool) -> None:
    split = split_sentences(text, 1000, at_marks, at_newlines=False)
    assert split.joined(split.sentences).split() == text.split()
    assert not any("\n" in sentence for sentence in split.sentences)
    if not at_marks:
        assert len(split.sentences) == bool(text.strip())


def test_overlong_sentences_are_cut_at_pauses_then_words_then_anywhere() -> None:
    parts = split_sentences("one two three, four five sixseveneightnineten", 16).sentences
    assert parts == ["one two three,", "four five", "sixseveneightnin", "eten"]


def test_other_sentences_take_the_places_of_the_old() -> None:
    assert split_sentences(" One.\n\n Two. ", 100).joined(["Un.", "Deux."]) == " Un.\n\n Deux. "
