"""Beam search over anything that can be extended by symbols.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, W symbols, P finished hypotheses kept, T length so far.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ssmt.lattice import NEG_INF
from ssmt.search.job import Hypothesis, Scorer
from ssmt.search.options import SearchOptions
from ssmt.search.repetition import Repetitions

COMPACT_BELOW = 0.75  # the share of a batch's sentences still searched at which the others are dropped
IMPOSSIBLE = NEG_INF / 2  # scores below this are of what cannot be


Identity = Callable[[list[int]], Hashable]  # of a hypothesis, by its symbols
Places = npt.NDArray[np.int64]


class Finished:
    """The best finished hypotheses of each sentence of a batch; of those with the same identity, the best one."""

    def __init__(self, sentences: int, kept: int, identity: Identity | None = None) -> None:
        self.kept, self.identity = kept, identity
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.best_of: list[dict[Hashable, Hypothesis]] = [{} for _ in range(sentences)]  # by identity

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        ranked = self.hypotheses[sentence]
        if self.identity is not None:
            best_of, identity = self.best_of[sentence], self.identity(hypothesis.symbols)
            if (other := best_of.get(identity)) is not None:
                if other.rank >= hypothesis.rank:
                    return
                ranked[:] = [one for one in ranked if one is not other]
            best_of[identity] = hypothesis
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
    scorer: Scorer, sentences: int, options: SearchOptions, identity: Identity | None = None, repeated: int = 0
) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence, best first. `repeated`: how many symbols in a row, said a second
    time, the options' repetition penalty is for.

    A prefix ends where `</s>` is among the `beam` best extensions. A sentence is complete when no open hypothesis, as
    it stands, ranks above its n-th finished one. Without length penalty that is a proof, because extending a prefix
    never raises its score. With one it is none: what is longer may rank higher in the end, and the first to finish are
    short. So `beam` hypotheses must have finished as well, as in fairseq.
    """
    K, eos = options.beam, scorer.eos
    enough = options.kept if options.length_penalty else options.n_best
    finished = Finished(sentences, options.kept, identity)
    active = list(range(sentences))  # the sentences still searched, by row block
    history = np.zeros((sentences, K, 0), dtype=np.int64)  # (B, K, T) symbols so far
    alive = np.zeros((sentences, K), dtype=np.bool_)  # (B, K) rows that hold a hypothesis; others fill up the beam
    alive[:, 0] = True  # all rows are the same empty prefix
    penalty = options.repetition_penalty
    repetitions = Repetitions(sentences * K, penalty, repeated) if penalty else None
    step = 0
    while active:
        B = len(active)
        scores = scorer.extensions()  # (N, W)
        W = scores.shape[-1]
        if not alive.all():
            scores = scores.masked_fill(torch.from_numpy(~alive).view(-1, 1).to(scores.device), NEG_INF)
        fined = scores if repetitions is None else repetitions.fined(scores)
        best, place = fined.view(B, -1).topk(min(2 * K, K * W), dim=1)
        # The one synchronisation of a step. What is done with a few numbers a sentence is done without a device.
        top = best.cpu().numpy()  # (B, 2K)
        exact = top if repetitions is None else scores.view(B, -1).gather(1, place).cpu().numpy()
        origin, symbol = np.divmod(place.cpu().numpy(), W)
        ends, possible = symbol == eos, top > IMPOSSIBLE
        _collect(finished, active, top, exact, origin, ends & possible, history, options)

        # The K best extensions that go on: false sorts before true, and the sort is stable.
        onward = np.argsort(ends | ~possible, axis=1, kind="stable")[:, :K]
        of_sentence = np.arange(B)[:, None]
        top, origin, symbol = (x[of_sentence, onward] for x in (np.where(ends, NEG_INF, top), origin, symbol))
        best_open = top.max(axis=1).tolist()
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
        rows = origin + of_sentence * K  # (B, K) in the old rows
        alive = top > IMPOSSIBLE
        if len(staying) <= COMPACT_BELOW * B:
            rows, symbol, alive = rows[staying], symbol[staying], alive[staying]
            scorer.select_sentences(torch.tensor(staying, device=scores.device))
            active = [active[row] for row in staying]
        elif len(staying) < B:  # complete sentences idle until there are enough of them to be worth moving the others
            idle = np.ones(B, dtype=np.bool_)
            idle[staying] = False
            alive[idle] = False
        history = np.concatenate([history.reshape(B * K, step)[rows], symbol[:, :, None]], axis=2)
        flat_rows, flat_symbols = rows.reshape(-1), symbol.reshape(-1)
        if repetitions is not None:
            repetitions.advance(flat_rows, flat_symbols)
        scorer.advance(*(torch.from_numpy(x).to(scores.device) for x in (flat_rows, flat_symbols)))
        step += 1
    return finished.hypotheses


def in_place_of_their_origin(origin: Places, *fields: Any) -> list[Any]:
    """Order the K hypotheses of each sentence so that as many as possible stand in the row they come from: what a row
    keeps (its cache) then need not be copied. The first child of a row takes its place, others take free ones.

    origin and fields (B, K); the fields come back reordered."""
    B, K = origin.shape
    if K == 1:
        return list(fields)
    of_sentence = np.arange(B)[:, None]
    first = ~((origin[:, :, None] == origin[:, None, :]) & np.tri(K, k=-1, dtype=np.bool_)).any(axis=2)
    taken = np.zeros((B, K + 1), dtype=np.bool_)
    taken[of_sentence, np.where(first, origin, K)] = True
    free = taken[:, :K].argsort(axis=1, kind="stable")  # free rows come first
    place = np.where(first, origin, free[of_sentence, np.maximum((~first).cumsum(axis=1) - 1, 0)])
    order = np.empty_like(place)
    order[of_sentence, place] = np.arange(K)
    return [field[of_sentence, order] for field in fields]


def _collect(
    finished: Finished,
    active: list[int],
    top: npt.NDArray[np.float64],
    exact: npt.NDArray[np.float64],
    origin: Places,
    ended: npt.NDArray[np.bool_],
    history: Places,
    options: SearchOptions,
) -> None:
    """Put what ended among the K best extensions with the finished hypotheses. `exact`: scores without fines."""
    for row, column in np.argwhere(ended[:, : options.beam]).tolist():  # few: most steps end nothing
        symbols = history[row, origin[row, column]].tolist()
        rank = penalised(float(top[row, column]), len(symbols) + 1, options.length_penalty)
        finished.add(active[row], Hypothesis(symbols, float(exact[row, column]), rank))
