"""What is measured on the validation text, and how it is compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import sacrebleu
import torch

from ssmt.config import Config, TrainingConfig
from ssmt.model.translation import TranslationModel
from ssmt.search.job import Hypothesis
from ssmt.text.preparation import TrainingFiles
from ssmt.training import validation
from ssmt.training.log import read_log
from ssmt.training.validation import METRICS, Metric, Validation, cost, in_words, measure, translates
from tests.training.runs import train, trainer_of


def measuring(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[[Validation], float]) -> None:
    """Let a metric be measured by another function."""
    monkeypatch.setitem(METRICS, name, replace(METRICS[name], measure=function))


def test_bits_per_character(model_directory: Path, tmp_path: Path) -> None:
    trainer = trainer_of(model_directory, tmp_path, batch_characters=200, chrf_sentences=0)
    network, corpus = trainer.network.eval(), trainer.valid_corpus
    pairs = [corpus.batch([row]) for row in range(len(corpus))]
    with torch.no_grad():
        bits = -sum(network.log_probability(pair).item() for pair in pairs) / math.log(2)
    characters = sum(len(target) + 1 for _, target in corpus.texts(range(len(corpus))))
    network.train()
    measured = measure(network, trainer.config, corpus, trainer.precision)
    assert measured == {"bits_per_character": pytest.approx(bits / characters, rel=1e-5)}
    assert not network.training


def as_if_translated(texts: Sequence[str]) -> Callable[..., list[list[Hypothesis]]]:
    """In place of the search: these translations, whatever the sources."""

    def translate(network: TranslationModel, config: Config, sources: Sequence[str]) -> list[list[Hypothesis]]:
        assert len(sources) == len(texts)
        return [[Hypothesis(network.vocabulary.encode_prefix(text), 0.0, 0.0)] for text in texts]

    return translate


def test_chrf_is_of_a_sample_from_all_over_the_text(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(model_directory, tmp_path, chrf_sentences=4)
    rows = range(0, 12, 3)
    references = [target for _, target in trainer.valid_corpus.texts(rows)]
    texts = ["".join(reversed(reference)) for reference in references]
    monkeypatch.setattr(validation, "_translate", as_if_translated(texts))
    measured = measure(trainer.network, trainer.config, trainer.valid_corpus, trainer.precision)
    assert list(measured) == ["bits_per_character", "chrf"]
    assert measured["chrf"] == pytest.approx(sacrebleu.corpus_chrf(texts, [references]).score)
    monkeypatch.setattr(validation, "_translate", as_if_translated(references))
    assert measure(trainer.network, trainer.config, trainer.valid_corpus, trainer.precision)["chrf"] == 100.0


def exact_matches(validation: Validation) -> float:
    return float(sum(map(str.__eq__, *validation.translations)))


def test_another_metric_is_one_function_and_one_entry(
    tmp_path: Path, toy_files: TrainingFiles, toy_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METRICS, "exact", Metric(exact_matches, "{:.0f} exact matches", True, translates))
    calls: list[int] = []
    translate = validation._translate

    def counting(network: TranslationModel, config: Config, sources: Sequence[str]) -> list[list[Hypothesis]]:
        calls.append(len(sources))
        return translate(network, config, sources)

    monkeypatch.setattr(validation, "_translate", counting)
    messages, log = train(tmp_path / "run", toy_files, toy_config, max_epochs=1, chrf_sentences=3)
    assert [line["valid_exact"] for line in log if "improved" in line] == [0.0]
    assert any(", 0 exact matches on validation (best)" in said for said in messages.said)
    assert calls == [3], "metrics share their translations"


@pytest.mark.parametrize(("higher_is_better", "improved"), [(True, [True, True, False]), (False, [True, False, False])])
def test_another_metric_can_decide(
    model_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    higher_is_better: bool,
    improved: list[bool],
) -> None:
    values = iter([1.0, 3.0, 2.0])
    monkeypatch.setitem(METRICS, "other", Metric(lambda _: next(values), "other {:.0f}", higher_is_better))
    trainer = trainer_of(model_directory, tmp_path, chrf_sentences=0, validate_every=1, max_updates=3)
    trainer.settings = trainer.settings.model_copy(update={"stop_on": "other"})
    trainer.run()
    assert [line["improved"] for line in read_log(tmp_path) if "valid_other" in line] == improved


def test_whatever_a_run_can_stop_on_is_measured() -> None:
    assert {*get_args(TrainingConfig.model_fields["stop_on"].annotation)} - {"auto"} <= METRICS.keys()
    for name in METRICS:
        assert METRICS[name].is_wanted(TrainingConfig()), name


@pytest.mark.parametrize(
    ("settings", "metric"),
    [
        ({}, "chrf"),
        ({"chrf_sentences": 0}, "bits_per_character"),
        ({"stop_on": "bits_per_character"}, "bits_per_character"),
        ({"stop_on": "chrf"}, "chrf"),
    ],
)
def test_translations_decide_where_there_are_some(settings: dict[str, Any], metric: str) -> None:
    assert TrainingConfig(**settings).decides == metric


@pytest.mark.parametrize(("metric", "better", "worse"), [("bits_per_character", 1.0, 2.0), ("chrf", 50.0, 40.0)])
def test_less_cost_is_better(metric: str, better: float, worse: float) -> None:
    assert cost(metric, better) < cost(metric, worse) < math.inf
    assert cost(metric, cost(metric, better)) == better
    assert not cost(metric, math.nan) < math.inf


def test_values_in_words() -> None:
    assert in_words({"bits_per_character": 1.23456, "chrf": 45.678}) == "1.2346 bits per character, chrF 45.68"
