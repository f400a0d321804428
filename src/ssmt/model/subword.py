"""The paper's baselines: a Transformer over subwords that were cut before training (BPE, Unigram LM).

Shapes: B sentences, T target subwords with `</s>`, V vocabulary, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import Config
from ssmt.model.transformer import Decoder, Encoder, Memory
from ssmt.text.corpus import Batch
from ssmt.text.vocabulary import SubwordVocabulary


class SubwordTransformer(nn.Module):
    def __init__(self, vocabulary: SubwordVocabulary, config: Config) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.smoothing = config.training.label_smoothing
        source, target = vocabulary.source, vocabulary.target
        self.encoder = Encoder(len(source), config.network, source.pad)
        self.decoder = Decoder(len(target), config.network, target.pad, target.eos)
        if vocabulary.shared:
            self.encoder.embedding.tokens = self.decoder.embedding.tokens

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(self, source: Tensor) -> Memory:
        memory: Memory = self.encoder(source)
        return memory

    def logits(self, states: Tensor) -> Tensor:
        """The output layer is the embedding of the target's subwords. (..., D) -> (..., V)"""
        return F.linear(states, self.decoder.embedding.tokens.weight)

    def log_probability(self, batch: Batch) -> Tensor:
        """log p of each target in its one segmentation. (B,)"""
        return -self._cross_entropy(batch, 0.0).sum(dim=1)

    def training_loss(self, batch: Batch) -> Tensor:
        return self._cross_entropy(batch, self.smoothing).sum()

    def _cross_entropy(self, batch: Batch, smoothing: float) -> Tensor:
        """Of every subword; 0 on padding. (B, T)"""
        states = self.decoder.states(batch.target, self.encode(batch.source))
        pad = self.vocabulary.target.pad
        return F.cross_entropy(
            self.logits(states).float().transpose(1, 2),
            batch.target,
            ignore_index=pad,
            label_smoothing=smoothing,
            reduction="none",
        )
