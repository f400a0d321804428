"""The paper's baselines: a Transformer over subwords that were cut before training (by BPE, Unigram LM or a segmenter).

Shapes: B sentences, T target subwords with `</s>`, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import Config
from ssmt.model.body import Memory
from ssmt.model.copies import SubwordCopies, Units
from ssmt.model.layers import Embedding
from ssmt.model.nested import NestedSubwords
from ssmt.model.transformer import Decoder, Encoder
from ssmt.model.translation import Loss, TranslationModel
from ssmt.text.batch import Batch
from ssmt.text.vocabulary import RowKind, SubwordVocabulary

SHARED = "encoder.embedding.tokens.weight"  # the same tensor as the decoder's, where the vocabulary is shared
ORIGINAL = "decoder.embedding.tokens.weight"


class SubwordTransformer(TranslationModel):
    vocabulary: SubwordVocabulary
    ROWS: ClassVar[Mapping[str, RowKind]] = {
        SHARED: "source",
        "encoder.embedding.nested.vectors.weight": "nested",
        "decoder.embedding.nested.vectors.weight": "nested target",
        ORIGINAL: "target",
        "copies.pointer.bias": "copied",
    }

    def __init__(self, vocabulary: SubwordVocabulary, config: Config) -> None:
        super().__init__(vocabulary, config)
        self.smoothing = config.training.label_smoothing
        source, target = vocabulary.source, vocabulary.target
        self.encoder = Encoder(source, config.network)
        nested = NestedSubwords.of(target, config.network)
        self.decoder = Decoder(Embedding(len(target), config.network, target.pad, nested=nested), config.network)
        self.copies = SubwordCopies(vocabulary, config.network) if config.network.copies else None
        if vocabulary.shared:
            self.encoder.embedding.tokens = self.decoder.embedding.tokens
            self.register_state_dict_post_hook(_leave_out_shared)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_put_back_shared)  # type: ignore[no-untyped-call]

    def logits(self, states: Tensor) -> Tensor:
        """The output layer is the embedding of the target's subwords. (..., D) -> (..., V)"""
        return F.linear(states, self.decoder.embedding.tokens.weight)

    def units(self, memory: Memory | None) -> Units | None:
        return None if self.copies is None or memory is None else self.copies.units(memory)

    def log_probability(self, batch: Batch) -> Tensor:
        """log p of each target in its one segmentation. (B,)"""
        return -self._losses(batch)[0].nats

    def forward(self, batch: Batch) -> Loss:
        of_targets, guidance = self._losses(batch)
        return Loss(of_targets.minimised.sum() + guidance, of_targets.nats.sum())

    def _losses(self, batch: Batch) -> tuple[Loss, Tensor | float]:
        """Of each target, with and without label smoothing (B,); and what the decoder's attention costs."""
        memory = self.encode(batch.source)
        states, guidance = self.decoded(batch, memory)
        units = self.units(memory)
        real = batch.target != self.vocabulary.target.pad  # (B, T)
        log_probs = F.log_softmax(self.logits(states[real]).float(), dim=-1)  # (n, V): padding costs nothing
        log_prob = log_probs.gather(1, batch.target[real].unsqueeze(1)).squeeze(1)
        if units is not None:
            assert self.copies is not None
            of_places = log_probs.new_zeros(batch.target.shape).masked_scatter(real, log_prob)
            log_prob = self.copies.mixed_of(of_places, batch.target, states, batch.previous, units)[real]
        smoothed = nats = -log_prob
        if self.training and self.smoothing:
            smoothed = (1 - self.smoothing) * nats - self.smoothing * log_probs.mean(dim=-1)
        if not self.training and nats.device.type != "mps":
            nats = smoothed = nats.double()  # a reported score sums many numbers; training needs no such care
        empty = nats.new_zeros(batch.target.shape)
        losses = Loss(*(empty.masked_scatter(real, of_symbols).sum(dim=1) for of_symbols in (smoothed, nats)))
        return losses, guidance


def _leave_out_shared(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """One name for one tensor: safetensors refuses two, and averaging would do its work twice."""
    del state[prefix + SHARED]


def _put_back_shared(module: nn.Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
    state[prefix + SHARED] = state[prefix + ORIGINAL]
