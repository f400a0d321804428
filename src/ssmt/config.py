"""Every setting of a run, in one frozen object that can be written as YAML and cannot run code.

A field's description is at once the comment in `ssmt config` and the text of the configuration reference.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from ssmt.errors import UserError
from ssmt.files import read_json, stream_raw_lines

Preset = Literal["tiny", "small", "base"]
LexiconSource = Literal["ngrams", "bpe", "ulm", "file"]
Layer = tuple[str, Mapping[str, Any]]  # where settings come from, and the settings
# What other toolkits call our settings.
OTHER_NAMES = {
    **dict.fromkeys(("lr", "rate"), "training.learning_rate"),
    **dict.fromkeys(("batch_size", "batchsize", "max_tokens", "tokens", "mini_batch"), "training.batch_characters"),
    **dict.fromkeys(("epochs", "epoch", "num_epochs", "max_epoch"), "training.max_epochs"),
    **dict.fromkeys(("steps", "max_steps", "train_steps", "max_update", "updates"), "training.max_updates"),
    **dict.fromkeys(("minutes", "time"), "training.max_minutes"),
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "training.patience"),
    **dict.fromkeys(("warmup", "warmup_steps"), "training.warmup_updates"),
    **dict.fromkeys(("update_freq", "accum_count", "gradient_accumulation_steps"), "training.accumulate"),
    **dict.fromkeys(("clip", "max_grad_norm", "gradient_clip"), "training.clip_norm"),
    **dict.fromkeys(("fp16", "bf16", "amp"), "training.precision"),
    **dict.fromkeys(("valid_freq", "eval_steps", "validation_freq", "save_steps"), "training.validate_every"),
    **dict.fromkeys(("vocab_size", "voc_limit", "src_vocab_size"), "text.source_vocabulary"),
    **dict.fromkeys(("tgt_vocab_size", "bpe_codes", "merges"), "text.subword_vocabulary"),
    **dict.fromkeys(("max_len", "max_length", "max_seq_length"), "text.longest_target"),
    **dict.fromkeys(("hidden_size", "embedding_size", "d_model", "embed_dim", "dim"), "network.width"),
    **dict.fromkeys(("ffn", "ff_size", "ffn_dim"), "network.feedforward"),
    **dict.fromkeys(("layers", "num_layers", "enc_layers"), "network.encoder_layers"),
    **dict.fromkeys(("num_heads", "attention_heads"), "network.heads"),
}
OF_SEARCH = ("beam", "beam_size", "n_best", "nbest", "length_penalty", "alpha")
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)  # yaml lets a date of month 13 and deep nesting through


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
        0.0, ge=0, le=1, description="cut training text anew each epoch: BPE dropout (bpe), alpha (ulm); 0: never"
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
    weight_decay: float = Field(1e-4, ge=0, le=1e6, description="decoupled weight decay (AdamW)")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="of the subword baselines")
    clip_norm: float = Field(1.0, gt=0, le=1e30, description="largest norm of the gradient")
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="bf16 autocast or float32 (auto: bf16 where a GPU has it); the lattice is always float32"
    )
    validate_every: int | None = Field(
        None, ge=1, le=MANY, description="updates between validations (none: every epoch)"
    )
    chrf_sentences: int = Field(
        100, ge=0, le=MANY, description="validation sentences that are translated (greedily) for chrF; 0: none"
    )
    stop_on: Literal["bits_per_character", "chrf"] = Field(
        "bits_per_character", description="what decides which model is best and when patience is over"
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

    @property
    def of_segmenter(self) -> Config:
        """The configuration of dpe's first model."""
        segmenter = self.segmenter
        limits = {key: getattr(segmenter, key) for key in LIMITS}
        changes = {
            "model": "ssmt",
            "text": {
                "lexicon": segmenter.lexicon,
                "lexicon_file": self.text.lexicon_file if segmenter.lexicon == "file" else None,
                "longest_segment": segmenter.longest_segment,
                "tag_source": True,  # as the second model, which has the same source
            },
            "network": {"characters": segmenter.characters, "lexicon": True},
            "training": {key: value for key, value in limits.items() if value is not None},
            "start": {
                "model": self.start.model and str(Path(self.start.model) / "segmenter"),
                "digest": None,
                "freeze": (),  # parts of the second model
            },
        }
        return changed(self, changes, "segmenter")

    @classmethod
    def load(cls, path: Path) -> Config:
        """The config.json of a model directory."""
        content = read_json(path)
        if not isinstance(content, Mapping):
            raise UserError(f"{path}: is not a configuration (a JSON object of sections)")
        return _validated([(str(path), content)])


# What differs from the fields' defaults, which are the paper's model.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "text": {"source_vocabulary": 2000, "subword_vocabulary": 4000, "lexicon_size": 2000},
        "network": {"width": 128, "heads": 4, "feedforward": 512, "encoder_layers": 2, "decoder_layers": 2},
        "training": {"learning_rate": 2e-3, "warmup_updates": 400, "batch_characters": 4000},
    },
    "small": {
        "network": {
            **{"width": 256, "heads": 4, "feedforward": 1024, "encoder_layers": 3, "decoder_layers": 3},
            **{"character_layers": 2, "character_width": 128},
        },
        "training": {"learning_rate": 1e-3, "warmup_updates": 1000},
    },
    "base": {"network": {"character_layers": 2, "character_width": 256}},
}
assert tuple(PRESETS) == get_args(Preset)


