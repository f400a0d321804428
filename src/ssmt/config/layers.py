"""How a configuration comes about: layers of settings one over the other (a preset, a file, single settings), and what
is said of one that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import ValidationError

from ssmt.config.schema import LIMITS, Config, Section
from ssmt.errors import UserError
from ssmt.files import is_text, read_json, require_file, stream_raw_lines

Preset = Literal["tiny", "small", "base"]
Settings = Mapping[str, Any]  # of sections, as in a file
Layer = tuple[str, Settings]  # where settings come from, and the settings
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
MOST_KEYS = 10_000  # of a section of YAML
MOST_SHOWN = 60  # characters of a key in a message
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)  # yaml lets a date of month 13 and deep nesting through


# What differs from the fields' defaults, which are the paper's model.
PRESETS: dict[str, Settings] = {
    "tiny": {
        "text": {"source_vocabulary": 8000, "subword_vocabulary": 8000, "lexicon_size": 2000},
        "network": {
            **{"width": 192, "heads": 4, "feedforward": 768, "encoder_layers": 2, "decoder_layers": 2},
            **{"copies": True, "nested_subwords": True, "coverage": True},
            "dropout": 0.25,  # little text is read often
        },
        "training": {
            **{"learning_rate": 2e-3, "warmup_updates": 400},
            **{"batch_characters": 1500, "cooldown": 0.4},  # on a CPU, more updates are worth more than larger ones
            "alignment_weight": 0.05,
            **{"dropout_epochs": 12, "joined_pairs": 0.5},
        },
    },
    "small": {
        "network": {
            **{"width": 256, "heads": 4, "feedforward": 1024, "encoder_layers": 3, "decoder_layers": 3},
            **{"character_layers": 2, "character_width": 128, "copies": True},
        },
        "training": {"learning_rate": 1e-3, "warmup_updates": 1000},
    },
    "base": {"network": {"character_layers": 2, "character_width": 256, "copies": True}},
}
assert tuple(PRESETS) == get_args(Preset)
# What besides differs for one kind of model.
_WORDS_FIRST = {
    **{"character_layers": 1, "character_attention": False, "ngram_inputs": True, "lexicon_by_first_character": True},
    "characters": False,  # all single characters are in the lexicon, so that every text can be written
}
PRESETS_OF_MODELS: dict[str, dict[str, Settings]] = {
    "tiny": {
        "ssmt": {
            "text": {"lexicon": "bpe", "lexicon_size": 8000, "longest_segment": 8},
            "network": {**_WORDS_FIRST, "decoder_layers": 3, "character_feedforward": 384},  # two over words
        },
        "dpe": {"text": {"subword_vocabulary": 2000}},
    },
    "small": {
        "ssmt": {
            "text": {"lexicon_size": 8000, "longest_segment": 8},
            "network": {**_WORDS_FIRST, "character_feedforward": 512},
        }
    },
    "base": {
        "ssmt": {
            "text": {"lexicon_size": 8000, "longest_segment": 8},
            "network": {**_WORDS_FIRST, "character_feedforward": 1024},
        }
    },
}


def compose(preset: str = "base", file: str | Path | None = None, settings: Sequence[str] = ()) -> Config:
    """A preset, changed by a YAML file, changed by `section.key=value` settings. They say, too, for which kind of model
    the preset's values are taken."""
    if preset not in PRESETS:
        raise UserError(f"There is no preset {preset!r}{did_you_mean(preset, PRESETS)}; known: {', '.join(PRESETS)}")
    changes = _changes(file, settings)
    model = next((layer["model"] for _, layer in reversed(changes) if "model" in layer), Config().model)
    return _validated([*_preset_layers(preset, model), *changes])


def preset_of(preset: str, config: Config) -> Config:
    """What the preset is for a model of the config's kind, with nothing changed but that."""
    return compose(preset, settings=[f"model={config.model}"])


