"""Beam search over subwords, for the baselines.

Shapes: B sentences, K beam, N = B*K rows, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.subword import SubwordTransformer
from ssmt.model.transformer import Memory
from ssmt.search.beam import Limits
from ssmt.search.open_segments import sum_precision


class SubwordScorer:
    """Prefixes of subwords with their log-probability. The limits count subwords."""

    def __init__(self, model: SubwordTransformer, memory: Memory, beam: int, limits: Limits) -> None:
        self.model, self.beam, self.limits = model, beam, limits
        target = model.vocabulary.target
        self.eos = target.eos
        self.possible = torch.ones(len(target), dtype=torch.bool, device=model.device)
        self.possible[[target.pad, target.unk]] = False
        self.cache = model.decoder.start(memory, beam)
        self.length = 0
        rows = memory.mask.shape[0] * beam
        self.total = torch.zeros(rows, 1, dtype=sum_precision(model.device), device=model.device)
        self._read(torch.full((rows,), self.eos, device=model.device))

    def extensions(self) -> Tensor:
        allowed = self.limits.allowed(self.length, self.possible, self.eos)
        scores = (self.total + self.next).masked_fill(~allowed.repeat_interleave(self.beam, dim=0), NEG_INF)
        self.extended = scores
        return scores

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.total = self.extended[rows, symbols].unsqueeze(1)
        self.length += 1
        self.cache.reorder(rows)
        self._read(symbols)

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.limits = self.limits.select(sentences)

    def _read(self, symbols: Tensor) -> None:
        states = self.model.decoder.step(symbols, self.cache)
        self.next = torch.log_softmax(self.model.logits(states).float(), dim=-1)  # (N, V)
