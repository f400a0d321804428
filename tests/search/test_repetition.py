"""Fines for what is said twice: against a plain count, and in beam search against all strings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.search.beam import beam_search
from ssmt.search.options import SearchOptions
from ssmt.search.repetition import Repetitions


def repeated_symbols(symbols: list[int], shortest: int) -> int:
    """How many symbols end a run of `shortest` that stands somewhere before as well."""
    runs = [tuple(symbols[end - shortest : end]) for end in range(shortest, len(symbols) + 1)]
    return sum(run in runs[:place] for place, run in enumerate(runs))


@given(st.lists(st.lists(st.integers(0, 2), min_size=12, max_size=12), min_size=1, max_size=4), st.integers(1, 4))
def test_fines_are_a_plain_count(strings: list[list[int]], shortest: int) -> None:
    rows = np.arange(len(strings))
    repetitions = Repetitions(len(strings), 0.5, shortest)
    for length in range(12):
        scores = torch.zeros(len(strings), 3, dtype=torch.float64)
        fined = repetitions.fined(scores)
        for row, symbol in itertools.product(rows.tolist(), range(3)):
            expected = repeated_symbols([*strings[row][:length], symbol], shortest)
            assert fined[row, symbol].item() == -0.5 * expected
        assert not scores.any(), "what the model says stays as it is"
        repetitions.advance(rows, np.array([string[length] for string in strings]))


@given(st.permutations(range(3)))
def test_rows_take_their_history_along(order: list[int]) -> None:
    strings = [[0, 1, 0, 1, 0], [1, 1, 1, 0, 0], [2, 0, 2, 0, 2]]
    repetitions = Repetitions(3, 1.0, 2)
    for symbols in zip(*strings, strict=True):
        repetitions.advance(np.arange(3), np.array(symbols))
    repetitions.advance(np.array(order), np.array([0, 1, 2]))
    assert repetitions.fines.tolist() == [
        repeated_symbols([*strings[row], symbol], 2) for row, symbol in zip(order, range(3), strict=True)
    ]


class Markov:
    """Strings whose symbols depend on the one before; `</s>` is 0."""

    eos = 0

    def __init__(self, table: Tensor, rows: int, longest: int) -> None:
        self.table, self.longest = table, longest  # (W, W) log-probabilities after each symbol
        self.last, self.total, self.length = torch.zeros(rows, dtype=torch.int64), torch.zeros(rows).double(), 0

    def extensions(self) -> Tensor:
        scores = self.total.unsqueeze(1) + self.table[self.last]
        if self.length >= self.longest:
            scores[:, 1:] = NEG_INF
        return scores

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.total, self.last = self.total[rows] + self.table[self.last[rows], symbols], symbols
        self.length += 1

    def select_sentences(self, sentences: Tensor) -> None:
        raise AssertionError("there is one sentence")


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_best_of_all_strings_is_found(length_penalty: float) -> None:
    table = torch.tensor([[0.0, 0.61, 0.39], [0.1, 0.12, 0.78], [0.17, 0.79, 0.04]]).double().log().clamp(min=-50)

    def score(string: tuple[int, ...]) -> float:
        pairs = itertools.pairwise([0, *string, 0])
        return sum(table[before, after].item() for before, after in pairs)

    strings = [string for length in range(7) for string in itertools.product((1, 2), repeat=length)]
    best_by_penalty = {}
    for penalty in (0.0, 0.3, 2.0):
        options = SearchOptions(
            beam=200, n_best=3, length_penalty=length_penalty, repetition_penalty=penalty, max_length=6
        )
        (found,) = beam_search(Markov(table, 200, 6), 1, options, repeated=2)
        hypotheses = found[:3]

        def rank(string: tuple[int, ...], penalty: float = penalty) -> float:
            fined = score(string) - penalty * repeated_symbols(list(string), 2)
            return fined / math.pow(len(string) + 1, length_penalty)

        best = sorted(strings, key=rank, reverse=True)[:3]
        assert [tuple(hypothesis.symbols) for hypothesis in hypotheses] == best
        for hypothesis in hypotheses:
            assert hypothesis.score == pytest.approx(score(tuple(hypothesis.symbols)), abs=1e-9), "without fines"
            assert hypothesis.rank == pytest.approx(rank(tuple(hypothesis.symbols)), abs=1e-9)
        best_by_penalty[penalty] = best[0]
    if length_penalty:
        assert len(set(best_by_penalty.values())) > 1, "the penalty changes what is best"
