"""What a model needs to know of its two languages' writing.

The source is subwords for all models. The target is characters and a lexicon for those that segment while they
translate, and subwords for those whose text is cut before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ssmt.config import did_you_mean
from ssmt.errors import UserError
from ssmt.text.alphabet import Alphabet
from ssmt.text.batch import UNSAID, BatchSymbols
from ssmt.text.dictionary import DictionarySubwords
from ssmt.text.lexicon import ABSENT, Lexicon, legal_lengths
from ssmt.text.lines import with_single_blanks
from ssmt.text.pieces import Pieces
from ssmt.text.subwords import RESERVED, Subwords, TargetSubwords, marked, segments_of_pieces, unmarked
from ssmt.text.tags import language_symbol, languages_among, origin_symbol

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on

Many = Sequence[npt.ArrayLike]  # ids of many lines
NO_UNIT = ABSENT
# Symbols that networks have rows for; `ngrams` are lexicon entries as inputs, which are added to those of characters,
# `nested` are subwords within others, and `copied` the source's subwords as outputs.
RowKind = Literal["source", "target", "entries", "ngrams", "nested", "nested target", "copied"]


class SourceSubwords(Protocol):
    """The source side: sentencepiece or, in imported models, a dictionary with BPE codes."""

    unk: int
    eos: int
    pad: int
    file: str  # in a model directory

    @property
    def tags(self) -> Mapping[str, int]:
        """Symbols that are put in front of a text and never found in it."""

    @property
    def pieces(self) -> Sequence[str]:
        """In the order of their ids."""

    @property
    def no_text(self) -> Collection[int]:
        """The ids of what stands for something else."""

    def __len__(self) -> int: ...
    def encode(self, lines: Sequence[str]) -> list[list[int]]: ...
    def encode_split(self, lines: Sequence[str]) -> list[list[int]]: ...
    def save(self, path: Path) -> None: ...


@dataclass(frozen=True)
class BothSides(ABC):
    """The vocabulary of any model: its source side, and what is asked of its target side."""

    source: SourceSubwords
    # Source lines come already split into subwords, with blanks between them.
    pretokenised: bool = field(default=False, kw_only=True)
    language: str | None = field(default=None, kw_only=True)  # the one that is asked for, where there are several

    @property
    def source_pad(self) -> int:
        return self.source.pad

    @property
    @abstractmethod
    def languages(self) -> tuple[str, ...]:
        """The target languages that can be asked for; none where there is but one."""

    def into(self, language: str) -> Self:
        """The same, with a language that is asked for."""
        if language not in self.languages:
            raise UserError(
                f"This model cannot be asked for the language {language!r}{did_you_mean(language, self.languages)}; it "
                f"translates into {', '.join(self.languages) or 'one language'}"
            )
        return replace(self, language=language)

    def require_language(self) -> None:
        """Refuse to go on without a language where there are several."""
        if self.languages and self.language is None:
            raise UserError(f"This model translates into {', '.join(self.languages)}: choose one of them")

    @property
    def batch_symbols(self) -> BatchSymbols:
        start = UNSAID if self.language is None and self.starts else self.start
        tags = frozenset(self.source.tags.values())
        return BatchSymbols(self.source_pad, self.target_pad, start, self.starts, tags, self.blank)

    @property
    @abstractmethod
    def eos(self) -> int:
        """The target symbol that ends a target."""

    @property
    def blank(self) -> int | None:
        """The target symbol of a blank, where it is not written together with what follows it."""
        return None

    @property
    def starts(self) -> dict[str, int]:
        """The target symbols that ask for languages, where the decoder is asked."""
        return {}

    @property
    def start(self) -> int:
        """The target symbol that stands in front of a target: `</s>`, as in the paper's model, or the language's."""
        if not self.starts:
            return self.eos
        self.require_language()
        return self.starts[str(self.language)]

    def tags(self, language: str | None, origin: str | None = None) -> list[int]:
        """What stands in front of a source: those of the symbols for a language and an origin that the source has."""
        wanted = [] if language is None else [language_symbol(language)]
        wanted += [] if origin is None else [origin_symbol(origin)]
        return [self.source.tags[symbol] for symbol in wanted if symbol in self.source.tags]

    def encode_sources(self, lines: Sequence[str]) -> Many:
        encoded = self.source.encode_split(lines) if self.pretokenised else self.source.encode(lines)
        tags = self.tags(self.language)
        return [[*tags, *ids] for ids in encoded] if tags else encoded

    def for_pretokenised(self) -> Self:
        return replace(self, pretokenised=True)

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Symbols of the source and of the target."""

    @abstractmethod
    def rows(self, kind: RowKind) -> Sequence[str]:
        """The symbols of a kind, in the order of their ids."""

    @property
    @abstractmethod
    def target_pad(self) -> int: ...

    @abstractmethod
    def encode_targets(self, lines: Sequence[str]) -> Many:
        """Ids of each line, `</s>` at the end."""

    @abstractmethod
    def encode_prefix(self, text: str) -> npt.NDArray[np.int64]:
        """What an output must begin with, in the units that the searches compare."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of a target's ids, without `</s>`."""

    @abstractmethod
    def unknown_characters(self, text: str) -> list[str]:
        """Characters of a target that the model has never seen, in order of appearance."""

    @property
    @abstractmethod
    def unit_count(self) -> int:
        """How many different units there are."""

    @abstractmethod
    def units(self, targets: Tensor) -> Tensor:
        """Targets in the pieces that are aligned with the source: of each symbol that begins one, which it is; NO_UNIT
        elsewhere. (B, T), padded on the right -> (B, T)"""

    @abstractmethod
    def save(self, directory: Path) -> None: ...

    @classmethod
    @abstractmethod
    def load(cls, directory: Path) -> Self: ...