def compose(preset: str = "base", file: str | Path | None = None, settings: Sequence[str] = ()) -> Config:
    """A preset, changed by a YAML file, changed by `section.key=value` settings."""
    if preset not in PRESETS:
        raise UserError(f"There is no preset {preset!r}{did_you_mean(preset, PRESETS)}; known: {', '.join(PRESETS)}")
    layers: list[Layer] = [(f"preset {preset}", PRESETS[preset])]
    if file is not None:
        layers.append((str(file), _read_yaml(file)))
    return _validated([*layers, *map(_parse_setting, settings)])


def compose_from(old: Config, file: str | Path | None = None, settings: Sequence[str] = ()) -> Config:
    """The settings of a model that another run begins with, changed by a YAML file, changed by single settings. What
    is of its own text and its own beginning is left out."""
    content = old.model_dump(exclude={"data": True, "start": True, "text": {"length_ratio"}})
    layers: list[Layer] = [("the model that training begins with", content)]
    if file is not None:
        layers.append((str(file), _read_yaml(file)))
    return _validated([*layers, *map(_parse_setting, settings)])


def with_settings(config: Config, settings: Sequence[str]) -> Config:
    """The config changed by `section.key=value` settings."""
    return _validated([("config", config.model_dump()), *map(_parse_setting, settings)])


def changed(config: Config, changes: Mapping[str, Any], origin: str) -> Config:
    """The config with some keys changed; `origin` says in messages where the changes come from."""
    return _validated([("config", config.model_dump()), (origin, changes)])


def differences(old: Config, new: Config) -> Iterator[tuple[str, Any, Any]]:
    """The keys in which two configs differ, with both values."""
    for section in type(old).model_fields:
        before, after = getattr(old, section), getattr(new, section)
        if not isinstance(before, Section):
            if before != after:
                yield section, before, after
            continue
        for key in type(before).model_fields:
            if getattr(before, key) != getattr(after, key):
                yield f"{section}.{key}", getattr(before, key), getattr(after, key)


def commented_yaml(config: Config) -> str:
    """The whole config as YAML with every key explained."""

    def line(indent: str, key: str, value: Any, comment: str | None) -> str:
        written = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        return f"{indent}{key}: {written}".ljust(34) + f"  # {comment}"

    blocks = []
    for name, field in type(config).model_fields.items():
        section = getattr(config, name)
        if isinstance(section, Section):
            lines = [f"# {section.__doc__}", f"{name}:"]
            values = section.model_dump(mode="json")
            for key, inner in type(section).model_fields.items():
                lines.append(line("  ", key, values[key], inner.description))
        else:
            lines = [line("", name, section, field.description)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _parse_setting(setting: str) -> Layer:
    key, equals, value = setting.partition("=")
    if not equals:
        raise UserError(f"setting {setting}: expected key=value, for example training.learning_rate=0.001")
    try:
        nested: Any = yaml.safe_load(value)
    except NOT_YAML:
        nested = value
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return f"setting {setting}", nested


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        if isinstance(old.get(key), Mapping) and value is None:
            continue  # a section of which everything is commented out
        both = isinstance(old.get(key), Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old[key], value) if both else value
    return merged


def _read_yaml(path: str | Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load("\n".join(stream_raw_lines(path)))
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{where}: not YAML ({getattr(error, 'problem', error)})") from None
    if not isinstance(content, Mapping | None):
        raise UserError(f"{path}: expected sections such as 'training:' with keys below them")
    return content or {}


def _validated(layers: Sequence[Layer]) -> Config:
    """The layers one over the other. Only the whole is checked: two settings can be right only together."""
    content: dict[str, Any] = Config().model_dump()
    for _, layer in layers:
        content = _merge(content, layer)
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        problems = (f"{_origin(problem['loc'], layers)}: {_explain(problem)}" for problem in error.errors())
        raise UserError("; ".join(problems)) from None


def _origin(path: Sequence[Any], layers: Sequence[Layer]) -> str:
    """Which layer spoke last about a key."""

    def says(content: Any, path: Sequence[Any]) -> bool:
        if not path:
            return True
        if isinstance(content, list | tuple) and isinstance(path[0], int):
            return path[0] < len(content) and says(content[path[0]], path[1:])
        return isinstance(content, Mapping) and path[0] in content and says(content[path[0]], path[1:])

    return next((name for name, layer in reversed(layers) if says(layer, path)), layers[-1][0])


def _explain(problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    if problem["type"] != "extra_forbidden":
        return ": ".join([*([key] if key else []), problem["msg"].removeprefix("Value error, ")])
    if len(path) == 1 and (sections := difflib.get_close_matches(key, Config.model_fields, n=1, cutoff=0.7)):
        return f"there is no section {key!r}; did you mean {sections[0]!r}?"
    known = {
        f"{name}.{field}": field
        for name, section in Config.model_fields.items()
        if isinstance(section.default, Section)
        for field in type(section.default).model_fields
    }
    if path[-1] in OF_SEARCH:
        return f"there is no setting {key!r}: a model can be asked for it when it translates, with any beam"
    near = (
        [OTHER_NAMES[path[-1]]]
        if path[-1] in OTHER_NAMES
        else [full for full, field in known.items() if field == path[-1]]
        or difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        or [full for full, field in known.items() if difflib.get_close_matches(path[-1], [field], n=1, cutoff=0.7)]
    )
    hint = f"; did you mean {near[0]!r}?" if near else "; `ssmt config` prints all keys"
    return f"there is no setting {key!r}{hint}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
