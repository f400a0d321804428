"""The configuration: what is refused and how it is said, and that the printed YAML is the configuration."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.config import (
    PRESETS,
    PRESETS_OF_MODELS,
    Config,
    Preset,
    Section,
    changed,
    commented_yaml,
    compose,
    config_of_segmenter,
    differences,
    preset_of,
    read_config,
    with_settings,
)
from ssmt.config.layers import _preset_layers
from ssmt.errors import UserError
from ssmt.files import keeping_streams
from ssmt.registry import KINDS, kind_of

KEYS = [
    f"{name}.{key}"
    for name, field in Config.model_fields.items()
    if isinstance(field.default, Section)
    for key in type(field.default).model_fields
]


def value_of(config: Config, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(content, encoding="utf-8")
    return path


# Presets


def test_base_has_the_papers_size_and_our_decoder() -> None:
    config = compose("base")
    network, text = config.network, config.text
    assert (network.encoder_layers, network.decoder_layers, network.width) == (6, 6, 512)
    assert (network.feedforward, network.heads) == (2048, 8)
    assert (network.character_layers, network.word_layers) == (1, 5)
    assert text.source_vocabulary == Config().text.source_vocabulary
    assert config.training == Config().training


@pytest.mark.parametrize("preset", PRESETS)
def test_in_every_preset_words_come_first(preset: str) -> None:
    network = compose(preset).network
    assert network.words_first
    assert network.ngram_inputs
    assert network.lexicon_by_first_character
    assert network.copies


@pytest.mark.parametrize(
    ("settings", "word_layers"),
    [
        (["network.decoder_layers=8"], 7),
        (["network.decoder_layers=2", "network.character_layers=2"], 0),  # a shallow decoder has none between
        (["network.decoder_layers=1"], 0),
        (["network.character_layers=null"], 0),
        (["network.character_layers=4"], 2),
    ],
)
def test_layers_over_words_are_what_those_over_characters_leave(settings: list[str], word_layers: int) -> None:
    assert compose("base", settings=settings).network.word_layers == word_layers


@pytest.mark.parametrize("preset", get_args(Preset))
def test_presets_are_valid_and_differ(preset: str) -> None:
    config = compose(preset)
    others = [compose(other) for other in PRESETS if other != preset]
    assert all(config != other for other in others)
    assert config.network.width % config.network.heads == 0


def test_an_unknown_preset_names_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"no preset 'tinny'; did you mean 'tiny'\?; known: tiny, small, base"):
        compose("tinny")


@pytest.mark.parametrize("preset", PRESETS_OF_MODELS)
def test_a_preset_has_values_of_its_own_for_a_kind_of_model(tmp_path: Path, preset: str) -> None:
    """Whoever names the kind last: a file, or a setting over it."""
    for model, own in PRESETS_OF_MODELS[preset].items():
        assert model in KINDS
        config = compose(preset, settings=[f"model={model}"])
        assert config == preset_of(preset, config)
        found = config.model_dump()
        assert all(found[section][key] == value for section, part in own.items() for key, value in part.items())
        assert compose(preset, written(tmp_path, f"model: {model}\n")) == config
        for other in KINDS:
            assert compose(preset, written(tmp_path, f"model: {other}\n"), [f"model={model}"]) == config
    assert compose(preset) == compose(preset, settings=["model=ssmt"])


def test_what_a_person_says_goes_before_what_a_preset_has_for_the_kind(tmp_path: Path) -> None:
    path = written(tmp_path, "model: ssmt\ntext:\n  lexicon_size: 300\n")
    assert compose("tiny", path).text.lexicon_size == 300
    assert compose("tiny", path, ["text.lexicon_size=200"]).text.lexicon_size == 200
    assert compose("tiny", path).text.longest_segment == 8


def test_a_model_that_is_no_kind_takes_nothing_from_a_preset(tmp_path: Path) -> None:
    assert compose("tiny", settings=["model=gru"]).network == compose("tiny", settings=["model=bpe"]).network
    for content in ("model: [ssmt]\n", "model:\n", "model: 3\n"):
        with pytest.raises(UserError, match=r"settings\.yaml: model: "):
            compose("tiny", written(tmp_path, content))


def test_a_model_that_is_no_kind_is_not_written_out() -> None:
    """Lists of lists, by YAML's aliases, are short in a file and endless in a message."""

    class Endless:
        def __format__(self, specification: str) -> str:
            raise AssertionError("this would take the memory of the machine")

    assert _preset_layers("tiny", Endless()) == [("preset tiny", PRESETS["tiny"])]


