"""Characters and their ids."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.text.alphabet import SPECIALS, Alphabet, describe_characters, is_word_character
from ssmt.text.vocabulary import encode_targets

# Of one, two, three and four bytes in UTF-8, letters and not, and some that only differ in form.
CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from("aé\u0301का\u093fต้ـ\u2028\u00a0😀𐎀𞤀\U0010ffff")


@given(st.text(CHARACTERS), st.sets(CHARACTERS))
@settings(max_examples=200, deadline=None)
def test_any_text_of_known_characters_comes_back(text: str, others: set[str]) -> None:
    alphabet = Alphabet.of_characters(others | set(text))
    ids = alphabet.encode(text)
    assert len(ids) == len(text)
    assert [alphabet.symbols[id] for id in ids] == list(text)
    assert alphabet.decode(ids) == text
    assert alphabet.unknown_characters(text) == []


@given(st.text(CHARACTERS), st.sets(CHARACTERS))
@settings(max_examples=200, deadline=None)
def test_unknown_characters_are_unk_and_named_once_in_order(text: str, known: set[str]) -> None:
    alphabet = Alphabet.of_characters(known)
    expected = [alphabet.symbols.index(character) if character in known else alphabet.unk for character in text]
    assert alphabet.encode(text).tolist() == expected
    assert alphabet.unknown_characters(text) == sorted(set(text) - known, key=text.index)


@given(st.lists(st.text(CHARACTERS | st.just("\ud800"))))
@settings(max_examples=100, deadline=None)
def test_many_lines_are_encoded_as_each_of_them(lines: list[str]) -> None:
    alphabet = Alphabet.of_characters("aé😀")
    each = [[*alphabet.encode(line), alphabet.eos] for line in lines]
    assert [ids.tolist() for ids in encode_targets(alphabet, lines)] == each


def test_a_lone_surrogate_is_unknown() -> None:
    alphabet = Alphabet.of_characters("ab")
    assert alphabet.encode("a\ud800").tolist() == [alphabet.symbols.index("a"), alphabet.unk]


def test_specials_never_match_text_and_never_appear_in_it() -> None:
    alphabet = Alphabet.of_characters("</s>unkpademo")
    assert alphabet.decode([alphabet.pad, alphabet.eos, alphabet.unk, alphabet.eom]) == ""
    for special in SPECIALS:
        ids = alphabet.encode(special).tolist()
        assert len(ids) == len(special)
        assert not {alphabet.pad, alphabet.eos, alphabet.unk, alphabet.eom} & set(ids)


def test_ids_are_in_the_order_of_texts() -> None:
    alphabet = Alphabet.of_characters("zaé😀\u0301-Z")
    assert list(alphabet.symbols[len(SPECIALS) :]) == sorted("zaé😀\u0301-Z")


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ("azAZéßжאكक日ʔǃ𐎀", True),  # letters of any script, clicks among them
        ("\u0301\u0308\u093e\u093f\u094d\u0e31\u0e49\u064b\u20dd", True),  # combining marks, vowel signs, viramas
        ("0189\u0663\u096b²½", False),  # digits and numbers of any script
        (" \u00a0\t\u2028\u200b-'’.,!?\"()_+=€😀", False),
    ],
)
def test_word_characters_are_letters_and_marks(characters: str, expected: bool) -> None:
    assert {character: is_word_character(character) for character in characters} == dict.fromkeys(characters, expected)
    alphabet = Alphabet.of_characters(characters)
    assert alphabet.is_word[alphabet.encode(characters)].tolist() == [expected] * len(characters)


def test_specials_are_no_word_characters() -> None:
    alphabet = Alphabet.of_characters("a")
    assert alphabet.is_word.tolist() == [False] * len(SPECIALS) + [True]


@given(st.sets(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=50, deadline=None)
def test_saved_and_loaded_is_the_same(tmp_path_factory: pytest.TempPathFactory, characters: set[str]) -> None:
    path = tmp_path_factory.mktemp("alphabet") / "alphabet.json"
    alphabet = Alphabet.of_characters(characters | {"\u212b", "\u2028", '"', "\\", "\u0301"})
    assert unicodedata.normalize("NFC", "\u212b") != "\u212b"  # imported models can have such characters
    alphabet.save(path)
    assert Alphabet.load(path) == alphabet


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        json.dumps(["a", "b"]),
        json.dumps([*SPECIALS, "a", "a"]),
        json.dumps([*SPECIALS, 1]),
        json.dumps([*SPECIALS, ["a"]]),
        json.dumps(dict.fromkeys(SPECIALS, 1)),
        json.dumps("".join(SPECIALS)),
        "3",
    ],
)
def test_what_is_no_alphabet_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "alphabet.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"alphabet\.json(, line 1: not JSON|: is not an alphabet)"):
        Alphabet.load(path)


def test_characters_in_messages_have_code_points() -> None:
    assert describe_characters(["é", "\u0301"]) == "'é' (U+00E9), '\u0301' (U+0301)"
    assert describe_characters(list("abcdefgh")).endswith("'e' (U+0065) and 3 more")
