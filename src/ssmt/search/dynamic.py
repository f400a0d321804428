"""Dynamic decoding: Algorithm 1 and Appendix A of the paper, for any beam size.

Two beams a sentence: the hypotheses of `con` have an open last segment, those of `end` have just closed it. Each
step gives every hypothesis of both one more character, once as a continuation and once as an end (the four cases
con-con, end-con, con-end, end-end); the best continuations are the next `con`, the best ends the next `end`. Whether
a character ends its segment is thus decided one character later.

A hypothesis is a segmented string: the same string can stand in a beam several times.

`stop="paper"` is the original implementation with all its habits: it stops once K hypotheses have ended, however bad,
ranks them by their last segment alone, and writes `<s>` or `<unk>` where its models give them probability.

Shapes: B sentences, K beam, R = 2K rows a sentence (`con`, then `end`), N = B*R, C alphabet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.ssmt import SSMT
from ssmt.search.beam import IMPOSSIBLE, Finished
from ssmt.search.job import Hypothesis, Job
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.open_segments import OpenSegments, SegmentSearch, generable
from ssmt.search.recent import Recent


@dataclass(frozen=True)
class Pool:
    """The best extensions of one kind for each sentence. (B, 2K) each"""

    rank: Tensor  # normalised, what the beams go by
    last: Tensor  # log-probability of the segment under way (`con`) or just closed (`end`)
    origin: Tensor  # row within the sentence
    character: Tensor

    def select(self, columns: Tensor) -> Pool:
        return Pool(*(x.gather(1, columns) for x in (self.rank, self.last, self.origin, self.character)))


def dynamic_search(job: Job) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence, best first."""
    assert isinstance(job.model, SSMT)
    return _DynamicSearch(job, job.model).run()