# The printed YAML


@pytest.mark.parametrize("preset", get_args(Preset))
def test_printed_yaml_is_the_config_again(tmp_path: Path, preset: str) -> None:
    config = compose(preset)
    path = written(tmp_path, commented_yaml(config))
    for other in PRESETS:
        assert compose(other, path) == config


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_any_changed_config_is_printed_as_it_is(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    floats = st.floats(1e-9, 10)
    changes = {
        "text": {"length_ratio": data.draw(st.none() | floats), "skip_bad_lines": data.draw(st.booleans())},
        "network": {"norm": data.draw(st.sampled_from(["pre", "post"])), "dropout": data.draw(st.floats(0, 0.99))},
        "training": {"learning_rate": data.draw(floats), "max_epochs": data.draw(st.none() | st.integers(1, 10**6))},
    }
    config = changed(Config(), changes, "test")
    path = tmp_path_factory.mktemp("yaml") / "settings.yaml"
    path.write_text(commented_yaml(config), encoding="utf-8")
    assert compose("tiny", path) == config


def test_every_key_is_printed_with_its_comment() -> None:
    printed = commented_yaml(Config())
    keys = []
    for line in printed.splitlines():
        if re.match(r"\w+:", line):
            section = line.rstrip(":")
        elif match := re.match(r"  (\w+): (\S.*?)  # \S.*", line):
            keys.append(f"{section}.{match[1]}")
        else:
            assert re.match(r"# \S", line) or not line, f"without a comment: {line!r}"
    assert keys == KEYS
    assert yaml.safe_load(printed) == Config().model_dump(mode="json")


def test_a_saved_config_is_read_again(tmp_path: Path) -> None:
    config = compose("tiny", settings=["training.max_epochs=null", "text.length_ratio=1.25"])
    path = tmp_path / "config.json"
    path.write_text(config.model_dump_json(indent=2))
    assert read_config(path) == config


# Changing


def test_files_change_presets_and_settings_change_files(tmp_path: Path) -> None:
    path = written(tmp_path, "training:\n  seed: 5\n  patience: 9\n")
    config = compose("tiny", path, ["training.patience=2"])
    expected = {"training.seed": 5, "training.patience": 2}
    assert {key: after for key, _, after in differences(compose("tiny"), config)} == expected


def test_settings_are_checked_together() -> None:
    """Width 30 does not go with the preset's 8 heads, nor 5 heads with its width: only both."""
    for order in (["network.width=30", "network.heads=5"], ["network.heads=5", "network.width=30"]):
        config = compose("base", settings=order)
        assert (config.network.width, config.network.heads) == (30, 5)
    with pytest.raises(UserError, match=r"setting network.width=30: network: width 30 .*divisible by heads 8"):
        compose("base", settings=["network.width=30", "training.seed=3"])


def test_a_file_and_a_setting_are_checked_together(tmp_path: Path) -> None:
    path = written(tmp_path, "network:\n  width: 30\n")
    assert compose("base", path, ["network.heads=5"]).network.width == 30


def test_a_section_with_everything_commented_out_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "training:\n  # seed: 3\nnetwork:\n")
    assert compose("tiny", path) == compose("tiny")
    assert compose("tiny", written(tmp_path, "# nothing\n")) == compose("tiny")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.learning_rate=1e-3", 1e-3),  # a string to YAML 1.1
        ("training.max_epochs=null", None),
        ("training.max_epochs=none", None),
        ("training.max_epochs=None", None),
        ("training.max_epochs=", None),
        ("training.max_minutes=0.5", 0.5),
        ("training.seed=0", 0),
        (" training.seed = 12 ", 12),
        ("network.proper=false", False),
        ("network.proper=no", False),
        ("network.norm=post", "post"),
    ],
)
def test_settings_are_read_as_yaml(setting: str, value: Any) -> None:
    config = compose(settings=[setting])
    assert value_of(config, setting.partition("=")[0].strip()) == value


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.sed=1", r"no setting 'training.sed'; did you mean 'training.seed'\?"),
        ("seed=1", r"no setting 'seed'; did you mean 'training.seed'\?"),
        ("training.lerning_rate=1", r"did you mean 'training.learning_rate'\?"),
        ("learningrate=1", r"did you mean 'training.learning_rate'\?"),
        ("network.longest_segment=4", r"no setting 'network.longest_segment'; did you mean 'text.longest_segment'\?"),
        ("trainig.seed=1", r"no section 'trainig'; did you mean 'training'\?"),
        ("zzz=1", r"no setting 'zzz'; `ssmt config` prints all keys"),
        ("=1", r"no setting ''"),
        ("training.seed", r"expected key=value"),
        ("training.seed=two", r"training\.seed: .*integer"),
        ("training.seed=1.5", r"training\.seed: .*integer"),
        ("training.seed=true", r"training\.seed: .*not the switch true$"),
        ("text.source_language=no", r"text\.source_language: .*not the switch false; .* needs quotes, as in \"no\"$"),
        ("text.target_language=isi zulu", r"text\.target_language: 'isi zulu' is no code of a language"),
        ("text.target_language=z", r"text\.target_language: 'z' is no code"),
        ("training.seed=-1", r"training\.seed: .*greater than or equal to 0"),
        ("training.seed=[1, 2]", r"training\.seed: .*integer"),
        ("training.seed.deep=1", r"training\.seed: .*integer"),
        ("training.seed=2024-13-45", r"training\.seed: .*integer"),
        ("training.seed=[", r"training\.seed: .*integer"),
        ("training.seed=" + "[" * 600, r"training\.seed: .*integer"),
        ("training.learning_rate=.inf", r"training\.learning_rate: .*finite"),
        ("training.learning_rate=.nan", r"training\.learning_rate: "),
        ("training.learning_rate=0", r"training\.learning_rate: .*greater than 0"),
        ("training=5", r"training: .*valid dictionary"),
        ("network.proper=perhaps", r"network\.proper: .*boolean"),
        ("network.norm=none", r"network\.norm: .*'pre' or 'post'"),
        ("network.width=none", r"network\.width: .*integer"),
        ("network.heads=3", r"network: width 512 must be even and divisible by heads 3"),
    ],
)
def test_bad_settings_say_what_and_where(setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        compose(settings=[setting])
    assert f"setting {setting}" in str(caught.value)
    with pytest.raises(UserError, match=message):
        with_settings(Config(), [setting])


def test_each_problem_names_its_own_origin(tmp_path: Path) -> None:
    path = written(tmp_path, "training:\n  sed: 1\n  patience: x\n")
    with pytest.raises(UserError) as caught:
        compose("tiny", path, ["text.lexicon_size=many", "training.patience=0"])
    message = str(caught.value)
    assert f"{path}: there is no setting 'training.sed'" in message
    assert "setting text.lexicon_size=many: text.lexicon_size: " in message
    assert "setting training.patience=0: training.patience: " in message
    assert f"{path}: training.patience" not in message


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"train": [{"pairs": "caf\udce9.tsv"}]}},
        {"start": {"model": "caf\udce9"}},
        {"start": {"model": "a", "freeze": ["\ud800"]}},
    ],
)
def test_names_that_are_not_utf8_are_refused_before_they_are_written(changes: dict[str, Any]) -> None:
    """As they come from file systems of other encodings."""
    with pytest.raises(UserError, match="not UTF-8; rename it"):
        changed(compose("tiny"), changes, "test")


