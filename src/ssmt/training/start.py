"""The model that a run begins with. It is kept whole in the run's directory, DIR/from: the run depends on no other
directory, says what it came from, and until it has a model of its own it translates with that one, bit for bit."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import torch

from ssmt.config import Config, changed, differences, in_words
from ssmt.directory import CONFIG, FROM, SEGMENTER, VOCABULARIES, WEIGHTS, load_description, load_model, weights_of
from ssmt.errors import UserError
from ssmt.files import reason, require_regular
from ssmt.model.extension import begin_with, freeze, is_part
from ssmt.model.translation import TranslationModel
from ssmt.registry import kind_of
from ssmt.text.preparation import Beginning

# What decides how a network computes, besides the sizes of its weights.
_FREE = {"network.dropout"}
_FIXED = {"model", "text.longest_segment", "text.shared_vocabulary", "text.single_blanks"}


def keep(directory: Path, config: Config) -> tuple[Config, Beginning | None]:
    """Copy the model that a configuration begins with, if it does, into a run's directory; returns the configuration
    with the digest of its weights, and what the vocabulary begins with."""
    if config.start.model is None:
        return config, None
    model = Path(config.start.model)
    network, old = load_model(model, torch.device("cpu"))  # refuses what is no whole model
    if not config.start.take:
        _require_same_network(old, config)
    weights = weights_of(model)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    _copy(weights.parent, directory / FROM)
    taken = {kind for name, kind in network.ROWS.items() if not config.start.take or is_part(name, config.start.take)}
    is_of_target = bool(taken - {"source", "nested", "copied"})
    beginning = Beginning(network.vocabulary, "source" in taken, is_of_target, config.start.extend)
    return changed(config, {"start": {"digest": digest}}, "digest"), beginning


def _require_same_network(old: Config, config: Config) -> None:
    conflicts = [
        difference
        for difference in differences(old, config)
        if (key := difference[0]) in _FIXED or (key.startswith("network.") and key not in _FREE)
    ]
    if conflicts:
        raise UserError(
            f"A run that begins with a whole model has its network ({in_words(conflicts)}). Leave these settings out, "
            f"or take only parts of it (start.take)"
        )


def _copy(model: Path, directory: Path) -> None:
    """What makes a model directory, without what its training has left there."""
    try:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name in (CONFIG, WEIGHTS, *VOCABULARIES):
            if (model / name).exists():
                require_regular(model / name)  # a device would be copied without an end
                shutil.copyfile(model / name, directory / name)
    except OSError as error:
        raise UserError(f"{directory}: cannot be written ({reason(error)})") from error
    if kind_of(load_description(directory)[1]).segments_first:
        first = model / SEGMENTER
        first = first if (first / WEIGHTS).exists() else first / FROM
        load_model(first, torch.device("cpu"))  # refuses what is no whole model
        _copy(first, directory / SEGMENTER)


def begin(network: TranslationModel, directory: Path, config: Config) -> None:
    """Give a run's network the weights that it begins with, and freeze what is to stay as it is."""
    if config.start.model is not None:
        known, _ = load_model(directory / FROM, torch.device("cpu"))
        begin_with(network, known, config.start.take)
    freeze(network, config.start.freeze)
