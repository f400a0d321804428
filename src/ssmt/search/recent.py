"""The symbols that each hypothesis has read last, which say where in the source a copy goes on.

Shapes: N rows, M symbols, B sentences, K rows a sentence.
"""

from __future__ import annotations

from torch import Tensor

from ssmt.model.copies import MATCHED, NOTHING_READ


class Recent:
    def __init__(self, first: Tensor) -> None:
        """first (N,): what each row has read first."""
        self.symbols = first.new_full((len(first), MATCHED), NOTHING_READ)  # (N, M) the last first
        self.symbols[:, 0] = first

    def reorder(self, rows: Tensor) -> None:
        """Row i is now what row `rows[i]` was."""
        self.symbols = self.symbols.index_select(0, rows)

    def read(self, symbols: Tensor, reading: Tensor | None = None) -> None:
        """One more symbol a row, or (with `reading`) these rows alone. (N,)"""
        read = self.symbols.roll(1, dims=1)
        read[:, 0] = symbols
        self.symbols = read if reading is None else read.where(reading.unsqueeze(1), self.symbols)

    def by_sentence(self, rows: int) -> Tensor:
        """(B, K, M)"""
        return self.symbols.view(-1, rows, MATCHED)
