"""The kinds of model: what the rest of the program has to know of each, in one entry.

A new kind is one file in this package, one name in `ssmt.config.ModelName` and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ssmt.config import Config, ModelName
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.translation import TranslationModel
from ssmt.text.preparation import Learn, learn_segmental, learn_subwords
from ssmt.text.vocabulary import BothSides, SubwordVocabulary, Vocabulary

Search = Literal["marginal", "dynamic", "mixture", "beam", "sample"]
ScoreType = Literal["marginal", "path", "tokens"]


@dataclass(frozen=True)
class Kind:
    network: Callable[[Any, Config], TranslationModel]  # from a vocabulary of this kind
    vocabulary: type[BothSides]
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


_SUBWORDS = partial(Kind, SubwordTransformer, SubwordVocabulary, ("beam", "sample"), "tokens")

KINDS: dict[ModelName, Kind] = {
    "ssmt": Kind(SSMT, Vocabulary, ("marginal", "dynamic", "mixture", "sample"), "marginal", learn_segmental),
    "bpe": _SUBWORDS(learn=partial(learn_subwords, "bpe")),
    "ulm": _SUBWORDS(learn=partial(learn_subwords, "unigram")),
    "dpe": _SUBWORDS(),
}


def kind_of(config: Config) -> Kind:
    return KINDS[config.model]


def build(vocabulary: BothSides, config: Config) -> TranslationModel:
    """The network with fresh weights."""
    return kind_of(config).network(vocabulary, config)
