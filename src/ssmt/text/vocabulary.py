"""What a model needs to know of its two languages' writing: source subwords, target alphabet and lexicon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ssmt.text.alphabet import Alphabet
from ssmt.text.dictionary import DictionarySubwords
from ssmt.text.lexicon import Lexicon
from ssmt.text.subwords import Subwords


class SourceSubwords(Protocol):
    """The source side: sentencepiece or, in imported models, a dictionary with BPE codes."""

    unk: int
    eos: int
    pad: int
    file: str  # in a model directory

    def __len__(self) -> int: ...
    def encode(self, lines: Sequence[str]) -> list[list[int]]: ...
    def encode_split(self, lines: Sequence[str]) -> list[list[int]]: ...
    def save(self, path: Path) -> None: ...


@dataclass(frozen=True)
class Vocabulary:
    source: SourceSubwords
    alphabet: Alphabet
    lexicon: Lexicon
    pretokenised: bool = False  # source lines come already split into subwords, with blanks between them

    @property
    def source_pad(self) -> int:
        return self.source.pad

    @property
    def target_pad(self) -> int:
        return self.alphabet.pad

    def encode_sources(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return self.source.encode_split(lines) if self.pretokenised else self.source.encode(lines)

    def encode_targets(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return encode_targets(self.alphabet, lines)

    def for_pretokenised(self) -> Vocabulary:
        return replace(self, pretokenised=True)

    def save(self, directory: Path) -> None:
        self.source.save(directory / self.source.file)
        self.alphabet.save(directory / "alphabet.json")
        self.lexicon.save(directory / "lexicon.txt")

    @classmethod
    def load(cls, directory: Path) -> Vocabulary:
        alphabet = Alphabet.load(directory / "alphabet.json")
        lexicon = Lexicon.load(directory / "lexicon.txt", alphabet)
        imported = (directory / DictionarySubwords.file).is_file()
        kind: type[DictionarySubwords | Subwords] = DictionarySubwords if imported else Subwords
        return cls(kind.load(directory / kind.file), alphabet, lexicon)


@dataclass(frozen=True)
class SubwordVocabulary:
    """Both sides as sentencepiece subwords, of one vocabulary or of two."""

    source: Subwords
    target: Subwords

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def source_pad(self) -> int:
        return self.source.pad

    @property
    def target_pad(self) -> int:
        return self.target.pad

    def encode_sources(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return self.source.encode(lines)

    def encode_targets(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return self.target.encode(lines)


def encode_targets(alphabet: Alphabet, lines: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Character ids of each line, `</s>` at the end."""
    return [np.append(alphabet.encode(line), alphabet.eos) for line in lines]
