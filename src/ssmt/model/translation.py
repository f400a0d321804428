"""What training, searches and translator ask of a network, whichever it is.

Shapes: B sentences, S source subwords.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ssmt.config import Config
from ssmt.model.body import Body, Memory
from ssmt.model.copies import Units
from ssmt.model.transformer import Encoder
from ssmt.text.batch import Batch
from ssmt.text.vocabulary import BothSides, RowKind

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on


class Loss(NamedTuple):
    """Summed over a batch; whoever trains knows what to divide it by."""

    minimised: Tensor  # what training minimises, regularisation included
    nats: Tensor  # the negative log-probability of the targets


class TranslationModel(nn.Module):
    """An encoder, a decoder, and the probability of a target given its source."""

    encoder: Encoder
    decoder: Body
    ROWS: ClassVar[Mapping[str, RowKind]]  # the weights with a row for each symbol of a kind, by name

    def __init__(self, vocabulary: BothSides, config: Config) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.alignment_weight = config.training.alignment_weight

    def into(self, language: str) -> Self:
        """The same network, asked for one of its languages."""
        other = copy.copy(self)
        other.vocabulary = self.vocabulary.into(language)
        return other

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(self, source: Tensor | None) -> Memory | None:
        """source (B, S); none for targets that stand alone."""
        return None if source is None else self.encoder(source)

    def states(self, batch: Batch) -> Tensor:
        """The decoder's states over whole targets: h_j has read y_<j (Eq. 2). (B, T, D)"""
        return self.decoder.states(batch.previous, self.encode(batch.source))

    def units(self, memory: Memory | None) -> Units | None:
        """What can be copied from the sources, if the network copies."""
        return None

    @abstractmethod
    def log_probability(self, batch: Batch) -> Tensor:
        """log p(y | x) of each target. (B,)"""

    def forward(self, batch: Batch) -> Loss:
        """What training calls."""
        nats = -self.log_probability(batch).sum()
        return Loss(nats, nats)

    def decoded(self, batch: Batch, memory: Memory | None) -> tuple[Tensor, Tensor | float]:
        """The decoder's states over whole targets, and what it costs that the decoder looks elsewhere in the source
        than the batch's alignment says: for each of its plans, the mean cross-entropy of a symbol, once for each
        character. Nothing without an alignment. (B, T, D), ()"""
        if batch.alignment is None:
            return self.decoder.states(batch.previous, memory), 0.0
        states, plans, read = self.decoder.planned_states(batch.previous, memory)
        of_plans = [(batch.alignment * plan).sum() for plan in plans]
        if read is not None:  # the last symbol, which nothing reads
            place = torch.arange(read.shape[1], device=read.device)
            is_last = place == batch.target_lengths.unsqueeze(1) - 1
            of_plans.append((batch.alignment.masked_fill(is_last.unsqueeze(-1), 0.0) * read).sum())
        return states, sum(of_plans) * (-self.alignment_weight * batch.characters / batch.target_lengths.sum())

    def layers_for_int8(self) -> list[str]:
        """The parts, by name, whose linear layers can have weights of 8 bits in decoding."""
        return ["encoder", "decoder"]
