"""What training, searches and translator ask of a model, whichever it is.

Shapes: B sentences, S source subwords.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ssmt.model.transformer import Decoder, Encoder, Memory
from ssmt.text.corpus import Batch
from ssmt.text.vocabulary import BothSides

Search = Literal["marginal", "dynamic", "mixture", "beam", "sample"]
ScoreType = Literal["marginal", "path", "tokens"]


class Loss(NamedTuple):
    minimised: Tensor  # what training minimises, regularisation included
    nats: Tensor  # the negative log-probability of the targets


class TranslationModel(nn.Module):
    """An encoder, a decoder, and the probability of a target given its source."""

    encoder: Encoder
    decoder: Decoder

    def __init__(self, vocabulary: BothSides) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(self, source: Tensor) -> Memory:
        """source (B, S)"""
        memory: Memory = self.encoder(source)
        return memory

    @abstractmethod
    def log_probability(self, batch: Batch) -> Tensor:
        """log p(y | x) of each target. (B,)"""

    def losses(self, batch: Batch) -> Loss:
        """Summed over the batch."""
        nats = -self.log_probability(batch).sum()
        return Loss(nats, nats)

    def forward(self, batch: Batch) -> Loss:
        return self.losses(batch)
