"""The kinds of model: all that differs between them, in one entry each.

A new kind is one file in `ssmt.model` and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ssmt.config import Config, LexiconSource, SegmenterConfig, did_you_mean, differences
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.translation import TranslationModel
from ssmt.progress import Reporter
from ssmt.search.decode import BATCH_CHARACTERS, search_texts
from ssmt.search.job import Hypothesis, NewScorer
from ssmt.search.marginal import MarginalScorer
from ssmt.search.options import ScoreType, SearchOptions
from ssmt.search.subword import SubwordScorer
from ssmt.search.table import SEARCHES, Search
from ssmt.segmentation import LatticeSegmenter, PieceSegmenter, Segmenter, SubwordSegmenter
from ssmt.text.preparation import Learn, learn_segmental, learn_subwords
from ssmt.text.subwords import Algorithm
from ssmt.text.vocabulary import BothSides, SubwordVocabulary, Vocabulary


@dataclass(frozen=True)
class Kind:
    network: type[Any]  # a TranslationModel, from a vocabulary of this kind and a configuration
    vocabulary: type[BothSides]
    scorer: NewScorer  # of the strings that the network writes, symbol by symbol
    segmenter: Callable[[Any, Segmenter | None], Segmenter]  # how it cuts a text; given the first model's, if any
    searches: tuple[str, ...]  # the first is the default
    score_type: ScoreType  # of `score`: the sum over all segmentations, or the text as it is tokenised
    settings_without_effect: Callable[[Config], set[str]]
    learn: Learn | None = None  # the vocabulary, from the training text; none: from the text that a first model has cut
    sampling: Algorithm = "bpe"  # how subwords are cut anew in each epoch: the source's, and the target's if it has any

    @property
    def segments_first(self) -> bool:
        """Two stages: a first model, kept in the directory, cuts this one's text."""
        return self.learn is None

    def search(self, name: str | None = None) -> Search:
        """The search of that name, or the default one."""
        if name is not None and name not in self.searches:
            raise UserError(f"This model has no search {name!r}; it has {', '.join(self.searches)}")
        return SEARCHES[name or self.searches[0]]

    def score_type_of(self, search: Search | None = None, best_path: bool = False) -> ScoreType:
        """What scores are of: those of a search or, without one, those of `score`."""
        if search is None and best_path and self.score_type == "marginal":
            return "path"
        return (search.score_type if search else None) or self.score_type

    def translate(
        self,
        model: TranslationModel,
        sources: Sequence[str],
        options: SearchOptions,
        length_ratio: float,
        prefixes: Sequence[str] | None = None,
        batch_characters: int = BATCH_CHARACTERS,
    ) -> list[list[Hypothesis]]:
        """Finished hypotheses of each source, best first."""
        search = self.search(options.search)
        return search_texts(model, self.scorer, search, sources, options, length_ratio, prefixes, batch_characters)

    def check(self, config: Config) -> None:
        """Refuse what contradicts itself for this kind."""
        lexicons = {config.text.lexicon} | ({config.segmenter.lexicon} if self.segments_first else set())
        if ("file" in lexicons) != (config.text.lexicon_file is not None):
            raise UserError(
                "lexicon: file (of text, or of a first model's segmenter) and text.lexicon_file: PATH go together"
            )


_ENTRIES = {"text.lexicon", "text.lexicon_file", "text.lexicon_size"}
_SPELLING = {"network.character_width", "network.proper"}
_LATTICE = {"text.longest_segment", "network.lexicon", "network.characters", "network.character_layers"}
_BY_CHARACTER = {"network.character_feedforward", "network.character_attention"}  # of a single layer over characters
_LATTICE |= _BY_CHARACTER | {"network.ngram_inputs", "network.lexicon_by_first_character"}
_OF_SEGMENTER = {f"segmenter.{key}" for key in SegmenterConfig.model_fields}


def _unused_with(lexicon: LexiconSource) -> set[str]:
    return {"text.lexicon_size"} if lexicon == "file" else set()


def _untold(layers: int) -> set[str]:
    """Coverage is what the first of some layers tells the others."""
    return set() if layers > 1 else {"network.coverage"}


def _unused_by_segmental(config: Config) -> set[str]:
    unused = _OF_SEGMENTER | {"text.subword_vocabulary", "text.shared_vocabulary", "training.label_smoothing"}
    unused |= _unused_with(config.text.lexicon) | (set() if config.network.characters else _SPELLING)
    unused |= set() if config.network.words_first else _BY_CHARACTER
    unused |= _untold(SSMT.body_kind(config.network).layers_that_cover(config.network))
    if config.network.lexicon:
        return unused
    unused |= {"network.lexicon_by_first_character"}
    return unused if config.network.ngram_inputs else unused | _ENTRIES


def _unused_by_subwords(config: Config) -> set[str]:
    unused = _ENTRIES | _SPELLING | _LATTICE | _OF_SEGMENTER | {"text.tag_source"}  # which is what they do anyway
    unused |= _untold(config.network.decoder_layers)
    return unused | {"text.source_vocabulary"} if config.text.shared_vocabulary else unused


def _unused_by_pieces(config: Config) -> set[str]:
    replaced = {"text.lexicon", "text.longest_segment", "network.lexicon", "network.characters"}  # by segmenter.*
    unused = replaced | {"text.shared_vocabulary", "text.tag_source"} | _unused_with(config.segmenter.lexicon)
    unused |= set() if config.network.words_first else _BY_CHARACTER
    unused |= _untold(config.network.decoder_layers)
    return unused if config.segmenter.characters else unused | _SPELLING


_SUBWORDS = partial(
    Kind, SubwordTransformer, SubwordVocabulary, SubwordScorer, searches=("beam", "sample", "mbr"), score_type="tokens"
)
_CUT_BEFORE = partial(_SUBWORDS, SubwordSegmenter, settings_without_effect=_unused_by_subwords)

KINDS: dict[str, Kind] = {
    "ssmt": Kind(
        SSMT,
        Vocabulary,
        MarginalScorer,
        LatticeSegmenter,
        searches=("marginal", "dynamic", "mixture", "sample", "mbr"),
        score_type="marginal",
        settings_without_effect=_unused_by_segmental,
        learn=learn_segmental,
    ),
    "bpe": _CUT_BEFORE(learn=partial(learn_subwords, "bpe")),
    "ulm": _CUT_BEFORE(learn=partial(learn_subwords, "unigram"), sampling="unigram"),
    "dpe": _SUBWORDS(PieceSegmenter, settings_without_effect=_unused_by_pieces),
}


def kind_of(config: Config) -> Kind:
    """The entry of a configuration's model; what makes no sense for that kind is refused."""
    if config.model not in KINDS:
        near = did_you_mean(config.model, KINDS)
        raise UserError(f"There is no kind of model {config.model!r}{near}; known: {', '.join(KINDS)}")
    kind = KINDS[config.model]
    kind.check(config)
    return kind


def warn_of_changes_without_effect(start: Config, config: Config, reporter: Reporter) -> None:
    """Presets set everything for all models; what a person changes in one (`start`) should do something."""
    without_effect = kind_of(config).settings_without_effect(config)
    given = [key for key, _, _ in differences(start, config)]
    if unused := [key for key in given if key in without_effect]:
        reporter.warn(f"no effect on this model (model: {config.model}): {', '.join(unused)}")


def build(vocabulary: BothSides, config: Config) -> TranslationModel:
    """The network with fresh weights."""
    model: TranslationModel = kind_of(config).network(vocabulary, config)
    return model
