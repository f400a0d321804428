"""Subword Segmental Machine Translation: the model of Meyer and Buys (2023), in the paper's order.

The source, as BPE subwords, is encoded; a decoder reads the target as characters; from its state before character j
the probability of every segment that starts at j is a mixture of a character model and a lexicon; and the lattice sums
over all segmentations.

Shapes: B sentences, S source subwords, T target characters with `</s>`, L segment lengths, D width.
"""

from __future__ import annotations

from torch import Tensor

from ssmt import lattice
from ssmt.config import Config
from ssmt.model.segments import SegmentModel
from ssmt.model.transformer import Decoder, Encoder
from ssmt.model.translation import TranslationModel
from ssmt.model.words import WordDecoder
from ssmt.text.corpus import Batch
from ssmt.text.vocabulary import Vocabulary


class SSMT(TranslationModel):
    vocabulary: Vocabulary

    def __init__(self, vocabulary: Vocabulary, config: Config) -> None:
        super().__init__(vocabulary)
        alphabet = vocabulary.alphabet
        self.encoder = Encoder(len(vocabulary.source), config.network, vocabulary.source.pad)
        network = config.network
        self.decoder = (
            WordDecoder(alphabet, network)
            if network.word_layers
            else Decoder(len(alphabet), network, alphabet.pad, alphabet.eos)
        )
        self.segments = SegmentModel(vocabulary.lexicon, config.network, config.text.longest_segment)

    @property
    def character_embedding(self) -> Tensor:
        """Characters as the decoder and the character model see them. (C, D)"""
        embedding = self.decoder.embedding
        return embedding.tokens.weight * embedding.scale

    def lattice(self, batch: Batch) -> Tensor:
        """The score of every segment of every target. (B, T, L)"""
        memory = self.encode(batch.source)
        states = self.decoder.states(batch.target, memory)  # h_j has read y_<j                               Eq. 2
        previous = self.decoder.previous(batch.target)
        scores: Tensor = self.segments(  # p(s | y_<j, x)                                                     Eq. 3
            batch.target, batch.target_lengths, previous, states, self.character_embedding
        )
        if self.training or scores.device.type == "mps":
            return scores
        return scores.double()  # a reported score sums hundreds of numbers; training needs no such care

    def log_probability(self, batch: Batch) -> Tensor:
        """log p(y | x): the sum over all segmentations of each target (Eq. 4). (B,)"""
        return lattice.marginal(self.lattice(batch), batch.target_lengths)
