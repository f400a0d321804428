"""What all searches share: options, hypotheses, and beam search over anything that can be extended by symbols.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, W symbols, P finished hypotheses kept, T length so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF

ScoreType = Literal["marginal", "path", "tokens"]
COMPACT_BELOW = 0.75  # the share of a batch's sentences still searched at which the others are dropped
IMPOSSIBLE = NEG_INF / 2  # scores below this are of what cannot be


@dataclass(frozen=True)
class SearchOptions:
    beam: int = 5
    n_best: int = 1
    length_penalty: float = 0.0  # a finished hypothesis is ranked by score / length ** penalty
    min_length: int = 0  # characters
    normalise: Literal["segments", "characters", "none"] = "segments"  # of dynamic decoding
    stop: Literal["safe", "paper"] = "safe"  # of dynamic decoding
    temperature: float = 1.0  # of sampling
    # What else the original's dynamic decoding can do: rank finished hypotheses by another normalisation (none given:
    # the same), and average the score of a segment that begins with that of the segment before it.
    final_normalise: Literal["segments", "characters", "none"] | None = None
    average_next: bool = False

    @property
    def kept(self) -> int:
        """Finished hypotheses to keep."""
        return max(self.beam, self.n_best)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    symbols: list[int]  # without `</s>`
    score: float  # natural log-probability; of what, the search says
    rank: float  # what it was ranked by
    ends: list[int] | None = None  # after how many characters each segment ends, where the search decides that


@dataclass(frozen=True)
class Limits:
    """What the output of each sentence of a batch must keep to, in characters."""

    max_length: Tensor  # (B,) without `</s>`
    min_length: int
    prefix: Tensor  # (B, P) what the output must begin with, padded
    prefix_length: Tensor  # (B,)

    def select(self, sentences: Tensor) -> Limits:
        lengths = self.max_length[sentences], self.min_length
        return Limits(*lengths, self.prefix[sentences], self.prefix_length[sentences])

    def allowed(self, position: int, possible: Tensor, eos: int) -> Tensor:
        """Which characters may come at a position of each sentence, of those possible at all. (W,) -> (B, W)"""
        allowed = possible.repeat(len(self.max_length), 1)
        if position < self.min_length:
            allowed[:, eos] = False
        only_end = position >= torch.maximum(self.max_length, self.prefix_length)
        allowed &= ~only_end.unsqueeze(1)
        allowed[:, eos] |= only_end
        if position < self.prefix.shape[1]:
            forced = torch.zeros_like(allowed).scatter_(1, self.prefix[:, position : position + 1], True)
            allowed = torch.where((position < self.prefix_length).unsqueeze(1), forced, allowed)
        return allowed


class Scorer(Protocol):
    """A model as beam search sees it: N rows, each a prefix that can be extended by one of W symbols."""

    eos: int

    def extensions(self) -> Tensor:
        """The score of every row's prefix with every symbol, NEG_INF for what may not follow it; exact for `eos`,
        which finishes it. (N, W)"""

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        """The new row i is the old `rows[i]` with one more symbol."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Go on with these sentences only; called just before `advance`, whose rows still count the old ones."""


class Finished:
    """The best finished hypotheses of each sentence of a batch."""

    def __init__(self, sentences: int, kept: int) -> None:
        self.kept = kept
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        found = self.hypotheses[sentence]
        found.append(hypothesis)
        found.sort(key=lambda one: -one.rank)
        del found[self.kept :]

    def complete(self, sentence: int, n: int, best_open: float) -> bool:
        """No open hypothesis can still come among the n best."""
        found = self.hypotheses[sentence]
        return len(found) >= n and found[n - 1].rank >= best_open


def penalised(score: float, length: int, penalty: float) -> float:
    """Length includes `</s>`."""
    return score / float(length**penalty)