def _preset_layers(preset: str, model: Any) -> list[Layer]:
    """`model`: as somebody has written it, perhaps no kind of model at all."""
    of_models = PRESETS_OF_MODELS.get(preset, {})
    own = of_models[model] if isinstance(model, str) and model in of_models else {}
    return [(f"preset {preset}", PRESETS[preset]), *([(f"preset {preset} of {model}", own)] if own else [])]


def compose_from(old: Config, file: str | Path | None = None, settings: Sequence[str] = ()) -> Config:
    """The settings of a model that another run begins with, changed by a YAML file, changed by single settings. What
    is of its own text and its own beginning is left out."""
    content = old.model_dump(exclude={"data": True, "start": True, "text": {"length_ratio"}})
    return _validated([("the model that training begins with", content), *_changes(file, settings)])


def _changes(file: str | Path | None, settings: Sequence[str]) -> list[Layer]:
    of_file = [] if file is None else [(str(file), _read_yaml(file))]
    return [*of_file, *map(_parse_setting, settings)]


def with_settings(config: Config, settings: Sequence[str]) -> Config:
    """The config changed by `section.key=value` settings."""
    return _validated([("config", config.model_dump()), *map(_parse_setting, settings)])


def changed(config: Config, changes: Mapping[str, Any], origin: str) -> Config:
    """The config with some keys changed; `origin` says in messages where the changes come from."""
    return _validated([("config", config.model_dump()), (origin, changes)])


def read_config(path: Path) -> Config:
    """The config.json of a model directory."""
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: is not a configuration (a JSON object of sections)")
    return _validated([(str(path), content)])


def config_of_segmenter(config: Config) -> Config:
    """The configuration of dpe's first model."""
    segmenter = config.segmenter
    limits = {key: getattr(segmenter, key) for key in LIMITS}
    changes = {
        "model": "ssmt",
        "text": {
            "lexicon": segmenter.lexicon,
            "lexicon_file": config.text.lexicon_file if segmenter.lexicon == "file" else None,
            "longest_segment": segmenter.longest_segment,
            "tag_source": True,  # as the second model, which has the same source
        },
        "network": {"characters": segmenter.characters, "lexicon": True},
        "training": {
            **{"stop_on": "bits_per_character", "chrf_sentences": 0},  # it is to know the text, and translates nothing
            **{key: value for key, value in limits.items() if value is not None},
        },
        "start": {
            "model": config.start.model and str(Path(config.start.model) / "segmenter"),
            "digest": None,
            "freeze": (),  # parts of the second model
        },
    }
    return changed(config, changes, "segmenter")


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


def in_words(changes: Iterable[tuple[str, Any, Any]]) -> str:
    """Differences of two configs, for a message."""
    return "; ".join(f"{key} was {before}, now {after}" for key, before, after in changes)


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


class _Loader(yaml.SafeLoader):
    """Plain values only, and no key twice, of which one would be ignored. Sections that are merged into others (`<<`)
    again and again could become very many."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"{key.value[:MOST_SHOWN]!r} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_KEYS:
            raise yaml.constructor.ConstructorError(None, None, f"more than {MOST_KEYS:,} keys", node.start_mark)


def _parse_setting(setting: str) -> Layer:
    key, equals, value = setting.partition("=")
    if not equals:
        raise UserError(f"setting {setting}: expected key=value, for example training.learning_rate=0.001")
    try:
        nested: Any = yaml.load(value, _Loader)
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
    require_file(path)  # it is read as often as settings are put together
    try:
        content = yaml.load("\n".join(stream_raw_lines(path)), _Loader)
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
        config = Config.model_validate(content)
    except ValidationError as error:
        problems = (f"{_origin(problem['loc'], layers)}: {_explain(problem)}" for problem in error.errors())
        raise UserError("; ".join(problems)) from None
    if odd := [text for text in _texts(config.model_dump()) if not is_text(text)]:
        raise UserError(f"{odd[0]!r}: a configuration cannot name what is not UTF-8; rename it")
    return config


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping | list | tuple):
        for inner in content.values() if isinstance(content, Mapping) else content:
            yield from _texts(inner)


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