# Files


# Each section is twenty times the one before.
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 20)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("training:\n  seed: 1\n  patience: [\n", r"settings\.yaml, line \d: not YAML"),
        ("training:\n\tseed: 1\n", r"settings\.yaml, line 2: not YAML \(found character '\\t'"),
        ("training:\n  seed: 1\n seed: 2\n", r"settings\.yaml, line 3: not YAML"),
        (
            "training:\n  seed: 1\n  patience: 3\n  seed: 2\n",
            r"settings\.yaml, line 4: not YAML \('seed' stands",
        ),
        ("training:\n  seed: 1\nnetwork:\ntraining:\n", r"settings\.yaml, line 4: not YAML \('training' stands there"),
        ("training:\n  seed: 2024-13-45\n", r"settings\.yaml: not YAML \(month must be in 1\.\.12"),
        ("training: \x00\n", r"settings\.yaml: not YAML"),
        (MERGED, r"settings\.yaml, line 5: not YAML \(more than 10,000 keys\)"),
        ("[" * 600, r"settings\.yaml: not YAML"),
        ("- training\n", r"settings\.yaml: expected sections"),
        ("just words\n", r"settings\.yaml: expected sections"),
        ("1: 2\n", r"settings\.yaml: "),
        ("training: 5\n", r"settings\.yaml: training: .*valid dictionary"),
    ],
)
def test_bad_files_say_what_and_where(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        compose("tiny", written(tmp_path, content))


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.mkdir",
        "!!python/object/new:os.mkdir",
        "!!python/name:os.mkdir",
        "!!python/module:os",
        "!custom",
    ],
)
def test_nothing_in_a_file_or_setting_can_run_code(tmp_path: Path, tag: str) -> None:
    evidence = tmp_path / "evidence"
    value = f"{tag} ['{evidence}']"
    with pytest.raises(UserError, match=r"settings\.yaml, line 2: not YAML \(could not determine a constructor"):
        compose("tiny", written(tmp_path, f"training:\n  seed: {value}\n"))
    with pytest.raises(UserError, match=r"training\.seed"):
        compose("tiny", settings=[f"training.seed={value}"])
    assert not evidence.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{\n"training" 5}', r"config\.json, line 2: not JSON"),
        ("[]", r"config\.json: is not a configuration"),
        ('{"training": {"sed": 1}}', r"config\.json: there is no setting 'training\.sed'"),
        ('{"training": {"seed": "x"}}', r"config\.json: training\.seed"),
    ],
)
def test_bad_configs_of_models_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_config(path)


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().training.seed = 3  # type: ignore[misc]


