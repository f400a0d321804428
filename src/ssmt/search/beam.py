"""Beam search over anything that can be extended by symbols.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, W symbols, P finished hypotheses kept, T length so far.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.search.job import Hypothesis, Scorer
from ssmt.search.options import SearchOptions

COMPACT_BELOW = 0.75  # the share of a batch's sentences still searched at which the others are dropped
IMPOSSIBLE = NEG_INF / 2  # scores below this are of what cannot be


Identity = Callable[[list[int]], Hashable]  # of a hypothesis, by its symbols


class Finished:
    """The best finished hypotheses of each sentence of a batch; of those with the same identity, the best one."""

    def __init__(self, sentences: int, kept: int, identity: Identity | None = None) -> None:
        self.kept, self.identity = kept, identity
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        ranked = self.hypotheses[sentence]
        if self.identity is not None:
            identity = self.identity(hypothesis.symbols)
            for place, other in enumerate(ranked):
                if self.identity(other.symbols) == identity:
                    if other.rank >= hypothesis.rank:
                        return
                    del ranked[place]
                    break
        ranked.append(hypothesis)
        ranked.sort(key=lambda finished: -finished.rank)
        del ranked[self.kept :]

    def complete(self, sentence: int, n: int, best_open: float) -> bool:
        """No open hypothesis can still come among the n best."""
        ranked = self.hypotheses[sentence]
        return len(ranked) >= n and ranked[n - 1].rank >= best_open


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