@dataclass(frozen=True)
class Vocabulary(BothSides):
    """The target as characters, with a lexicon of segments."""

    alphabet: Alphabet
    lexicon: Lexicon

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.source), len(self.alphabet)

    def rows(self, kind: RowKind) -> Sequence[str]:
        if kind in ("source", "nested", "copied"):
            return self.source.pieces
        return self.alphabet.symbols if kind == "target" else self.lexicon.texts

    @property
    def target_pad(self) -> int:
        return self.alphabet.pad

    @property
    def eos(self) -> int:
        return self.alphabet.eos

    @property
    def blank(self) -> int | None:
        """None either in an alphabet of a language that writes without."""
        return self.alphabet.symbols.index(" ") if " " in self.alphabet.symbols else None

    @property
    def languages(self) -> tuple[str, ...]:
        return self.alphabet.languages

    @property
    def starts(self) -> dict[str, int]:
        return {code: self.alphabet.symbols.index(language_symbol(code)) for code in self.languages}

    def encode_targets(self, lines: Sequence[str]) -> Many:
        return encode_targets(self.alphabet, lines)

    def encode_prefix(self, text: str) -> npt.NDArray[np.int64]:
        return self.alphabet.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        return self.alphabet.decode(ids)

    def unknown_characters(self, text: str) -> list[str]:
        return self.alphabet.unknown_characters(text)

    @property
    def unit_count(self) -> int:
        return len(self.lexicon)

    def units(self, targets: Tensor) -> Tensor:
        """Lexicon entries, the longest first from left to right; blanks translate nothing."""
        is_word, is_blank = (
            torch.from_numpy(of_symbol) for of_symbol in (self.alphabet.is_word, self.alphabet.is_blank)
        )
        legal = legal_lengths(targets, is_word, self.lexicon.longest, (targets != self.alphabet.pad).sum(dim=1))
        return self.lexicon.cut(targets, legal).masked_fill_(is_blank[targets], NO_UNIT)

    def save(self, directory: Path) -> None:
        self.source.save(directory / self.source.file)
        self.alphabet.save(directory / "alphabet.json")
        self.lexicon.save(directory / "lexicon.txt")

    @classmethod
    def load(cls, directory: Path) -> Self:
        alphabet = Alphabet.load(directory / "alphabet.json")
        lexicon = Lexicon.load(directory / "lexicon.txt", alphabet)
        imported = (directory / DictionarySubwords.file).is_file()
        kind: type[DictionarySubwords | Subwords] = DictionarySubwords if imported else Subwords
        return cls(kind.load(directory / kind.file), alphabet, lexicon)


@dataclass(frozen=True)
class SubwordVocabulary(BothSides):
    """Both sides as subwords that were cut before training. `target` is `source` where the languages share them."""

    target: TargetSubwords | Pieces

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.source), len(self.target)

    def rows(self, kind: RowKind) -> Sequence[str]:
        return self.source.pieces if kind in ("source", "nested", "copied") else self.target.pieces

    @property
    def target_pad(self) -> int:
        return self.target.pad

    @property
    def eos(self) -> int:
        return self.target.eos

    @property
    def languages(self) -> tuple[str, ...]:
        """The source says which is asked for."""
        return languages_among(self.source.tags)

    def encode_sources(self, lines: Sequence[str]) -> Many:
        """Blanks matter on the target side only, even where both sides share their subwords."""
        return super().encode_sources([with_single_blanks(line) for line in lines] if self.shared else lines)

    def encode_targets(self, lines: Sequence[str]) -> Many:
        """Of lines of text or, where a segmenter has cut the text, of segmented lines."""
        return self.target.encode(lines)

    def encode_prefix(self, text: str) -> npt.NDArray[np.int64]:
        return code_points(marked(text))

    def decode(self, ids: Iterable[int]) -> str:
        return unmarked("".join(self._pieces_of(ids)))

    def segments(self, ids: Iterable[int]) -> list[str]:
        """The text of a target's ids, cut as its subwords are."""
        return segments_of_pieces(self._pieces_of(ids))

    def _pieces_of(self, ids: Iterable[int]) -> list[str]:
        no_text = self.target.no_text
        return [self.target.pieces[id] for id in ids if id not in no_text]

    @property
    def unit_count(self) -> int:
        return len(self.target)

    def units(self, targets: Tensor) -> Tensor:
        return targets.masked_fill(targets == self.target.pad, NO_UNIT)

    @cached_property
    def _characters(self) -> set[str]:
        return {piece for piece in self.target.pieces if len(piece) == 1}

    def unknown_characters(self, text: str) -> list[str]:
        return [c for c in dict.fromkeys(text) if c in RESERVED or marked(c)[1:] not in self._characters]

    def save(self, directory: Path) -> None:
        self.source.save(directory / Subwords.file)
        if not self.shared:
            self.target.save(directory / self.target.file)

    @classmethod
    def load(cls, directory: Path) -> Self:
        if (directory / Pieces.file).is_file():
            return cls(Subwords.load(directory / Subwords.file), Pieces.load(directory / Pieces.file))
        if (directory / TargetSubwords.file).is_file():
            target = TargetSubwords.load(directory / TargetSubwords.file)
            return cls(Subwords.load(directory / Subwords.file), target)
        shared = TargetSubwords.load(directory / Subwords.file)
        return cls(shared, shared)


def encode_targets(alphabet: Alphabet, lines: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Character ids of each line, `</s>` at the end."""
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    ids = np.insert(alphabet.encode("".join(lines)), ends, alphabet.eos)  # all at once: four times as fast
    return np.split(ids, ends + np.arange(1, len(ends) + 1))[:-1]


def code_points(text: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
