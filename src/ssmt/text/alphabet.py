"""The target's characters and their ids.

A *word character* is a Unicode letter or combining mark (categories L*, M*); only word characters can share a segment.
`str.isalpha` alone would cut decomposed accents and Indic vowel signs off their letters.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ssmt.errors import UserError
from ssmt.files import is_text, read_json
from ssmt.outputs import replacing
from ssmt.text.tags import language_symbol, languages_among

PAD, EOS, UNK, EOM = "<pad>", "</s>", "<unk>", "<eom>"  # <eom> ends a segment, </s> the sentence
SPECIALS = (PAD, EOS, UNK, EOM)

Ids = npt.NDArray[np.int64]


def is_word_character(character: str) -> bool:
    return len(character) == 1 and unicodedata.category(character)[0] in "LM"


class Alphabet:
    """Symbols in id order. Whatever has more than one character is a special symbol and never matches text."""

    def __init__(self, symbols: Sequence[str], word_characters: Iterable[str] | None = None) -> None:
        """`word_characters`: of a model that draws the line elsewhere (imported ones draw it at `str.isalpha`)."""
        missing = [special for special in SPECIALS if special not in symbols]
        assert not missing, missing
        assert len(set(symbols)) == len(symbols), "symbols must be distinct"
        self.symbols = tuple(symbols)
        self.pad, self.eos, self.unk, self.eom = (self.symbols.index(special) for special in SPECIALS)
        usual = frozenset(symbol for symbol in self.symbols if is_word_character(symbol))
        self.word_characters = usual if word_characters is None else frozenset(word_characters)
        self.has_usual_words = self.word_characters == usual
        self.languages = languages_among(self.symbols)  # empty where there is but one
        self.is_word = np.array([symbol in self.word_characters for symbol in self.symbols])
        self.is_blank = np.array([symbol.isspace() for symbol in self.symbols])

    @classmethod
    def of_characters(cls, characters: Iterable[str], languages: Iterable[str] = ()) -> Alphabet:
        """Specials first, then the characters by code point: the order of ids is the order of texts. `languages` have
        symbols that ask for them, where there are several."""
        return cls([*SPECIALS, *map(language_symbol, languages), *sorted(set(characters))])

    def extended(self, characters: Iterable[str], languages: Iterable[str] = ()) -> Alphabet:
        """The same symbols with the same ids and, after them, what is not there yet."""
        new = [*map(language_symbol, languages), *sorted(set(characters))]
        new = [symbol for symbol in new if symbol not in self.symbols]
        words = None if self.has_usual_words else {*self.word_characters, *filter(is_word_character, new)}
        return Alphabet([*self.symbols, *new], words)

    def __len__(self) -> int:
        return len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Alphabet)
            and self.symbols == other.symbols
            and self.word_characters == other.word_characters
        )

    def __hash__(self) -> int:
        return hash(self.symbols)

    @cached_property
    def _id_of_code_point(self) -> Ids:
        characters = {ord(symbol): id for id, symbol in enumerate(self.symbols) if len(symbol) == 1}
        table = np.full(max(characters, default=0) + 2, self.unk, dtype=np.int64)  # the last row is for all beyond
        table[list(characters)] = list(characters.values())
        return table

    def encode(self, text: str) -> Ids:
        """One id a character, without `</s>`; characters outside the alphabet become `<unk>`."""
        code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        table = self._id_of_code_point
        return table[np.minimum(code_points, len(table) - 1)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials are left out, so that `decode(encode(text)) == text` for known characters."""
        return "".join(symbol for id in ids if len(symbol := self.symbols[id]) == 1)

    def unknown_characters(self, text: str) -> list[str]:
        """Characters of a text that the alphabet lacks, in order of appearance."""
        if not (self.encode(text) == self.unk).any():
            return []
        known = set(self.symbols)
        return list(dict.fromkeys(character for character in text if character not in known))

    def save(self, path: Path) -> None:
        content: object = self.symbols
        if not self.has_usual_words:
            content = {"symbols": self.symbols, "word_characters": sorted(self.word_characters)}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Alphabet:
        content = read_json(path)
        parts = content if isinstance(content, dict) else {"symbols": content}
        symbols: Any = parts.get("symbols")
        words: Any = parts.get("word_characters")
        if not _are_symbols(symbols) or not {*SPECIALS} <= {*symbols} or len({*symbols}) != len(symbols):
            raise UserError(
                f"{path}: is not an alphabet (a JSON list of distinct symbols, {', '.join(SPECIALS)} among them)"
            )
        if words is not None and not (_are_symbols(words) and {*words} <= {*symbols}):
            raise UserError(f"{path}: its word_characters are not a list of its symbols")
        return cls(symbols, words)


def _are_symbols(value: object) -> bool:
    return isinstance(value, list) and all(is_text(symbol) and symbol for symbol in value)


def describe_characters(characters: Sequence[str], most: int = 5) -> str:
    """Characters for messages, with code points, because many of them cannot be told apart by eye."""
    shown = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in characters[:most])
    return shown + (f" and {len(characters) - most} more" if len(characters) > most else "")
