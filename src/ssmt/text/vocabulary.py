"""What a model needs to know of its two languages' writing: source subwords, target alphabet and lexicon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssmt.text.alphabet import Alphabet
from ssmt.text.lexicon import Lexicon
from ssmt.text.subwords import Subwords


@dataclass(frozen=True)
class Vocabulary:
    source: Subwords
    alphabet: Alphabet
    lexicon: Lexicon

    @property
    def source_pad(self) -> int:
        return self.source.pad

    @property
    def target_pad(self) -> int:
        return self.alphabet.pad

    def encode_sources(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return self.source.encode(lines)

    def encode_targets(self, lines: Sequence[str]) -> Sequence[npt.ArrayLike]:
        return encode_targets(self.alphabet, lines)

    def save(self, directory: Path) -> None:
        self.source.save(directory / "source.model")
        self.alphabet.save(directory / "alphabet.json")
        self.lexicon.save(directory / "lexicon.txt")

    @classmethod
    def load(cls, directory: Path) -> Vocabulary:
        alphabet = Alphabet.load(directory / "alphabet.json")
        lexicon = Lexicon.load(directory / "lexicon.txt", alphabet)
        return cls(Subwords.load(directory / "source.model"), alphabet, lexicon)


def encode_targets(alphabet: Alphabet, lines: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Character ids of each line, `</s>` at the end."""
    return [np.append(alphabet.encode(line), alphabet.eos) for line in lines]
