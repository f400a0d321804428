"""What can be set: every setting of a run, in one frozen object that can be written as YAML and cannot run code.

A field's description is at once the comment in `ssmt config` and the text of the configuration reference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

LexiconSource = Literal["ngrams", "bpe", "ulm", "file"]
LIMITS = ("max_epochs", "max_updates", "max_minutes", "max_cpu_minutes")  # of a run, which a later session may change

# Bounds of what can be asked for: far beyond what anybody trains, and near enough that a wrong number is refused before
# it takes minutes or the memory of the machine.
MANY = 10**9
LONGEST_TEXT = 1_000_000  # characters of a line
LARGEST_VOCABULARY = 1_000_000
LARGEST_RATIO = 100.0  # target characters for one of the source
ORIGIN = r"[A-Za-z0-9][\w-]{0,39}"
LANGUAGE_CODE = r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}"


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _as_people_write(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        kinds = (annotation, *get_args(annotation))
        if isinstance(value, bool) and bool not in kinds:  # pydantic would take true for 1
            quotes = '; a text that YAML takes for one needs quotes, as in "no"' if str in kinds else ""
            raise ValueError(f"Input should be a value, not the switch {str(value).lower()}{quotes}")
        if value in ("none", "None") and type(None) in kinds:  # as in the descriptions; YAML's own word is null
            return None
        return value


def language_code(code: str) -> str:
    """The code of a language, which is checked."""
    if re.fullmatch(LANGUAGE_CODE, code) is None:
        raise ValueError(f"{code!r} is no code of a language; such are zu, pt-BR, zul_Latn")
    return code


class TextConfig(Section):
    """How text becomes numbers."""

    source_language: str | None = Field(None, description="code of the source language, such as en (none: not said)")
    target_language: str | None = Field(None, description="code of the target language, such as zu (none: not said)")
    source_vocabulary: int = Field(
        5000, ge=8, le=LARGEST_VOCABULARY, description="subwords of the source language (sentencepiece BPE)"
    )
    subword_vocabulary: int = Field(
        10000,
        ge=8,
        le=LARGEST_VOCABULARY,
        description="target subwords of bpe, ulm and dpe; of both languages where they share them",
    )
    shared_vocabulary: bool = Field(True, description="one vocabulary for both languages (bpe and ulm)")
    subword_sampling: float = Field(
        0.0,
        ge=0,
        le=1,
        description="cut subwords anew each epoch, the source's and those of bpe's and ulm's target: BPE dropout, or "
        "alpha (ulm); 0: never",
    )
    lexicon: LexiconSource = Field("ngrams", description="where entries come from: ngrams, bpe, ulm, or a file")
    lexicon_file: str | None = Field(None, description="with lexicon: file, its entries, one a line")
    lexicon_size: int = Field(
        5000,
        ge=1,
        le=LARGEST_VOCABULARY,
        description="entries of the target lexicon, all single characters included; not used with a file",
    )
    longest_segment: int = Field(5, ge=1, le=20, description="L: characters of the longest segment")
    longest_source: int = Field(
        1000, ge=1, le=LONGEST_TEXT, description="characters of the longest source line that is accepted"
    )
    longest_target: int = Field(
        1000, ge=1, le=LONGEST_TEXT, description="characters of the longest target line that is accepted"
    )
    language_temperature: float = Field(
        5.0,
        ge=1,
        le=1e6,
        description="balances several languages in the lexicon and the subwords: 1 by their text, more: more evenly",
    )
    tag_source: bool = Field(
        False, description="ask for the target language in front of the source too, as models on subwords always do"
    )
    length_ratio: float | None = Field(
        None,
        gt=0,
        le=LARGEST_RATIO,
        description="most target characters a source character may become (none: measured in training)",
    )
    single_blanks: bool = Field(
        False, description="take runs of white space in targets for one blank, none at the ends (as the original code)"
    )
    skip_bad_lines: bool = Field(False, description="leave out pairs that are empty or too long instead of stopping")

    @field_validator("source_language", "target_language")
    @classmethod
    def _check_language(cls, code: str | None) -> str | None:
        return code if code is None else language_code(code)


class CorpusConfig(Section):
    """Sentence pairs: files for each side, or files that hold both (TSV, JSON lines, TMX)."""

    source: tuple[str, ...] = Field((), description="a file, or several, of the source side")
    target: tuple[str, ...] = Field((), description="as many files of the target side, line i belonging to line i")
    pairs: tuple[str, ...] = Field((), description="or files of both sides: TSV, JSON lines or TMX")
    source_language: str | None = Field(None, description="code of the source language")
    target_language: str | None = Field(None, description="code of the target language")
    weight: float = Field(1.0, gt=0, le=1000, description="how many times in an epoch its pairs are trained on")
    origin: str | None = Field(None, description="where the text comes from, in a word, such as backtranslated")
    tagged: bool = Field(False, description="put a symbol for the origin in front of its sources")

    @field_validator("source", "target", "pairs", mode="before")
    @classmethod
    def _one_or_several(cls, files: Any) -> Any:
        return (str(files),) if isinstance(files, str | Path) else files

    @field_validator("source_language", "target_language")
    @classmethod
    def _check_language(cls, code: str | None) -> str | None:
        return code if code is None else language_code(code)

    @model_validator(mode="after")
    def _check(self) -> CorpusConfig:
        if bool(self.pairs) == bool(self.source or self.target):
            raise ValueError("a corpus has source and target, or pairs")
        if len(self.source) != len(self.target):
            counts = f"{len(self.source)} of the source and {len(self.target)} of the target"
            raise ValueError(f"a corpus has as many files of one side as of the other, and here are {counts}")
        if self.tagged and not self.origin:
            raise ValueError("tagged goes with an origin: that is the tag")
        if self.origin is not None and re.fullmatch(ORIGIN, self.origin) is None:
            raise ValueError(f"origin {self.origin!r}: expected one word of letters, digits, - and _")
        return self


class DataConfig(Section):
    """The sentence pairs, where they are not given as files of their own; see docs/data.md."""

    train: tuple[CorpusConfig, ...] = Field((), description="corpora to train on")
    valid: tuple[CorpusConfig, ...] = Field((), description="corpora to validate on")


class NetworkConfig(Section):
    """The network."""

    width: int = Field(512, ge=2, le=1 << 16, description="D: width of the Transformer")
    heads: int = Field(8, ge=1, le=1 << 10, description="attention heads; must divide the width")
    feedforward: int = Field(2048, ge=1, le=1 << 16, description="width of the feed-forward layers")
    encoder_layers: int = Field(6, ge=1, le=100, description="layers of the encoder")
    decoder_layers: int = Field(6, ge=1, le=100, description="layers of the decoder")
    character_layers: int | None = Field(
        None,
        ge=1,
        le=100,
        description="how many of these run once a character, the others once a word (none: all; not of bpe, ulm); with "
        "1 it comes last, after those over words; with more they are around them",
    )
    character_feedforward: int | None = Field(
        None, ge=1, le=1 << 16, description="feed-forward width of a single layer over characters (none: feedforward)"
    )
    character_attention: bool = Field(
        True, description="let a single layer over characters attend to the characters before"
    )
    ngram_inputs: bool = Field(
        False, description="add to each target character read the embeddings of lexicon entries that end with it"
    )
    nested_subwords: bool = Field(
        False,
        description="add to each subword read, of the source and of the baselines' target, the embeddings of the "
        "shorter subwords within it",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of embeddings, residual branches and segment scores")
    norm: Literal["pre", "post"] = Field("pre", description="layer norm before (pre) or after (post) each branch")
    position_offset: int = Field(
        0, ge=0, le=1000, description="position of the first token (2 in models of the original code)"
    )
    characters: bool = Field(True, description="let the character model generate segments")
    lexicon: bool = Field(True, description="let the lexicon generate segments")
    lexicon_by_first_character: bool = Field(
        False, description="of the lexicon: p(first character) p(entry | first character), not one softmax over all"
    )
    coverage: bool = Field(
        False,
        description="keep account of which of the source is said: the first of several layers over words, if these "
        "come first, or over symbols, if all are, tells the others",
    )
    copies: bool = Field(False, description="let segments, or subwords, be copied from the source")
    character_width: int | None = Field(
        None, ge=1, le=1 << 16, description="width of the character LSTM (none: as wide as the network)"
    )
    proper: bool = Field(True, description="no probability on impossible segments (false: as in the original code)")

    @model_validator(mode="after")
    def _check(self) -> NetworkConfig:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and divisible by heads {self.heads}")
        if not (self.characters or self.lexicon):
            raise ValueError("characters and lexicon cannot both be switched off: nothing would generate segments")
        return self

    @property
    def words_first(self) -> bool:
        """Whether no layer over characters comes before those over words."""
        return self.word_layers > 0 and self.character_layers == 1

    @property
    def word_layers(self) -> int:
        """How many of the decoder's layers run once a word."""
        return max(0, self.decoder_layers - (self.character_layers or self.decoder_layers))


