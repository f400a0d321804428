"""What is compared, as data: the settings of every system, of the ablation's rows and of the grid, and on what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ssmt.config import Config, compose
from ssmt.registry import kind_of

CONFIGS = Path(__file__).parents[2] / "configs"

LANGUAGES = {"ss": "Swati", "zu": "Zulu", "xh": "Xhosa", "fi": "Finnish", "tn": "Tswana", "af": "Afrikaans"}
HEADLINE = ("ss", "zu", "xh")  # what is trained first, with every seed
MORPHOLOGY = ("ss", "zu", "xh")  # languages with gold morphemes of sentences
ASIDE = {"zu": "flores.dev"}  # text of other kinds than training's, where the data has it, for the headline's models
ABLATION_LANGUAGE, BEAM_LANGUAGE, SUBSET_LANGUAGE, GRID_LANGUAGE = "ss", "zu", "zu", "ss"  # the paper's

PRESET = "tiny"
EVERY_SYSTEM = (
    "training.max_epochs=null",  # the budget ends a run, and nothing else
    "training.patience=null",
)
SEGMENTER_SHARE = 0.45  # of the budget of a model whose text another cuts first, for that other


@dataclass(frozen=True)
class System:
    """A model and how it is decoded. `settings` change the preset; `file`, below them, is in configs/."""

    name: str
    settings: tuple[str, ...] = ()
    file: str | None = None
    search: str | None = None  # none: the model's own
    length_penalty: float | None = None  # none: the search's own
    repetition_penalty: float | None = None  # none: the search's own
    beam: int = 5
    what: str = ""  # in a few words, for the document

    @cache  # noqa: B019 (systems live as long as the program)
    def config(self, minutes: float, seed: int, more: tuple[str, ...] = ()) -> Config:
        """Its settings in a run of so many minutes of CPU time; `more` change them again."""
        file = CONFIGS / self.file if self.file else None
        own = compose(PRESET, file, [*EVERY_SYSTEM, *self.settings])
        share = SEGMENTER_SHARE if kind_of(own).segments_first else 0.0
        budget = [f"training.max_cpu_minutes={minutes * (1 - share):g}", f"training.seed={seed}"]
        budget += [f"segmenter.max_cpu_minutes={minutes * share:g}"] if share else []
        return compose(PRESET, file, [*EVERY_SYSTEM, *self.settings, *budget, *more])


BPE = System("bpe", ("model=bpe",), what="a Transformer on BPE subwords, with copies, nested subwords and coverage")
ULM = System(
    "ulm",
    ("model=ulm",),
    what="a Transformer on subwords of a unigram model, with copies, nested subwords and coverage",
)
DPE = System("dpe", ("model=dpe",), what="a Transformer on a first model's cuts, with all three of these")
SSMT = System(
    "ssmt",
    what="ours, with n-gram inputs, a lexicon of BPE subwords by first character, layers over words first, copies, "
    "nested subwords and coverage",
)
SYSTEMS = {system.name: system for system in (BPE, ULM, DPE, SSMT)}

NGRAMS = ("network.ngram_inputs=true",)
CLASSES = ("network.lexicon_by_first_character=true",)
NO_COPIES = ("network.copies=false",)
NO_ALIGNMENT = ("training.alignment_weight=0",)
SMALL_SOURCE = ("text.source_vocabulary=2000",)  # of which each comes often enough to be learnt alone
NO_NESTED = ("network.nested_subwords=false",)  # the baselines share a vocabulary with their target, which stays
NO_COVERAGE = ("network.coverage=false",)
NO_JOINED = ("training.joined_pairs=0",)
# As the encoder: ours has one more layer, two of them over words; and half as many entries.
AS_LARGE = ("network.decoder_layers=2", "text.lexicon_size=4000", *SMALL_SOURCE)

# Table 4: the paper's five rows, and ours below them. Rows with one name are one run, decoded in several ways.
_PAPERS = "ablation/lexicon-and-characters.yaml"
ABLATION = {
    "+BPEvocab −char (DPE), 2 models": System("dpe-paper", SMALL_SOURCE, file="ablation/dpe.yaml"),
    "+lexicon −char, 2 models": System("two-lexicon", SMALL_SOURCE, file="ablation/segment-with-lexicon.yaml"),
    "+lexicon +char, 2 models": System(
        "two-mixture", SMALL_SOURCE, file="ablation/segment-with-lexicon-and-characters.yaml"
    ),
    "+lexicon −char, dynamic decoding": System("lexicon", AS_LARGE, "ablation/lexicon.yaml", search="dynamic"),
    "+lexicon +char (SSMT), dynamic decoding": System("mixture", AS_LARGE, _PAPERS, search="dynamic"),
    "the same, marginal decoding": System("mixture", AS_LARGE, _PAPERS, length_penalty=0.0, repetition_penalty=0.0),
    "and its penalties": System("mixture", AS_LARGE, _PAPERS),
    "and n-gram inputs": System("mixture-ngrams", (*AS_LARGE, *NGRAMS), _PAPERS),
    "and lexicon by first character": System("mixture-classes", (*AS_LARGE, *CLASSES), _PAPERS),
    "and both of these": System("mixture-both", (*AS_LARGE, *NGRAMS, *CLASSES), _PAPERS),
    "`ssmt`, without copies": replace(SSMT, name="ssmt-alone", settings=NO_COPIES),
    "`ssmt`, without an alignment": replace(SSMT, name="ssmt-unaligned", settings=NO_ALIGNMENT),
    "`ssmt`, without coverage": replace(SSMT, name="ssmt-uncovered", settings=NO_COVERAGE),
    "`ssmt`, without joined pairs": replace(SSMT, name="ssmt-unjoined", settings=NO_JOINED),
    "`ssmt`, without nested subwords": replace(SSMT, name="ssmt-unnested", settings=(*NO_NESTED, *SMALL_SOURCE)),
    "`ssmt`": SSMT,
    "`bpe`, without copies": replace(BPE, name="bpe-alone", settings=(*BPE.settings, *NO_COPIES)),
    "`bpe`, without an alignment": replace(BPE, name="bpe-unaligned", settings=(*BPE.settings, *NO_ALIGNMENT)),
    "`bpe`, without coverage": replace(BPE, name="bpe-uncovered", settings=(*BPE.settings, *NO_COVERAGE)),
    "`bpe`, without joined pairs": replace(BPE, name="bpe-unjoined", settings=(*BPE.settings, *NO_JOINED)),
    "`bpe`, without nested subwords": replace(BPE, name="bpe-unnested", settings=(*BPE.settings, *NO_NESTED)),
    "`bpe`": BPE,
}

# A model's length penalty where it is chosen on the validation text, and how many of its sentences are translated,
# evenly spread: the texts are whole documents, of which the first are no sample.
LENGTH_PENALTIES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
TUNING_SENTENCES = 300

# Table 7.
BEAMS = (1, 3, 5, 7, 10)
BEAM_SEARCHES = ("mixture", "dynamic", "marginal")
MINIMUM_RISK = "mbr"  # which has no beam
BEAM_SENTENCES = 300  # the first of the validation text: 16 decodings

# Figure 3: sentences of a subset, and how far their words shall be from those of the training text.
SUBSET_SIZE = 300
DIVERGENCES = (0.2, 0.3)

# Figure 4: layers of encoder and decoder (ssmt has one more, over characters) by entries of the target vocabulary.
GRID_SYSTEMS = (BPE, SSMT)
GRID_LAYERS = (1, 2, 3)
GRID_VOCABULARIES = (2000, 4000, 8000)


def of_grid(system: System, layers: int, vocabulary: int) -> System:
    """A system at a point of the grid."""
    over_characters = 1 if system is SSMT else 0
    changes = (
        *NO_COVERAGE,  # which wants two layers
        f"network.encoder_layers={layers}",
        f"network.decoder_layers={layers + over_characters}",
        f"text.subword_vocabulary={vocabulary}" if system is BPE else f"text.lexicon_size={vocabulary}",
    )
    name = f"{system.name}.layers-{layers}.vocabulary-{vocabulary}"
    return replace(system, name=name, settings=(*system.settings, *changes))