class _DynamicSearch:
    def __init__(self, job: Job, model: SSMT) -> None:
        self.model, self.request, self.options = model, job.request, job.options
        options = job.options
        alphabet = model.vocabulary.alphabet
        self.K, self.C, self.L = options.beam, len(alphabet), model.segments.longest
        self.eos = alphabet.eos
        self.B = job.request.sentences
        rows = self.B * 2 * self.K
        self.search = SegmentSearch(model, rows, job.memory)
        self.possible = generable(alphabet).to(model.device)
        if options.stop == "paper" and not self.search.proper:
            self.possible = torch.ones_like(self.possible)
            self.possible[[alphabet.pad, alphabet.eom]] = False
        self.cache = model.decoder.start(job.memory, self.B, 2 * self.K)
        self.active = list(range(self.B))
        self.finished = Finished(self.B, options.kept)

        device = model.device
        previous = job.request.first_symbols(2 * self.K)
        first = torch.arange(self.B * self.K, device=device)  # all rows are the same
        states = model.decoder.step(previous, self.cache)[first * 2]
        self.recent = Recent(previous)
        begun = self.search.begin(states, self.recent.symbols[first * 2], torch.arange(self.B, device=device))
        self.open = begun.select(first.repeat_interleave(2))
        self.closed = torch.zeros(
            rows, dtype=sum_precision(device), device=device
        )  # log-probability of closed segments
        self.just_closed = torch.zeros_like(self.closed)  # of the segment closed last, where that was just now
        self.segments = torch.zeros(rows, dtype=torch.int64, device=device)  # how many are closed
        self.characters = torch.zeros(rows, 0, dtype=torch.int64, device=device)  # (N, T)
        self.ends = torch.zeros(rows, 0, dtype=torch.bool, device=device)  # (N, T) a segment ends here
        self.alive = torch.zeros(self.B, 2 * self.K, dtype=torch.bool, device=device)
        self.alive[:, -1] = True  # one empty hypothesis, all segments closed

    def run(self) -> list[list[Hypothesis]]:
        step = 0
        while self.active:
            con, end = self._pools(step)
            self._finish(end, step)
            going_on = self._onward(end)
            if not self._keep_open_sentences(con, going_on):
                break
            step += 1
        return self.finished.hypotheses

    def _pools(self, step: int) -> tuple[Pool, Pool]:
        """Appendix A: the scores of every character as a continuation and as an end, and the best 2K of each."""
        is_word, open = self.search.is_word, self.open
        allowed = self.request.allowed(step, self.possible, self.eos, 2 * self.K)
        if step == 0 and self.options.stop == "paper":
            allowed = allowed.index_fill(1, torch.tensor([self.eos], device=allowed.device), False)
        inside = (open.length > 0).unsqueeze(1)
        may_end = allowed & (is_word | ~inside)
        may_go_on = allowed & is_word & (open.length < self.L - 1).unsqueeze(1)
        con, most = self.search.extended(open)  # Eq. 8 (end-con) and Eq. 9 (con-con); bounds of Eq. 6 and 7
        con.masked_fill_(~may_go_on, NEG_INF)
        most.masked_fill_(~may_end, NEG_INF)
        return self._best(con, step, ends=False), self._best_ends(most, step)

    def _best_ends(self, most: Tensor, step: int) -> Pool:
        """Eq. 6 (end-end) and Eq. 7 (con-end): the 2K best ends, exactly, without asking the character model for the
        end after every character of the alphabet.

        An end has at most what it would have if `<eom>` were certain. The 2K that have most by that bound are looked
        at first; what cannot have more than the least of them is not looked at. most (N, C)
        """
        if self.search.characters is None:
            return self._best(most, step, ends=True)
        bound = self._rank(most, step, ends=True)  # (B, R*C)
        first = bound.topk(2 * self.K, dim=1).indices
        last = torch.full_like(bound, NEG_INF, dtype=most.dtype)
        looked_at = torch.zeros_like(bound, dtype=torch.bool).scatter_(1, first, True) & (bound > IMPOSSIBLE)
        self._look_at(looked_at, last)
        least = self._rank(last, step, ends=True).gather(1, first).amin(dim=1, keepdim=True)
        self._look_at((bound > least) & ~looked_at, last)
        return self._best(last, step, ends=True)

    def _look_at(self, which: Tensor, last: Tensor) -> None:
        """Fill in the log-probability of the segments that end, where they are wanted. (B, R*C) both"""
        place = which.view(-1).nonzero().squeeze(-1)  # a synchronisation
        if len(place):
            last.view(-1)[place] = self.search.endings(self.open, place // self.C, place % self.C)

    def _best(self, last: Tensor, step: int, ends: bool) -> Pool:
        rank = self._rank(last, step, ends)
        best, place = rank.topk(2 * self.K, dim=1)
        return Pool(best, last.view(rank.shape).gather(1, place), place // self.C, place % self.C)

    def _rank(self, last: Tensor, step: int, ends: bool) -> Tensor:
        """What extensions with these last segments (B*R*C) are ranked by: the more, the higher. (B, R*C)"""
        last = last.view(len(self.active), 2 * self.K, self.C).masked_fill(~self.alive.unsqueeze(-1), NEG_INF)
        total = self.closed.view(*self.alive.shape, 1) + last
        if self.options.average_next:
            mean = (self.just_closed.view(*self.alive.shape, 1) + last) / 2
            total = torch.where(self._follows().view(*self.alive.shape, 1), total - mean, total)
        rank = total / self._normaliser(step, ends).view(*self.alive.shape, 1)
        return torch.where(last > IMPOSSIBLE, rank, NEG_INF).flatten(1)

    def _normaliser(self, step: int, ends: bool) -> Tensor:
        """By what the scores of a hypothesis are divided: its segments with the one under way, or its characters."""
        averaged = self._follows().long() if self.options.average_next else 0  # counts for one segment less
        if self.options.normalise == "segments":
            return self.segments + 1 - averaged
        if self.options.normalise == "characters":
            # As in the original: characters and boundaries are counted, the sentence's beginning among them.
            return self.segments + 1 + step + int(ends) - 2 * averaged
        return torch.ones_like(self.segments)

    def _follows(self) -> Tensor:
        """Which rows begin a segment after another one. (N,)"""
        return (self.open.length == 0) & (self.segments > 0)

    def _finish(self, end: Pool, step: int) -> None:
        """Ends by `</s>` among the first K of the pool are finished hypotheses."""
        K, first = self.K, slice(0, self.K)
        ended = ((end.character[:, first] == self.eos) & (end.rank[:, first] > IMPOSSIBLE)).nonzero().tolist()
        for sentence, column in ended:
            if self.options.stop == "paper" and self._complete(self.active[sentence], NEG_INF):
                continue
            row = sentence * 2 * K + int(end.origin[sentence, column])
            last = float(end.last[sentence, column])
            rank = float(end.rank[sentence, column])
            if self.options.stop == "paper":  # the original ranks by the last segment alone
                rank = last / self._original_final_normaliser(int(self.segments[row]) + 1)
            boundaries = (self.ends[row].nonzero().squeeze(-1) + 1).tolist()
            self.finished.add(
                self.active[sentence],
                Hypothesis(self.characters[row].tolist(), float(self.closed[row]) + last, rank, boundaries),
            )

    def _original_final_normaliser(self, segments: int) -> int:
        by = self.options.final_normalise or self.options.normalise
        return {"segments": segments, "characters": segments + 1, "none": 1}[by]

    def _onward(self, end: Pool) -> Pool:
        """The first K of the pool that do not end the sentence."""
        order = torch.sort((end.character == self.eos).byte(), dim=1, stable=True).indices[:, : self.K]
        kept = end.select(order)
        rank = kept.rank.masked_fill(kept.character == self.eos, NEG_INF)
        return Pool(rank, kept.last, kept.origin, kept.character)

    def _keep_open_sentences(self, con: Pool, end: Pool) -> bool:
        """Advance the sentences whose search goes on; false when none does."""
        K = self.K
        con = con.select(torch.arange(K, device=con.rank.device).expand(len(self.active), K))
        rank = torch.cat([con.rank, end.rank], dim=1)  # (B, R)
        best_open = rank.amax(dim=1).tolist()
        staying = [
            row
            for row, sentence in enumerate(self.active)
            if best_open[row] > IMPOSSIBLE and not self._complete(sentence, best_open[row])
        ]
        if not staying:
            return False
        kept = torch.tensor(staying, device=rank.device)
        origin = torch.cat([con.origin, end.origin], dim=1)
        rows = (torch.arange(len(self.active), device=rank.device).unsqueeze(1) * 2 * K + origin)[kept].view(-1)
        character = torch.cat([con.character, end.character], dim=1)[kept].view(-1)
        if len(staying) < len(self.active):
            self.active = [self.active[row] for row in staying]
            self.cache.select_sentences(kept)
            self.request = self.request.select(kept)
        self.alive = (rank > IMPOSSIBLE)[kept]
        self._advance(rows, character, end.last[kept])
        return True

    def _complete(self, sentence: int, best_open: float) -> bool:
        if self.options.stop == "paper":
            return len(self.finished.hypotheses[sentence]) >= self.K
        return self.finished.complete(sentence, self.options.n_best, best_open)

    def _advance(self, rows: Tensor, character: Tensor, last: Tensor) -> None:
        """Every row reads its character; those of `end` close their segment and begin the next."""
        closes = torch.zeros(len(self.active), 2 * self.K, dtype=torch.bool, device=rows.device)
        closes[:, self.K :] = True
        closes = closes.view(-1)
        closed = torch.zeros(len(self.active), 2 * self.K, dtype=self.closed.dtype, device=rows.device)
        closed[:, self.K :] = torch.where(last > IMPOSSIBLE, last, 0.0)
        self.just_closed = closed.view(-1)
        self.closed = self.closed[rows] + self.just_closed
        self.segments = self.segments[rows] + closes.long()
        self.characters = torch.cat([self.characters[rows], character.unsqueeze(1)], dim=1)
        self.ends = torch.cat([self.ends[rows], closes.unsqueeze(1)], dim=1)

        going_on, closing = (~closes).nonzero().squeeze(-1), closes.nonzero().squeeze(-1)
        gone_on = self.search.read(self.open.select(rows[going_on]), character[going_on])
        self.cache.reorder(rows)
        self.recent.reorder(rows)
        self.recent.read(character)
        states = self.model.decoder.step(character, self.cache)
        sentences = torch.tensor(self.active, device=rows.device)
        begun = self.search.begin(states[closing], self.recent.symbols[closing], sentences, beside=gone_on)
        place = torch.cat([going_on, closing]).argsort()  # of each row among those that went on and those that began
        self.open = OpenSegments.cat(gone_on, begun).select(place)