class TrainingConfig(Section):
    """How the model is trained."""

    seed: int = Field(1, ge=0, lt=2**63, description="seed of initialisation, dropout and the order of batches")
    max_epochs: int | None = Field(100, ge=1, le=MANY, description="stop after this many passes over the data")
    max_updates: int | None = Field(None, ge=1, le=MANY, description="stop after this many updates")
    max_minutes: float | None = Field(
        None, gt=0, le=MANY, description="stop after this many minutes, earlier sessions included"
    )
    max_cpu_minutes: float | None = Field(
        None,
        gt=0,
        le=MANY,
        description="stop after this many minutes of CPU time in updates, whatever else the machine does",
    )
    patience: int | None = Field(5, ge=1, le=MANY, description="stop after this many validations without improvement")
    min_epochs: int | None = Field(None, ge=1, le=MANY, description="passes over the data that patience does not end")
    batch_characters: int = Field(8000, ge=1, le=MANY, description="target characters of a batch, padding included")
    language_temperature: float = Field(
        1.5,
        ge=1,
        le=1e6,
        description="balances several languages in an epoch's batches: 1 by their pairs, more: more evenly",
    )
    joined_pairs: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of an epoch's pairs that are read two and two, as one: what stands alone in the text is "
        "met in other company each time",
    )
    accumulate: int = Field(1, ge=1, le=MANY, description="batches whose gradients are added up for one update")
    learning_rate: float = Field(
        5e-4, gt=0, le=1e30, description="highest learning rate, reached at the end of the warm-up"
    )
    warmup_updates: int = Field(
        4000, ge=1, le=MANY, description="updates of linear warm-up; then inverse square root decay"
    )
    cooldown: float = Field(
        0.0,
        ge=0,
        le=1,
        description="last part of the run, by the nearest max_..., in which the learning rate falls to zero",
    )
    dropout_epochs: float | None = Field(
        None,
        gt=0,
        le=MANY,
        description="passes over the data in which dropout rises from half of network.dropout to all of it (none: all "
        "from the beginning)",
    )
    weight_decay: float = Field(1e-4, ge=0, le=1e6, description="decoupled weight decay (AdamW)")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="of the subword baselines")
    alignment_weight: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="let attention learn from a statistical alignment of the pairs as well, with this weight; 0: no",
    )
    clip_norm: float = Field(1.0, gt=0, le=1e30, description="largest norm of the gradient")
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="bf16 autocast or float32 (auto: bf16 where a GPU has it); the lattice is always float32"
    )
    validate_every: int | None = Field(
        None, ge=1, le=MANY, description="updates between validations (none: every epoch)"
    )
    chrf_sentences: int = Field(
        200, ge=0, le=MANY, description="validation sentences that are translated (greedily) for chrF; 0: none"
    )
    stop_on: Literal["auto", "bits_per_character", "chrf"] = Field(
        "auto",
        description="what decides which model is best and when patience is over (auto: chrf, and patience lasts while "
        "bits_per_character improve too; bits_per_character where no sentence is translated)",
    )
    checkpoint_every: int = Field(
        500, ge=1, le=MANY, description="updates between checkpoints, besides those at validations"
    )
    process_timeout: float = Field(
        10, gt=0, le=MANY, description="of several processes: minutes that one waits for another before it gives up"
    )
    average_last: int = Field(
        1, ge=1, le=1000, description="also try the average of the last n validated models and keep it if it is better"
    )

    @model_validator(mode="after")
    def _check(self) -> TrainingConfig:
        if self.stop_on == "chrf" and self.chrf_sentences == 0:
            raise ValueError("stop_on: chrf needs chrf_sentences above 0")
        return self

    @property
    def decides(self) -> str:
        """The metric by which a model is the best."""
        if self.stop_on != "auto":
            return self.stop_on
        return "chrf" if self.chrf_sentences else "bits_per_character"


