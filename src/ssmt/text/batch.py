"""Sentence pairs as padded tensors: what every network reads.

Shapes: B sentences, S source subwords, T target symbols with `</s>`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

UNSAID = -1  # in the place of a start symbol: there are several, by language


class BatchSymbols(NamedTuple):
    """What a vocabulary puts around the ids of a batch."""

    source_pad: int
    target_pad: int
    start: int  # stands in front of a target and says what is asked for
    starts: Mapping[str, int] = MappingProxyType({})  # the same by language, where there are several
    tags: Collection[int] = ()  # which of a source's symbols may stand in front of it
    blank: int | None = None  # what stands between two targets that become one; none: nothing


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, padded on the right. `</s>` ends every source and every target."""

    source: Tensor | None  # (B, S); none: targets that stand alone, as for a language model
    target: Tensor  # (B, T)
    target_lengths: Tensor  # (B,)
    start_symbols: Tensor  # (B,) what the decoder reads before the first symbol of each target
    characters: int  # of all raw targets, one more each for the sentence's end: what bits per character divide by
    lines: tuple[int, ...]  # line numbers in the training files, from 1, for messages
    # (B, T, S) the probability that each target symbol translates each source subword; none: nobody has asked
    alignment: Tensor | None = None

    @property
    def previous(self) -> Tensor:
        """The symbol that the decoder has read last before each position. (B, T)"""
        return torch.cat([self.start_symbols.unsqueeze(1), self.target[:, :-1]], dim=1)

    def to(self, device: torch.device) -> Batch:
        return replace(
            self,
            source=None if self.source is None else self.source.to(device),
            target=self.target.to(device),
            target_lengths=self.target_lengths.to(device),
            start_symbols=self.start_symbols.to(device),
            alignment=None if self.alignment is None else self.alignment.to(device),
        )


def make_batch(
    sources: Sequence[npt.ArrayLike] | None,
    targets: Sequence[npt.ArrayLike],
    symbols: BatchSymbols,
    characters: int | None = None,
    lines: Sequence[int] = (),
    languages: Sequence[str | None] | None = None,
) -> Batch:
    """`languages`: of the targets, where a batch has several."""
    starts = [symbols.start] * len(targets)
    assert languages is not None or symbols.start != UNSAID, "which language is asked for?"
    if languages is not None:
        starts = [symbols.starts[language or ""] for language in languages]
    lengths = [len(np.atleast_1d(target)) for target in targets]
    return Batch(
        source=None if sources is None else padded(sources, symbols.source_pad),
        target=padded(targets, symbols.target_pad),
        target_lengths=torch.tensor(lengths),
        start_symbols=torch.tensor(starts),
        characters=sum(lengths) if characters is None else characters,
        lines=tuple(lines),
    )


def padded(sequences: Sequence[npt.ArrayLike], padding: int) -> Tensor:
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    result = np.full((len(arrays), max(map(len, arrays))), padding, dtype=np.int64)
    for row, values in zip(result, arrays, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(result)


def batches_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows of like length together, longest first (so that too little memory shows at once)."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and (len(rows) + 1) * lengths[rows[0]] > budget:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
