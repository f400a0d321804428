"""configs/paper: each file loads, whatever preset lies below it, and means what the paper says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssmt.config import PRESETS, Config, compose, config_of_segmenter, with_settings
from ssmt.registry import KINDS, kind_of

FOLDER = Path(__file__).parents[1] / "configs" / "paper"
LANGUAGES = {"xh": "Xhosa", "zu": "Zulu", "fi": "Finnish", "ss": "Swati", "tn": "Tswana", "af": "Afrikaans"}


def config_of(language: str, preset: str = "base") -> Config:
    return compose(preset, FOLDER / f"{language}.yaml")


def test_there_is_one_file_for_each_of_the_papers_languages() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(LANGUAGES)
    for language, name in LANGUAGES.items():
        text = (FOLDER / f"{language}.yaml").read_text(encoding="utf-8")
        assert text.startswith(f"# English to {name}, as in Meyer and Buys (2023)")
        assert set(re.findall(r"(?:paper/|train\.|dev\.)(\w+)(?: |\.yaml)", text)) == {"en", language}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_settings_are_the_papers(language: str) -> None:
    config = config_of(language)
    text, network, training = config.text, config.network, config.training
    assert config.model == "ssmt"
    assert (text.source_vocabulary, text.lexicon_size, text.longest_segment, text.lexicon) == (5000, 5000, 5, "ngrams")
    assert (text.subword_vocabulary, text.shared_vocabulary, text.subword_sampling) == (10_000, True, 0)
    assert (network.width, network.heads, network.feedforward, network.norm) == (512, 8, 2048, "post")
    assert network.word_layers == 0, "all layers over characters"
    assert network.characters
    assert network.lexicon
    assert not network.proper
    assert not network.ngram_inputs
    assert not network.lexicon_by_first_character
    assert (training.min_epochs, training.patience, training.max_epochs) == (25, 5, None)
    assert (training.max_updates, training.max_minutes, training.max_cpu_minutes, training.cooldown) == (*[None] * 3, 0)
    segmenter = config_of_segmenter(with_settings(config, ["model=dpe"]))
    assert (segmenter.training.max_epochs, segmenter.text.lexicon, segmenter.network.characters) == (20, "bpe", False)


def test_only_swati_has_other_layers() -> None:
    layers = {
        language: (config_of(language).network.encoder_layers, config_of(language).network.decoder_layers)
        for language in LANGUAGES
    }
    swati = layers.pop("ss")
    assert set(layers.values()) == {(6, 6)}
    assert max(swati) < 6, "smaller models were much better there"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("preset", PRESETS)
def test_no_preset_shows_through(language: str, preset: str) -> None:
    assert config_of(language, preset) == config_of(language)


@pytest.mark.parametrize("model", KINDS)
def test_every_model_of_the_paper_takes_them(model: str) -> None:
    for language in LANGUAGES:
        kind_of(with_settings(config_of(language), [f"model={model}"]))
