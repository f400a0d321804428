"""The two models of the demo: SSMT and a Transformer on BPE subwords, of equal size. BPE has the longer training.

They were chosen on seed 2, so whoever reports numbers takes others. docs/baselines.md says more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssmt.config import Config, changed, compose

MODELS: tuple[str, ...] = ("bpe", "ssmt")  # the first is the baseline
UPDATES: Mapping[str, int] = {"bpe": 3200, "ssmt": 2100}  # together six minutes of one core
CORPUS = "corpus"  # its directory, beside those of the models

_BOTH: Mapping[str, Mapping[str, Any]] = {
    "text": {"source_vocabulary": 1000},
    "network": {
        **{"width": 96, "heads": 4, "encoder_layers": 2, "nested_subwords": False, "coverage": False},
        "copies": False,  # its languages share no word
        "dropout": 0.1,
    },
    "training": {
        "learning_rate": 5e-3,
        "warmup_updates": 100,
        "alignment_weight": 0.0,
        **{"dropout_epochs": None, "joined_pairs": 0.0},
        "chrf_sentences": 0,  # to translate at each validation would cost training time
        "max_epochs": None,
        "patience": None,
    },
}
# The feed-forward layers make up for what only SSMT has: n-gram inputs, and a layer more.
_OWN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "bpe": {
        "text": {"subword_vocabulary": 1000, "shared_vocabulary": False},
        "network": {"feedforward": 448},
        "training": {"validate_every": 200},
    },
    "ssmt": {
        "text": {"lexicon": "ngrams", "lexicon_size": 1000, "longest_segment": 6},
        "network": {"feedforward": 192, "character_feedforward": 192},
        "training": {"validate_every": 200},
    },
}


def config_of(model: str, minutes: float | None = None, seed: int = 1) -> Config:
    """`minutes` ends the training before all of its updates are made."""
    config = compose("tiny", settings=[f"model={model}"])
    limits = {"training": {"max_updates": UPDATES[model], "max_minutes": minutes, "seed": seed}}
    for changes in (_BOTH, _OWN[model], limits):
        config = changed(config, changes, "the demo")
    return config
