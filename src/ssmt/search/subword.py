"""Beam search over subwords, for the models whose text is cut before training.

A hypothesis is a sequence of subwords. Its characters are those of the text in sentencepiece's notation, in which a
mark stands for each blank and one more in front of the text: the first subword begins with it.

Shapes: B sentences, K beam, N = B*K rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from ssmt.lattice import NEG_INF
from ssmt.model.body import Memory
from ssmt.model.subword import SubwordTransformer
from ssmt.search.job import Request, WritingRequest
from ssmt.search.lexicon_rows import sum_precision
from ssmt.search.recent import Recent
from ssmt.text.batch import padded
from ssmt.text.pieces import Pieces
from ssmt.text.subwords import MARK, TargetSubwords
from ssmt.text.vocabulary import code_points


class SubwordScorer:
    """Prefixes of subwords with their log-probability."""

    def __init__(self, model: SubwordTransformer, memory: Memory | None, beam: int, request: Request) -> None:
        self.model, self.beam = model, beam
        device, target = model.device, model.vocabulary.target
        self.eos = target.eos
        written, self.written_length, self.possible, self.possible_first = _tables(target, device)
        with_mark = replace(
            request, max_length=request.max_length + 1, min_length=request.min_length + (request.min_length > 0)
        )
        self.request = WritingRequest(with_mark, written, self.written_length, beam, self.eos)

        rows = request.sentences * beam
        self.cache = model.decoder.start(memory, request.sentences, beam)
        self.possible_now = self.possible_first
        self.length = torch.zeros(rows, dtype=torch.int64, device=device)  # characters, the mark in front included
        self.total = torch.zeros(rows, 1, dtype=sum_precision(device), device=device)
        self.units = model.units(memory)
        first = request.first_symbols(beam)
        self.recent = Recent(first)
        self._read(first)

    def extensions(self) -> Tensor:
        allowed = self.request.allowed(self.length) & self.possible_now
        self.extended = (self.total + self.next).masked_fill(~allowed, NEG_INF)
        return self.extended

    def advance(self, rows: Tensor, symbols: Tensor) -> None:
        self.total = self.extended[rows, symbols].unsqueeze(1)
        self.length = self.length[rows] + self.written_length[symbols]
        self.possible_now = self.possible
        self.cache.reorder(rows)
        self.recent.reorder(rows)
        self.recent.read(symbols)
        self._read(symbols)

    def select_sentences(self, sentences: Tensor) -> None:
        self.cache.select_sentences(sentences)
        self.request = self.request.select(sentences)
        self.units = None if self.units is None else self.units.select(sentences)

    def _read(self, symbols: Tensor) -> None:
        states = self.model.decoder.step(symbols, self.cache)
        self.next = torch.log_softmax(self.model.logits(states).float(), dim=-1)  # (N, V)
        if self.units is not None:
            assert self.model.copies is not None
            following, by_sentence = (part.view(-1, self.beam, part.shape[1]) for part in (self.next, states))
            recent = self.recent.by_sentence(self.beam)
            self.next = self.model.copies.mixed(following, by_sentence, recent, self.units).flatten(0, 1)


@lru_cache(maxsize=8)
def _tables(target: TargetSubwords | Pieces, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What each subword writes (V, widest) and how much (V,); which can be generated, and which of them first (V,)."""
    never = {target.pad, target.unk, *target.tags.values()}
    specials = {*never, target.eos}
    written = [code_points("" if id in specials else piece) for id, piece in enumerate(target.pieces)]
    length = torch.tensor([len(piece) for piece in written], device=device)
    possible = torch.tensor([id not in never for id in range(len(target))], device=device)
    begins = [id == target.eos or piece.startswith(MARK) for id, piece in enumerate(target.pieces)]
    return padded(written, 0).to(device), length, possible, possible & torch.tensor(begins, device=device)
