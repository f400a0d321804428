"""Subwords by sentencepiece: the source side of every model, and both sides of the baselines."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Literal

import sentencepiece

from ssmt.errors import UserError
from ssmt.text.lines import open_for_reading, replacing

Algorithm = Literal["bpe", "unigram"]
MOST_TRAINING_LINES = 2_000_000  # sentencepiece samples from more; keeps its memory bounded


class Subwords:
    """A trained sentencepiece model. Ids: 0 `<unk>`, 1 `</s>`, 2 `<pad>`."""

    unk, eos, pad = 0, 1, 2
    file = "source.model"  # in a model directory

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=serialised)

    @classmethod
    def train(
        cls, texts: Sequence[str], size: int, algorithm: Algorithm = "bpe", warn: Callable[[str], None] = warnings.warn
    ) -> Subwords:
        """Learn `size` subwords; a corpus too small for that many gives what it can, with a warning."""
        asked = size
        while True:
            try:
                return cls(_train_sentencepiece(texts, size, algorithm))
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
        encoded: list[list[int]] = self.processor.encode(list(lines), add_eos=True)
        return encoded

    def encode_split(self, lines: Sequence[str]) -> list[list[int]]:
        """The same for lines that are already split: blanks stand between subwords."""
        return [[*map(self.processor.piece_to_id, line.split()), self.eos] for line in lines]

    def save(self, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(self.serialised)

    @classmethod
    def load(cls, path: Path) -> Subwords:
        with open_for_reading(path) as stream:
            serialised = stream.read()
        try:
            if serialised:  # sentencepiece takes nothing for "no model yet" and fails only when it is used
                return cls(serialised)
        except RuntimeError:
            pass
        raise UserError(f"{path}: is not a sentencepiece model")


def _train_sentencepiece(texts: Sequence[str], size: int, algorithm: Algorithm) -> bytes:
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
        input_sentence_size=MOST_TRAINING_LINES,
        max_sentence_length=1 << 16,
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
