"""fairseq's dictionaries, and the source side that a model of the original implementation brings along: such a
dictionary of subwords, and the codes by which subword-nmt splits words into them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ssmt.errors import UserError
from ssmt.files import count_in, is_text, read_json
from ssmt.outputs import replacing
from ssmt.text.lines import read_lines

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # the first ids of every dictionary; its file does not name them
OVERWRITE = "#fairseq:overwrite"
MOST_CACHED = 100_000  # words whose subwords are remembered


def read_dictionary(path: Path) -> list[tuple[str, int]]:
    """The symbols of a dictionary's file in their order, with their counts. One a line: symbol, blank, count.

    A flag at the line's end says that a symbol may come again; the text's symbols then mean its last place.
    """
    symbols: list[tuple[str, int]] = []
    seen = set(SPECIALS)
    for number, line in enumerate(read_lines(path, normalised=False), start=1):
        line = line.rstrip()
        again = line.endswith(f" {OVERWRITE}")
        symbol, blank, count = line.removesuffix(f" {OVERWRITE}").rpartition(" ")
        number_of = count_in(count)
        if not (blank and symbol) or number_of is None:
            raise UserError(f"{path}, line {number}: expected a symbol, a blank and its count")
        if symbol in seen and not again:
            raise UserError(f"{path}, line {number}: {symbol!r} stands in the dictionary twice")
        symbols.append((symbol, number_of))
        seen.add(symbol)
    return symbols


class DictionarySubwords:
    """Source subwords by a dictionary. Ids: 0 `<s>`, 1 `<pad>`, 2 `</s>`, 3 `<unk>`, then the file's symbols."""

    pad, eos, unk = 1, 2, 3
    file = "source.json"  # in a model directory
    tags: Mapping[str, int] = MappingProxyType({})  # it has none

    def __init__(self, symbols: Sequence[str], codes: Sequence[str] | None) -> None:
        """`codes`: the lines of a file of codes; without them only text that is already split can be read."""
        self.symbols, self.codes = (*SPECIALS, *symbols), codes
        self.id_of_symbol = {symbol: id for id, symbol in enumerate(self.symbols)}

    @classmethod
    def read(cls, dictionary: Path, codes: Path | None) -> DictionarySubwords:
        return cls([symbol for symbol, _ in read_dictionary(dictionary)], None if codes is None else read_codes(codes))

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def no_text(self) -> Collection[int]:
        """The ids of what stands for something else."""
        return range(len(SPECIALS))

    @property
    def pieces(self) -> Sequence[str]:
        return self.symbols

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, `</s>` at the end."""
        split = [self._bpe.process_line(line) for line in lines]
        if len(self._bpe.cache) > MOST_CACHED:  # it keeps every word for ever
            self._bpe.cache.clear()
        return self.encode_split(split)

    def encode_split(self, lines: Sequence[str]) -> list[list[int]]:
        """The same for lines that are already split: blanks stand between subwords."""
        return [[*(self.id_of_symbol.get(symbol, self.unk) for symbol in line.split()), self.eos] for line in lines]

    @cached_property
    def _bpe(self) -> Any:
        if self.codes is None:
            raise UserError(
                "This model was imported without BPE codes and cannot split raw source text: give it text that is "
                "already split (pretokenised), or import it again with the codes of its source"
            )
        try:
            from subword_nmt.apply_bpe import BPE
        except ImportError:
            raise UserError(
                "Raw source text needs subword-nmt for this imported model: pip install 'ssmt[fairseq]'"
            ) from None
        return BPE(io.StringIO("\n".join(self.codes)))

    def save(self, path: Path) -> None:
        content = {"symbols": self.symbols[len(SPECIALS) :], "codes": self.codes}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> DictionarySubwords:
        content = read_json(path)
        symbols: Any
        codes: Any
        symbols, codes = (content.get(key) if isinstance(content, dict) else None for key in ("symbols", "codes"))
        are_texts = all(isinstance(part, list) and all(map(is_text, part)) for part in (symbols, codes or []))
        if not are_texts:
            raise UserError(f"{path}: is not a source dictionary (JSON with symbols and codes)")
        return cls(symbols, None if codes is None else checked_codes(codes, path))


def read_codes(path: Path) -> list[str]:
    """The lines of subword-nmt's codes: each a pair to merge."""
    return checked_codes(read_lines(path, normalised=False), path)


def checked_codes(lines: list[str], path: Path) -> list[str]:
    """The lines but for empty ones at the end. Checked here, because that library exits at a bad one."""
    while lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        is_version = number == 1 and re.fullmatch(r"#version: \d{1,3}(\.\d{1,3})*\s*", line)
        if not is_version and (len(line.strip("\r\n ").split(" ")) != 2 or "\n" in line):
            raise UserError(f"{path}, line {number}: is no BPE code of subword-nmt (two subwords to merge)")
    return lines