# Models


def test_the_segmenter_is_the_run_with_its_own_settings() -> None:
    settings = [
        "model=dpe",
        "training.max_epochs=70",
        "training.max_minutes=9",
        "segmenter.max_minutes=4",
        "network.width=64",
    ]
    config = compose("tiny", settings=settings)
    first = config_of_segmenter(config)
    assert (first.model, first.text.lexicon, first.text.longest_segment) == ("ssmt", "bpe", 10)
    assert (first.network.characters, first.network.width) == (False, 64)
    assert (first.training.max_epochs, first.training.max_minutes) == (70, 4)
    assert (first.training.decides, first.training.chrf_sentences) == ("bits_per_character", 0), "it translates nothing"
    other = config_of_segmenter(
        compose("tiny", settings=[*settings, "segmenter.max_epochs=20", "segmenter.max_minutes=none"])
    )
    assert (other.training.max_epochs, other.training.max_minutes) == (20, 9)


def test_the_segmenters_lexicon_can_be_a_file_too() -> None:
    config = compose("tiny", settings=["model=dpe", "segmenter.lexicon=file", "text.lexicon_file=entries.txt"])
    first = config_of_segmenter(config).text
    assert (first.lexicon, first.lexicon_file) == ("file", "entries.txt")


def test_a_lexicon_file_has_its_own_size() -> None:
    file = ["text.lexicon_file=entries.txt"]
    for chosen in (["text.lexicon=file", *file], ["model=dpe", "segmenter.lexicon=file", *file]):
        config = compose(settings=chosen)
        unused = kind_of(config).settings_without_effect(config)
        assert "text.lexicon_size" in unused
        assert "text.lexicon_file" not in unused


def test_a_config_of_before_there_were_other_models_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"text": {}, "network": {}, "training": {}}')
    assert read_config(path).model == "ssmt"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["model=bep"], "no kind of model 'bep'; did you mean 'bpe'"),
        (["text.lexicon=file"], "lexicon: file .* and text.lexicon_file: PATH go together"),
        (["text.lexicon_file=entries.txt"], "lexicon: file .* and text.lexicon_file: PATH go together"),
        (["segmenter.lexicon=file", "model=dpe"], "lexicon: file .* and text.lexicon_file: PATH go together"),
        (["text.subword_sampling=2", "model=bpe"], r"text\.subword_sampling: .*less than or equal to 1"),
    ],
)
def test_settings_that_do_not_go_with_a_model(given: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind_of(compose("tiny", settings=given))


# Languages


@pytest.mark.parametrize("code", ["zu", "no", "pt-BR", "zh-Hans", "zul_Latn", "sr-Cyrl-RS"])
def test_languages_are_printed_and_read_again(tmp_path: Path, code: str) -> None:
    config = compose("tiny", settings=[f'text.source_language="{code}"', "text.target_language=none"])
    assert (config.text.source_language, config.text.target_language) == (code, None)
    assert compose("tiny", written(tmp_path, commented_yaml(config))) == config


def test_a_file_of_settings_can_be_a_pipe_where_streams_are_kept(tmp_path: Path) -> None:
    """It is read several times; elsewhere it is refused."""
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        (tmp_path / "pipe").write_text("training:\n  seed: 7\n")

    writer = threading.Thread(target=write)
    writer.start()
    with keeping_streams():
        assert [compose("tiny", tmp_path / "pipe").training.seed for _ in range(2)] == [7, 7]
    writer.join()
    with pytest.raises(UserError, match="pipe: is read several times, so it must be a file"):
        compose("tiny", tmp_path / "pipe")