def beam_search(scorer: Scorer, sentences: int, options: SearchOptions) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence, best first.

    A prefix ends where `</s>` is among the `beam` best extensions. A sentence is complete when no open hypothesis, as
    it stands, ranks above its n-th finished one; without length penalty that is a proof, because extending a prefix
    never raises its score.
    """
    K, eos = options.beam, scorer.eos
    finished = Finished(sentences, options.kept)
    active = list(range(sentences))  # the sentences still searched, by row block
    history: Tensor | None = None  # (B, K, T) symbols so far
    alive: Tensor | None = None  # (B, K) rows that hold a hypothesis; others fill up a beam with too few
    step = 0
    while active:
        B = len(active)
        scores = scorer.extensions()  # (N, W)
        W = scores.shape[-1]
        scores = scores.view(B, K, W)
        if alive is None:
            scores[:, 1:] = NEG_INF  # all rows are the same empty prefix
        else:
            scores = scores.masked_fill(~alive.unsqueeze(-1), NEG_INF)
        top, place = scores.view(B, -1).topk(min(2 * K, K * W), dim=1)  # (B, 2K)
        origin, symbol = place // W, place % W
        ends = symbol == eos
        _collect(finished, active, top, origin, ends, history, step, options)

        # The K best extensions that go on: false sorts before true, and the sort is stable.
        onward = torch.sort((ends | (top < IMPOSSIBLE)).byte(), dim=1, stable=True).indices[:, :K]
        top, origin, symbol = (x.gather(1, onward) for x in (top.masked_fill(ends, NEG_INF), origin, symbol))
        best_open = top.amax(dim=1).tolist()  # a synchronisation a step: which sentences are complete
        staying = [
            row
            for row, sentence in enumerate(active)
            if best_open[row] > IMPOSSIBLE
            and not finished.complete(
                sentence, options.n_best, penalised(best_open[row], step + 1, options.length_penalty)
            )
        ]
        if not staying:
            break
        top, origin, symbol = in_place_of_their_origin(origin, top, origin, symbol)
        rows = torch.arange(B, device=top.device).unsqueeze(1) * K + origin  # (B, K) in the old rows
        alive = top > IMPOSSIBLE
        kept = torch.tensor(staying, device=top.device)
        if len(staying) <= COMPACT_BELOW * B:
            rows, symbol, alive = rows[kept], symbol[kept], alive[kept]
            scorer.select_sentences(kept)
            active = [active[row] for row in staying]
        elif len(staying) < B:  # complete sentences idle until there are enough of them to be worth moving the others
            alive &= torch.zeros(B, 1, dtype=torch.bool, device=top.device).index_fill_(0, kept, True)
        read = symbol.unsqueeze(-1)
        history = read if history is None else torch.cat([history.flatten(0, 1)[rows], read], dim=2)
        scorer.advance(rows.view(-1), symbol.reshape(-1))
        step += 1
    return finished.hypotheses


def in_place_of_their_origin(origin: Tensor, *fields: Tensor) -> list[Tensor]:
    """Order the K hypotheses of each sentence so that as many as possible stand in the row they come from: what a row
    keeps (its cache) then need not be copied. The first child of a row takes its place, others take free ones.

    origin and fields (B, K); the fields come back reordered."""
    B, K = origin.shape
    same = origin.unsqueeze(2) == origin.unsqueeze(1)  # (B, K, K)
    first = ~(same & torch.ones(K, K, dtype=torch.bool, device=origin.device).tril(-1)).any(dim=2)
    taken = torch.zeros(B, K + 1, dtype=torch.int8, device=origin.device)
    taken.scatter_(1, torch.where(first, origin, K), 1)
    free = torch.sort(taken[:, :K], dim=1, stable=True).indices  # free rows come first
    place = torch.where(first, origin, free.gather(1, ((~first).cumsum(dim=1) - 1).clamp(min=0)))
    return [torch.empty_like(field).scatter_(1, place, field) for field in fields]


def _collect(
    finished: Finished,
    active: list[int],
    top: Tensor,
    origin: Tensor,
    ends: Tensor,
    history: Tensor | None,
    step: int,
    options: SearchOptions,
) -> None:
    """Put what ended among the K best extensions with the finished hypotheses."""
    K = options.beam
    ended = (ends[:, :K] & (top[:, :K] > IMPOSSIBLE)).nonzero().tolist()
    for row, column in ended:  # few: most steps end nothing
        score = top[row, column].item()
        symbols = [] if history is None else history[row, origin[row, column]].tolist()
        rank = penalised(score, step + 1, options.length_penalty)
        finished.add(active[row], Hypothesis(symbols, score, rank))
