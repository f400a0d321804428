"""Subwords that a segmenter has cut: a table of pieces with their counts, in the notation of sentencepiece.

A segmented line is written as `▁Ngi ya qonda ▁a .`: blanks between pieces, a mark for each blank of the text and one in
front. Every single character is a piece, so that any segment can be spelt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ssmt.errors import UserError
from ssmt.files import count_in, read_description_lines
from ssmt.outputs import replacing
from ssmt.text.subwords import MARK, marked

SPECIALS = ("<unk>", "</s>", "<pad>")  # ids as in sentencepiece's models


def segmented_line(segments: Sequence[str]) -> str:
    """Segments whose concatenation is a text, as pieces: a blank is the mark of the segment after it."""
    pieces = []
    pending = MARK
    for segment in segments:
        if segment == " ":
            if pending:
                pieces.append(pending)
            pending = MARK
        else:
            pieces.append(pending + marked(segment)[1:])
            pending = ""
    if pending and segments:
        pieces.append(pending)
    return " ".join(pieces)


class Pieces:
    """Pieces in id order: specials, single characters, then by frequency."""

    unk, eos, pad = 0, 1, 2
    file = "target.txt"  # in a model directory
    tags: Mapping[str, int] = MappingProxyType({})  # it has none

    def __init__(self, pieces: Sequence[str], counts: Sequence[int]) -> None:
        self.pieces, self.counts = [*SPECIALS, *pieces], counts
        self.id_of_piece = {piece: id for id, piece in enumerate(self.pieces)}

    @classmethod
    def of_lines(cls, lines: Iterable[str], size: int, known: Pieces | None = None) -> Pieces:
        """The most frequent pieces of segmented lines, `size` in all but at least every character; ties go by text.
        Those that are `known` come first, with the ids that they have."""
        counts: Counter[str] = Counter()
        characters: Counter[str] = Counter({MARK: 0})
        for line in lines:
            pieces = line.split(" ")
            counts.update(pieces)
            for piece in pieces:
                characters.update(piece)
        before = [] if known is None else known.pieces[len(SPECIALS) :]
        singles = sorted({*characters} - {*before})
        room = max(size - len(SPECIALS) - len(before) - len(singles), 0)
        new = (piece for piece in counts.keys() - {*before} if len(piece) > 1)
        longer = sorted(new, key=lambda piece: (-counts[piece], piece))
        chosen = [*before, *singles, *longer[:room]]
        return cls(chosen, [counts[piece] for piece in chosen])

    @property
    def no_text(self) -> Collection[int]:
        """The ids of what stands for something else."""
        return range(len(SPECIALS))

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of segmented lines, `</s>` at the end; what is no piece is spelt."""
        return [[*(id for piece in line.split(" ") if piece for id in self._ids(piece)), self.eos] for line in lines]

    def _ids(self, piece: str) -> list[int]:
        if piece in self.id_of_piece:
            return [self.id_of_piece[piece]]
        rest = piece.removeprefix(MARK)
        if rest != piece and rest in self.id_of_piece:  # known, but not at a word's start
            return [self.id_of_piece[MARK], self.id_of_piece[rest]]
        return [self.id_of_piece.get(character, self.unk) for character in piece]

    def save(self, path: Path) -> None:
        """One piece a line in id order without the specials, a tab, and its count."""
        rows = zip(self.pieces[len(SPECIALS) :], self.counts, strict=True)
        with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{piece}\t{count}\n" for piece, count in rows)

    @classmethod
    def load(cls, path: Path) -> Pieces:
        pieces: dict[str, int] = {}
        for number, line in enumerate(read_description_lines(path), start=1):
            piece, _, written = line.rpartition("\t")
            count = count_in(written)
            if not piece or count is None or piece in pieces:
                raise UserError(f"{path}, line {number}: expected a new piece, a tab and its count")
            pieces[piece] = count
        if MARK not in pieces:
            raise UserError(f"{path}: has no piece {MARK!r}, without which a blank cannot be written")
        return cls(list(pieces), list(pieces.values()))
