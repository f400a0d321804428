"""What is measured on the validation text, and how it is compared.

Another metric is one function and one entry of METRICS; with its name in `stop_on` of `ssmt.config` too, it can decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import sacrebleu
import torch

from ssmt.config import Config, TrainingConfig
from ssmt.model.translation import TranslationModel
from ssmt.registry import kind_of
from ssmt.search.job import Hypothesis
from ssmt.search.options import SearchOptions
from ssmt.text.corpus import Corpus
from ssmt.training.distributed import Processes
from ssmt.training.precision import Precision


@dataclass
class Validation:
    """A network and the text that it is measured on; what several metrics need is made once. Several processes share
    the work, and each has the whole result."""

    network: TranslationModel
    config: Config
    corpus: Corpus
    precision: Precision
    sentences: int  # to translate
    processes: Processes

    @cached_property
    def translations(self) -> tuple[list[str], list[str]]:
        """Greedy translations of a sample that is spread evenly over the text, and their references."""
        rows = self.corpus.rows
        count = min(self.sentences, len(rows))
        pairs = self.corpus.texts(int(rows[place * len(rows) // count]) for place in range(count))
        sources, references = map(list, zip(*pairs, strict=True))
        hypotheses = _translate(self.network, self.config, self.processes.share(sources))
        translations = [self.network.vocabulary.decode(best.symbols) for best, *_ in hypotheses]
        return self.processes.merged(translations), references


def _translate(network: TranslationModel, config: Config, sources: Sequence[str]) -> list[list[Hypothesis]]:
    ratio = config.text.length_ratio
    assert ratio is not None, "measured when the run began"
    return kind_of(config).translate(network, sources, SearchOptions(beam=1), ratio)


@torch.no_grad()
def bits_per_character(validation: Validation) -> float:
    """Of the targets; the sentence's end counts as one character."""
    network, corpus, processes = validation.network, validation.corpus, validation.processes
    log_probabilities = []
    for indices in processes.share(corpus.batches(validation.config.training.batch_characters)):
        with validation.precision():
            of_sentences = network.log_probability(corpus.batch(indices).to(network.device))
        log_probabilities.append(of_sentences.cpu().double().sum().item())
    nats = -sum(processes.merged(log_probabilities))  # in the order of the batches, whoever had them
    return nats / int(corpus.characters[corpus.rows].sum()) / math.log(2)


def chrf(validation: Validation) -> float:
    translations, references = validation.translations
    return float(sacrebleu.corpus_chrf(translations, [references]).score)


@dataclass(frozen=True)
class Metric:
    measure: Callable[[Validation], float]
    words: str  # how a message says a value
    higher_is_better: bool = False
    is_wanted: Callable[[TrainingConfig], bool] = lambda settings: True


def translates(settings: TrainingConfig) -> bool:
    """Whether a run has translations to measure."""
    return settings.chrf_sentences > 0


METRICS: dict[str, Metric] = {
    "bits_per_character": Metric(bits_per_character, "{:.4f} bits per character"),
    "chrf": Metric(chrf, "chrF {:.2f}", higher_is_better=True, is_wanted=translates),
}


def measure(
    network: TranslationModel, config: Config, corpus: Corpus, precision: Precision, processes: Processes | None = None
) -> dict[str, float]:
    """The value of each metric that the run wants; up to the first that is not finite, if one is not. Where there are
    several languages, their mean, and `metric:language` for each."""
    network.eval()
    processes = processes or Processes(network.device)
    languages = network.vocabulary.languages and corpus.languages
    sentences = config.training.chrf_sentences
    if languages:
        share = -(-sentences // len(languages))
        parts = {
            language: Validation(network.into(language), config, corpus.only(language), precision, share, processes)
            for language in languages
        }
    else:
        parts = {"": Validation(network, config, corpus, precision, sentences, processes)}
    measured: dict[str, float] = {}
    for name, metric in METRICS.items():
        if metric.is_wanted(config.training):
            values = {language: metric.measure(validation) for language, validation in parts.items()}
            measured[name] = sum(values.values()) / len(values)
            measured |= {f"{name}:{language}": value for language, value in values.items() if language}
            if not math.isfinite(measured[name]):
                break
    return measured


def cost(metric: str, value: float) -> float:
    """A number of which less is better. Of a cost, it is the value."""
    return -value if METRICS[metric].higher_is_better else value


def in_words(measured: dict[str, float]) -> str:
    """Each metric and, where there are several languages, what it is for each of them."""

    def languages(metric: str) -> str:
        named = [(name.partition(":")[2], value) for name, value in measured.items() if name.startswith(f"{metric}:")]
        return f" ({', '.join(f'{language} {value:.4g}' for language, value in named)})" if named else ""

    return ", ".join(
        METRICS[name].words.format(value) + languages(name) for name, value in measured.items() if ":" not in name
    )