class StartConfig(Section):
    """The model that training begins with, where it does not begin with nothing; see docs/data.md."""

    model: str | None = Field(None, description="its directory")
    digest: str | None = Field(None, description="SHA-256 of its weights, which the run writes down when it begins")
    take: tuple[str, ...] = Field((), description="take only these of its parts, such as encoder (none named: all)")
    freeze: tuple[str, ...] = Field((), description="parts that stay as they are, such as decoder.embedding")
    extend: bool = Field(
        True,
        description="add what its vocabulary lacks: characters, languages, and lexicon entries up to text.lexicon_size",
    )

    @field_validator("take", "freeze", mode="before")
    @classmethod
    def _one_or_several(cls, parts: Any) -> Any:
        return (parts,) if isinstance(parts, str) else parts

    @model_validator(mode="after")
    def _check(self) -> StartConfig:
        if self.model is None and (self.take or self.freeze):
            raise ValueError("take and freeze go with a model to begin with")
        return self


class SegmenterConfig(Section):
    """The first model of dpe, which cuts the second one's training text; what is not here is as in the run."""

    lexicon: LexiconSource = Field("bpe", description="where its entries come from (text.lexicon)")
    longest_segment: int = Field(10, ge=1, le=20, description="L: characters of its longest segment")
    characters: bool = Field(False, description="let its character model generate segments")
    max_epochs: int | None = Field(
        None, ge=1, le=MANY, description="stop after this many passes (none: as in training)"
    )
    max_updates: int | None = Field(
        None, ge=1, le=MANY, description="stop after this many updates (none: as in training)"
    )
    max_minutes: float | None = Field(
        None, gt=0, le=MANY, description="stop after this many minutes (none: as in training)"
    )
    max_cpu_minutes: float | None = Field(
        None, gt=0, le=MANY, description="stop after this many minutes of CPU time (none: as in training)"
    )


class Config(Section):
    """Everything that a run needs to know besides its files."""

    model: str = Field(
        "ssmt", description="ssmt, or a Transformer on subwords: cut by bpe, by ulm, or by a first model (dpe)"
    )
    data: DataConfig = DataConfig()
    text: TextConfig = TextConfig()
    network: NetworkConfig = NetworkConfig()
    training: TrainingConfig = TrainingConfig()
    start: StartConfig = StartConfig()
    segmenter: SegmenterConfig = SegmenterConfig()
