"""What a hypothesis says twice. Ours, not the paper's.

A model of little text loses its place in the source and says a phrase again and again. So a symbol is fined where it
goes on with a repetition: where it, and the symbols before it, stand somewhere before in the hypothesis already. Fines
change which hypotheses are kept and how they are ranked, never what is reported as their probability.

    hypothesis    we saw the bird and saw the b
    fined                                   ^^^

(8 symbols in a row are a repetition here: ` saw the` is said a second time, and from its last letter on each symbol
pays.)

Shapes: N rows (hypotheses), T symbols so far, W symbols, n fined extensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Integers = npt.NDArray[np.int64]


class Repetitions:
    def __init__(self, rows: int, penalty: float, shortest: int) -> None:
        """`penalty`: what a symbol costs that goes on with a repetition of `shortest` symbols or more, itself among
        them."""
        self.penalty, self.shortest = penalty, shortest
        self.fines = np.zeros(rows)  # (N,) paid so far
        self.symbols: Integers = np.zeros((rows, 0), dtype=np.int64)  # (N, T)
        # How many of the last symbols stand, in the same order, right before each place too.
        self.common: Integers = np.zeros((rows, 0), dtype=np.int64)  # (N, T)

    def fined(self, scores: Tensor) -> Tensor:
        """The scores of all extensions less what each row has to pay. (N, W)"""
        rows, symbols = self._repeating()
        paid = torch.from_numpy(self.fines).to(scores)
        fined = scores - paid.unsqueeze(1)
        fined[torch.from_numpy(rows), torch.from_numpy(symbols)] -= (
            self.penalty
        )  # each pair once, however often it is there
        return fined

    def advance(self, rows: Integers, symbols: Integers) -> None:
        """The new row i is the old `rows[i]` with one more symbol. (N,), (N,)"""
        before, common = self.symbols[rows], self.common[rows]
        again = before == symbols[:, None]
        self.fines = self.fines[rows] + self.penalty * (again & (common >= self.shortest - 1)).any(axis=1)
        self.symbols = np.concatenate([before, symbols[:, None]], axis=1)
        first = np.zeros((len(rows), 1), dtype=np.int64)
        self.common = np.concatenate([first, np.where(again, common + 1, 0)], axis=1)

    def _repeating(self) -> tuple[Integers, Integers]:
        """The extensions that go on with a repetition, each once: rows and symbols. (n,), (n,)"""
        rows, places = np.nonzero(self.common >= self.shortest - 1)
        pairs = np.unique(np.stack([rows, self.symbols[rows, places]]), axis=1)
        return pairs[0], pairs[1]
