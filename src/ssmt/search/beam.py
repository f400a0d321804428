"""What all searches share: options, hypotheses, and beam search over anything that can be extended by symbols.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, W symbols, P finished hypotheses kept, T length so far.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF

COMPACT_BELOW = 0.75  # the share of a batch's sentences still searched at which the others are dropped
IMPOSSIBLE = NEG_INF / 2  # scores below this are of what cannot be


@dataclass(frozen=True)
class SearchOptions:
    beam: int = 5
    n_best: int = 1
    # A finished hypothesis is ranked by score / length ** penalty; none given: by what is usual for the search.
    length_penalty: float | None = None
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

    @cached_property
    def first_end(self) -> int:
        """The position at which the first sentence must end."""
        return int(torch.maximum(self.max_length, self.prefix_length).min())

    def allowed(self, position: int, possible: Tensor, eos: int, rows: int) -> Tensor:
        """Which characters may come at a position, of those possible at all (W,), with so many rows a sentence.
        (N, W), or (1, W) where all rows agree"""
        if self.min_length <= position < self.first_end and position >= self.prefix.shape[1]:
            return possible.unsqueeze(0)  # nearly always: no limit is near
        return self._allowed(position, possible, eos).repeat_interleave(rows, dim=0)

    def _allowed(self, position: int, possible: Tensor, eos: int) -> Tensor:
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


class WritingLimits:
    """The same for symbols that write several characters each (none, for some)."""

    def __init__(self, limits: Limits, written: Tensor, written_length: Tensor, beam: int, eos: int) -> None:
        """written (W, widest): the characters of each symbol, padded; written_length (W,)."""
        self.limits, self.written, self.written_length, self.beam, self.eos = limits, written, written_length, beam, eos

    def select(self, sentences: Tensor) -> WritingLimits:
        return WritingLimits(self.limits.select(sentences), self.written, self.written_length, self.beam, self.eos)

    def allowed(self, length: Tensor) -> Tensor:
        """Which symbols keep to the limits after `length` (N,) characters. (N, W), or (1, W) where all rows agree"""
        W, width = self.written.shape
        prefix_length = self.limits.prefix_length.repeat_interleave(self.beam)
        most = torch.maximum(self.limits.max_length.repeat_interleave(self.beam), prefix_length)
        finishes = (length >= prefix_length) & ((length >= self.limits.min_length) | (length >= most))
        if finishes.all() and (length + width <= most).all():  # nearly always: no limit is near
            return torch.ones(1, W, dtype=torch.bool, device=length.device)
        after = length.unsqueeze(1) + self.written_length  # (N, W) characters once the symbol is written
        allowed = after <= most.unsqueeze(1)
        if (length < prefix_length).any():
            place = length.unsqueeze(1) + torch.arange(width, device=length.device)  # (N, width)
            prefix = self.limits.prefix.repeat_interleave(self.beam, dim=0)
            wanted = prefix.gather(1, place.clamp(max=prefix.shape[1] - 1))
            bound = place < prefix_length.unsqueeze(1)
            for column in range(width):  # (N, W) a column: no (N, W, width) tensor
                writes = column < self.written_length
                differs = self.written[:, column].expand(len(place), W) != wanted[:, column : column + 1]
                allowed &= ~(differs & writes & bound[:, column : column + 1])
        allowed[:, self.eos] = finishes
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


Identity = Callable[[list[int]], Hashable]  # of a hypothesis, by its symbols


class Finished:
    """The best finished hypotheses of each sentence of a batch; of those with the same identity, the best one."""

    def __init__(self, sentences: int, kept: int, identity: Identity | None = None) -> None:
        self.kept, self.identity = kept, identity
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        found = self.hypotheses[sentence]
        if self.identity is not None:
            own = self.identity(hypothesis.symbols)
            for place, other in enumerate(found):
                if self.identity(other.symbols) == own:
                    if other.rank >= hypothesis.rank:
                        return
                    del found[place]
                    break
        found.append(hypothesis)
        found.sort(key=lambda one: -one.rank)
        del found[self.kept :]

    def complete(self, sentence: int, n: int, best_open: float) -> bool:
        """No open hypothesis can still come among the n best."""
        found = self.hypotheses[sentence]
        return len(found) >= n and found[n - 1].rank >= best_open


def penalised(score: float, length: int, penalty: float | None) -> float:
    """Length includes `</s>`."""
    return score / float(length ** (penalty or 0.0))


def beam_search(
    scorer: Scorer, sentences: int, options: SearchOptions, identity: Identity | None = None
) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence, best first.

    A prefix ends where `</s>` is among the `beam` best extensions. A sentence is complete when no open hypothesis, as
    it stands, ranks above its n-th finished one. Without length penalty that is a proof, because extending a prefix
    never raises its score. With one it is none: what is longer may rank higher in the end, and the first to finish are
    short. So `beam` hypotheses must have finished as well, as in fairseq.
    """
    K, eos = options.beam, scorer.eos
    enough = options.kept if options.length_penalty else options.n_best
    finished = Finished(sentences, options.kept, identity)
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
            and not (
                len(finished.hypotheses[sentence]) >= enough
                and finished.complete(
                    sentence, options.n_best, penalised(best_open[row], step + 1, options.length_penalty)
                )
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
    if K == 1:
        return list(fields)
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
