"""The kinds of model: what the rest of the program has to know of each, in one entry.

A new kind is one file in `ssmt.model`, one name in `ssmt.config.ModelName` and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ssmt.config import Config, ModelName
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.transformer import Memory
from ssmt.model.translation import ScoreType, Search, TranslationModel
from ssmt.search.beam import Limits, Scorer
from ssmt.search.marginal import MarginalScorer
from ssmt.search.subword import SubwordScorer
from ssmt.segmentation import LatticeSegmenter, Segmenter, SubwordSegmenter
from ssmt.text.preparation import Learn, learn_segmental, learn_subwords
from ssmt.text.vocabulary import BothSides, SubwordVocabulary, Vocabulary


@dataclass(frozen=True)
class Kind:
    network: type[Any]  # a TranslationModel, from a vocabulary of this kind and a configuration
    vocabulary: type[BothSides]
    scorer: Callable[[Any, Memory, int, Limits], Scorer]  # of the strings that the network writes, symbol by symbol
    segmenter: Callable[[Any], Segmenter]  # how the network, or its vocabulary, cuts a given text
    searches: tuple[Search, ...]  # the first is the default
    score_type: ScoreType  # of `score`: the sum over all segmentations, or the text as it is tokenised
    learn: Learn | None = None  # the vocabulary, from the training text; none: from the text that a segmenter has cut

    @property
    def segments_first(self) -> bool:
        """A first model, kept in the directory, cuts this one's text."""
        return self.learn is None

    def search(self, name: Search | None) -> Search:
        """The search of that name, or the default one."""
        if name is not None and name not in self.searches:
            raise UserError(f"This model has no search {name!r}; it has {', '.join(self.searches)}")
        return name or self.searches[0]


_SEGMENTAL = partial(Kind, SSMT, Vocabulary, MarginalScorer, LatticeSegmenter)
_SUBWORDS = partial(
    Kind, SubwordTransformer, SubwordVocabulary, SubwordScorer, SubwordSegmenter, ("beam", "sample"), "tokens"
)

KINDS: dict[ModelName, Kind] = {
    "ssmt": _SEGMENTAL(("marginal", "dynamic", "mixture", "sample"), "marginal", learn_segmental),
    "bpe": _SUBWORDS(learn=partial(learn_subwords, "bpe")),
    "ulm": _SUBWORDS(learn=partial(learn_subwords, "unigram")),
    "dpe": _SUBWORDS(),
}


def kind_of(config: Config) -> Kind:
    return KINDS[config.model]


def build(vocabulary: BothSides, config: Config) -> TranslationModel:
    """The network with fresh weights."""
    model: TranslationModel = kind_of(config).network(vocabulary, config)
    return model


def scorer_for(model: TranslationModel, memory: Memory, rows: int, limits: Limits) -> Scorer:
    """What searches ask of a model; kinds that share a network share it."""
    kind = next(kind for kind in KINDS.values() if type(model) is kind.network)
    return kind.scorer(model, memory, rows, limits)
