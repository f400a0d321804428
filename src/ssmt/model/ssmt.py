"""Subword Segmental Machine Translation: the model of Meyer and Buys (2023), in the paper's order.

The source, as BPE subwords, is encoded; a decoder reads the target as characters; from its state before character j
the probability of every segment that starts at j is a mixture of a character model and a lexicon; and the lattice sums
over all segmentations.

Shapes: B sentences, S source subwords, T target characters with `</s>`, L segment lengths, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ssmt import lattice
from ssmt.config import Config, NetworkConfig
from ssmt.model.body import Body, Memory
from ssmt.model.copies import Units
from ssmt.model.layers import Embedding
from ssmt.model.ngrams import NgramInputs
from ssmt.model.segments import SegmentModel
from ssmt.model.transformer import Decoder, Encoder
from ssmt.model.translation import Loss, TranslationModel
from ssmt.model.words import WordDecoder
from ssmt.model.words_first import WordsFirstDecoder
from ssmt.text.batch import Batch
from ssmt.text.vocabulary import RowKind, Vocabulary


class SSMT(TranslationModel):
    vocabulary: Vocabulary
    ROWS: ClassVar[Mapping[str, RowKind]] = {
        "encoder.embedding.tokens.weight": "source",
        "encoder.embedding.nested.vectors.weight": "nested",
        "decoder.embedding.tokens.weight": "target",
        "decoder.embedding.ngrams.entries.weight": "ngrams",
        "segments.characters.output.weight": "target",
        "segments.characters.output.bias": "target",
        "segments.entries.weight": "entries",
        "segments.entries.bias": "entries",
        "segments.classes.logits.weight": "target",
        "segments.classes.logits.bias": "target",
        "segments.copies.pointer.bias": "copied",
    }

    def __init__(self, vocabulary: Vocabulary, config: Config) -> None:
        super().__init__(vocabulary, config)
        network = config.network
        self.encoder = Encoder(vocabulary.source, network)
        ngrams = NgramInputs(vocabulary.lexicon, network.width) if network.ngram_inputs else None
        embedding = Embedding(len(vocabulary.alphabet), network, vocabulary.alphabet.pad, ngrams)
        self.decoder = self.body(embedding, vocabulary, network)
        self.segments = SegmentModel(vocabulary, network, config.text.longest_segment)

    @staticmethod
    def body(embedding: Embedding, vocabulary: Vocabulary, config: NetworkConfig) -> Body:
        """The decoder: all its layers over characters, those in the middle over words, or all but the last."""
        kind = SSMT.body_kind(config)
        if not issubclass(kind, WordsFirstDecoder | WordDecoder):
            return kind(embedding, config)
        closes = torch.from_numpy(vocabulary.alphabet.is_blank)  # what ends a target closes its last word for nobody
        return kind(embedding, closes, config)

    @staticmethod
    def body_kind(config: NetworkConfig) -> type[Decoder]:
        if not config.word_layers:
            return Decoder
        return WordsFirstDecoder if config.words_first else WordDecoder

    @property
    def character_embedding(self) -> Tensor:
        """Characters as the decoder and the character model see them. (C, D)"""
        return self.decoder.embedding.vectors()

    def units(self, memory: Memory | None) -> Units | None:
        copies = self.segments.copies
        return None if copies is None or memory is None else copies.units(memory)

    def lattice(self, batch: Batch) -> Tensor:
        """The score of every segment of every target. (B, T, L)"""
        return self._lattice(batch)[0]

    def _lattice(self, batch: Batch) -> tuple[Tensor, Tensor | float]:
        """The same, and what the decoder's attention costs (`decoded`)."""
        memory = self.encode(batch.source)
        states, guidance = self.decoded(batch, memory)  # h_j has read y_<j                                   Eq. 2
        units = self.units(memory)
        scores: Tensor = self.segments(  # p(s | y_<j, x)                                                     Eq. 3
            batch.target, batch.target_lengths, batch.previous, states, self.character_embedding, units
        )
        if not self.training and scores.device.type != "mps":
            scores = scores.double()  # a reported score sums hundreds of numbers; training needs no such care
        return scores, guidance

    def log_probability(self, batch: Batch) -> Tensor:
        """log p(y | x): the sum over all segmentations of each target (Eq. 4). (B,)"""
        return lattice.marginal(self.lattice(batch), batch.target_lengths)

    def forward(self, batch: Batch) -> Loss:
        scores, guidance = self._lattice(batch)
        nats = -lattice.marginal(scores, batch.target_lengths).sum()
        return Loss(nats + guidance, nats)

    def layers_for_int8(self) -> list[str]:
        """The character model is small, and stays as it is."""
        return [*super().layers_for_int8(), *(["segments.entries"] if self.segments.entries is not None else [])]
