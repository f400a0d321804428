"""Subword regularisation: the same text in subwords drawn at random, anew in each epoch.

sentencepiece can draw too, but its generator cannot be set to give the same draws in two processes, and a resumed run
must make the same updates as one that never stopped. Subwords never reach over a blank, so words are drawn one by one.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random

import numpy as np
import numpy.typing as npt

from ssmt.text.subwords import MARK, Algorithm, Subwords

REMEMBERED_WORDS = 1 << 16
UNKNOWN_SCORE = -100.0  # of a character without a piece: taken only where nothing else fits
Arc = tuple[int, int]  # where a piece begins, its id


class SubwordSampler:
    """Draws segmentations: by BPE dropout (Provilkov et al. 2020) or from the unigram model (Kudo 2018)."""

    def __init__(self, subwords: Subwords, algorithm: Algorithm, alpha: float) -> None:
        """alpha: how probably a merge is left out (BPE), or the power of the segmentations' probabilities (unigram)."""
        self.subwords, self.alpha = subwords, alpha
        self.pieces: list[str] = [subwords.processor.id_to_piece(id) for id in range(len(subwords))]
        self.specials = frozenset((subwords.unk, subwords.eos, subwords.pad, *subwords.tags.values()))
        self.ids = {piece: id for id, piece in enumerate(self.pieces) if id not in self.specials}
        self.scores = {piece: subwords.processor.get_score(id) for piece, id in self.ids.items()}
        self.longest = max(map(len, self.ids))
        self.draw_word = self.merge_with_dropout if algorithm == "bpe" else self.draw_from_unigram
        self.arcs = lru_cache(REMEMBERED_WORDS)(self._arcs)

    def resample(self, lines: Iterable[npt.ArrayLike], seeds: Iterable[str]) -> list[list[int]]:
        """Other ids of the same texts, `</s>` at the end; each drawn with a seed of its own."""
        pairs = zip(lines, seeds, strict=True)
        return [self._resample_line(np.asarray(line).tolist(), Random(seed)) for line, seed in pairs]

    def _resample_line(self, ids: Sequence[int], random: Random) -> list[int]:
        drawn: list[int] = []
        word = ""
        for id in ids:
            special = id in self.specials
            if word and (special or self.pieces[id].startswith(MARK)):
                drawn += self.draw_word(word, random)
                word = ""
            if special:
                drawn.append(id)
            else:
                word += self.pieces[id]
        return drawn

    def merge_with_dropout(self, word: str, random: Random) -> list[int]:
        """Merge the best pair of neighbours until there is none; in each round, each pair is overlooked by chance."""
        symbols = list(word)
        while True:
            best, place = -math.inf, -1
            for k in range(len(symbols) - 1):
                score = self.scores.get(symbols[k] + symbols[k + 1])
                if score is not None and score > best and random.random() >= self.alpha:
                    best, place = score, k
            if place < 0:
                return [self.ids.get(symbol, self.subwords.unk) for symbol in symbols]
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]

    def draw_from_unigram(self, word: str, random: Random) -> list[int]:
        """A segmentation in proportion to its probability to the power alpha, drawn from its end."""
        arcs = self.arcs(word)
        ids: list[int] = []
        end = len(word)
        while end:
            into, cumulative = arcs[end - 1]
            end, id = into[min(bisect(cumulative, random.random() * cumulative[-1]), len(into) - 1)]
            ids.append(id)
        return ids[::-1]

    def _arcs(self, word: str) -> list[tuple[list[Arc], list[float]]]:
        """For each end in the word, the last pieces that can stand there, with the running sum of their weights."""
        forward = [0.0]
        arcs = []
        for end in range(1, len(word) + 1):
            into: list[Arc] = []
            weights: list[float] = []
            for start in range(max(0, end - self.longest), end):
                piece = word[start:end]
                if piece in self.ids or start == end - 1:
                    into.append((start, self.ids.get(piece, self.subwords.unk)))
                    weights.append(forward[start] + self.alpha * self.scores.get(piece, UNKNOWN_SCORE))
            highest = max(weights)
            relative = [math.exp(weight - highest) for weight in weights]
            forward.append(highest + math.log(sum(relative)))
            arcs.append((into, list(accumulate(relative))))
        return arcs
