"""n-gram inputs: the automaton of a search says what the trie says, symbol by symbol."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from ssmt.model.ngrams import NgramInputs, automaton_of
from ssmt.text.alphabet import Alphabet
from ssmt.text.lexicon import Lexicon


def random_lexicon(seed: int) -> Lexicon:
    rng = random.Random(seed)
    entries = {"".join(rng.choices("abc", k=rng.randint(2, 6))) for _ in range(60)}
    return Lexicon.of_texts(Alphabet.of_characters("abc "), entries)


@torch.inference_mode()
@pytest.mark.parametrize("with_table", [True, False], ids=["automaton", "by length"])
@pytest.mark.parametrize("seed", range(3))
def test_steps_give_what_whole_texts_give(seed: int, with_table: bool) -> None:
    lexicon = random_lexicon(seed)
    if not with_table:  # as where the alphabet is large
        lexicon.trie = replace(lexicon.trie, dense=None)
    assert (automaton_of(lexicon, torch.device("cpu")) is not None) == with_table
    ngrams = NgramInputs(lexicon, 8)
    rng = random.Random(seed)
    texts = ["".join(rng.choices("abc ", weights=[4, 4, 4, 1], k=40)) for _ in range(5)]
    read = torch.stack([torch.from_numpy(lexicon.alphabet.encode(text)) for text in texts])
    expected = ngrams(read)
    suffixes = ngrams.start(5)
    for place, symbols in enumerate(read.T):
        torch.testing.assert_close(ngrams.step(symbols, suffixes), expected[:, place])
    suffixes = ngrams.start(5)
    order = torch.tensor([4, 0, 0, 2, 1])
    for place in range(read.shape[1]):  # rows that idle, and rows that move
        if place == 20:
            suffixes.reorder(order)
            read, expected = read[order], expected[order]
        symbols = read[:, place]
        nothing = torch.zeros(5, dtype=torch.bool)
        ngrams.step(symbols.flip(0), suffixes, nothing)
        found = ngrams.step(symbols, suffixes, ~nothing)
        torch.testing.assert_close(found, expected[:, place])
