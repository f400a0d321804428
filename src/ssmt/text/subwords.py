"""Subwords by sentencepiece: the source side of every model, and both sides of the baselines."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sentencepiece

from ssmt.errors import UserError
from ssmt.files import read_description
from ssmt.outputs import replacing

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on

Algorithm = Literal["bpe", "unigram"]
MARK = "▁"  # sentencepiece writes it for a blank, and once more in front of every text
# sentencepiece skips training text with these characters, or takes them for something else. Where text must survive,
# characters of Unicode's private use area stand for them, and for those, which somebody may write, some of the code
# points that Unicode keeps free for the inside of programs. These four alone cannot be told from what they stand for.
_STAND_INS = {character: chr(0xF5A0 + place) for place, character in enumerate((MARK, "▅", "\t", "\0"))}
_STAND_INS |= {chr(0xF5A0 + place): chr(0xFDD0 + place) for place in range(4)}
RESERVED = frozenset(chr(0xFDD0 + place) for place in range(4))
_HIDE = str.maketrans({**_STAND_INS, " ": MARK})
_SHOW = str.maketrans({stand_in: character for character, stand_in in _STAND_INS.items()} | {MARK: " "})
_NAMES = [2 * chr(0xF5B0 + id) for id in range(3)]  # of the special subwords: nobody writes these either
NORMAL, CONTROL = 1, 3  # kinds of pieces, as sentencepiece numbers them
MOST_TRAINING_LINES = 2_000_000  # sentencepiece samples from more; keeps its memory bounded


class Subwords:
    """A trained sentencepiece model. Ids: 0 `<unk>`, 1 `</s>`, 2 `<pad>`."""

    unk, eos, pad = 0, 1, 2
    file = "source.model"  # in a model directory
    exact = False  # runs of blanks count as one

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=serialised)
        self.pieces: list[str] = [self.processor.id_to_piece(id) for id in range(len(self))]
        specials = (self.unk, self.eos, self.pad)
        # Symbols that are put in front of a text and never found in it.
        self.tags: dict[str, int] = {
            piece: id for id, piece in enumerate(self.pieces) if id not in specials and self.processor.is_control(id)
        }

    @property
    def no_text(self) -> Collection[int]:
        """The ids of what stands for something else."""
        return {self.unk, self.eos, self.pad, *self.tags.values()}

    def with_tags(self, tags: Iterable[str]) -> Self:
        """The same subwords and, after them, tags that are not there yet."""
        new = [tag for tag in dict.fromkeys(tags) if tag not in self.tags]
        return type(self)(self.serialised + b"".join(_piece(tag, CONTROL) for tag in new)) if new else self

    def with_characters(self, characters: Iterable[str]) -> Self:
        """The same subwords and, after them, single characters. Whatever was known before is cut as before: nothing
        longer comes together, and a new character's score is below all others."""
        new = sorted({*characters} - {*self.pieces})
        least = min(self.processor.get_score(id) for id in range(len(self))) - 1
        return type(self)(self.serialised + b"".join(_piece(c, NORMAL, least) for c in new)) if new else self

    def characters_of(self, lines: Iterable[str]) -> set[str]:
        """The characters of a text as they stand in subwords."""
        if self.exact:
            return {character for line in lines for character in marked(line)}
        return {c for line in lines for c in line if not c.isspace() and c not in _STAND_INS}

    @classmethod
    def train(
        cls,
        texts: Sequence[str],
        size: int,
        algorithm: Algorithm = "bpe",
        warn: Callable[[str], None] = warnings.warn,
    ) -> Self:
        """Learn `size` subwords; a corpus too small for that many gives what it can, with a warning."""
        asked = size
        texts = [marked(text) for text in texts] if cls.exact else texts
        while True:
            try:
                return cls(_train_sentencepiece(texts, size, algorithm, cls.exact))
            except RuntimeError as error:
                clamped = _clamped_size(str(error), size)
                if clamped is None:
                    raise UserError(f"sentencepiece cannot learn subwords from this text: {error}") from None
                reason = "has too little text for" if clamped < size else "has more characters than"
                size = clamped
                warn(f"the corpus {reason} {asked:,} subwords: {size:,} are used")

    def __len__(self) -> int:
        return int(self.processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, `</s>` at the end."""
        # One thread: text that is worth more is encoded by several processes.
        encoded: list[list[int]] = self.processor.encode(self._spelt(lines), add_eos=True, num_threads=1)
        return encoded

    def _spelt(self, lines: Sequence[str]) -> list[str]:
        return [marked(line) for line in lines] if self.exact else list(lines)

    def encode_split(self, lines: Sequence[str]) -> list[list[int]]:
        """The same for lines that are already split: blanks stand between subwords."""
        return [[*map(self.processor.piece_to_id, line.split()), self.eos] for line in lines]

    def save(self, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(self.serialised)

    @classmethod
    def load(cls, path: Path) -> Self:
        serialised = read_description(path)
        try:
            if serialised:  # sentencepiece takes nothing for "no model yet" and fails only when it is used
                subwords = cls(serialised)
                if subwords.has_our_specials:
                    return subwords
        except (RuntimeError, ValueError):  # the latter: subwords that are not UTF-8
            pass
        raise UserError(f"{path}: is not a sentencepiece model of this program")

    @property
    def has_our_specials(self) -> bool:
        processor = self.processor
        return (processor.unk_id(), processor.eos_id(), processor.pad_id()) == (self.unk, self.eos, self.pad)


class TargetSubwords(Subwords):
    """Subwords from which a text comes back character by character, all its blanks included."""

    file = "target.model"
    exact = True

    def cut(self, text: str) -> list[str]:
        """The segments of a text, in its own characters, known or not."""
        segments = segments_of_pieces(self.processor.encode(marked(text), out_type=str))
        ends = accumulate(map(len, segments))
        return [text[end - len(segment) : end] for segment, end in zip(segments, ends, strict=True)]


def marked(text: str) -> str:
    """A text as the concatenation of its subwords: a mark for each blank and one in front; nothing stays nothing."""
    return MARK + text.translate(_HIDE) if text else ""


def unmarked(pieces: str) -> str:
    """The text of concatenated subwords: the inverse of `marked`."""
    return pieces[1:].translate(_SHOW)


def text_of_piece(piece: str, blank: bool = False) -> str:
    """A subword as text, with or without the blank before a word."""
    return (piece if blank else piece.removeprefix(MARK)).translate(_SHOW)


def segments_of_pieces(pieces: Sequence[str]) -> list[str]:
    """Subwords as segments whose concatenation is the text: blanks are segments of their own, as in every lattice."""
    first = pieces[0][1:] if pieces else ""
    parts = [part for piece in [first, *pieces[1:]] for part in re.split(f"({MARK})", piece) if part]
    return [part.translate(_SHOW) for part in parts]


def _piece(text: str, kind: int, score: float = 0.0) -> bytes:
    """One more piece of a serialised sentencepiece model. Protocol buffers that follow each other are one message, and
    repeated fields go on, so that a piece is added by writing it after the model."""
    name = text.encode()
    content = b"\x0a" + _varint(len(name)) + name + b"\x15" + struct.pack("<f", score) + b"\x18" + _varint(kind)
    return b"\x0a" + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _train_sentencepiece(texts: Sequence[str], size: int, algorithm: Algorithm, exact: bool) -> bytes:
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type=algorithm,
        vocab_size=size,
        character_coverage=1.0,
        normalization_rule_name="identity",  # text is NFC-normalised on the way in, and by nothing else
        unk_id=Subwords.unk,
        eos_id=Subwords.eos,
        pad_id=Subwords.pad,
        bos_id=-1,
        # Under its own names sentencepiece would cut "<unk>" out of a text that speaks of it; only ids are used.
        unk_piece=_NAMES[Subwords.unk],
        eos_piece=_NAMES[Subwords.eos],
        pad_piece=_NAMES[Subwords.pad],
        input_sentence_size=MOST_TRAINING_LINES,
        max_sentence_length=1 << 16,
        add_dummy_prefix=not exact,  # `marked` has put it there
        remove_extra_whitespaces=not exact,
        num_threads=1,  # the order of merges must not depend on the machine
        minloglevel=2,
    )
    return model.getvalue()


def _clamped_size(message: str, size: int) -> int | None:
    """The vocabulary size that would work, read off sentencepiece's refusal of a larger or smaller one."""
    too_high = re.search(r"set it to a value <= (\d+)", message)
    too_low = re.search(r"smaller than required_chars.*?(\d+) vs (\d+)", message, re.DOTALL)
    if too_high and int(too_high[1]) < size:
        return int(too_high[1])
    if too_low and int(too_low[2]) > size:
        return int(too_low[2])
    return None
