"""Training with layers over words: the run, its resumption, and text that has no words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ssmt.config import Config, with_settings
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training.run import adopt, begin, train
from ssmt.translator import Translator
from tests.conftest import Pair, write_pairs
from tests.training.runs import Messages

WORDS = ["network.decoder_layers=4", "network.character_layers=2"]
SHORT = ["training.max_updates=6", "training.validate_every=3", "training.chrf_sentences=2", "training.cooldown=0"]


def test_a_run_that_stops_and_goes_on_is_the_run_that_does_not_stop(
    toy_files: TrainingFiles, toy_config: Config, tmp_path: Path
) -> None:
    config, cpu = with_settings(toy_config, [*WORDS, *SHORT]), torch.device("cpu")
    for name, first in (("whole", 6), ("halves", 3)):
        begin(toy_files, tmp_path / name, with_settings(config, [f"training.max_updates={first}"]), Reporter())
        train(tmp_path / name, cpu, Reporter())
    adopt(tmp_path / "halves", lambda _: config)
    train(tmp_path / "halves", cpu, Reporter())
    whole, halves = (Translator.load(tmp_path / name, "cpu") for name in ("whole", "halves"))
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(weight, halves.model.state_dict()[name], rtol=0, atol=0)
    texts, _, scores = halves.translate(["I see a bird."])
    assert scores == pytest.approx(halves.score(["I see a bird."], texts), abs=1e-4)


@pytest.mark.parametrize(("separator", "expected"), [(" ", []), ("", ["less than one blank in 50 characters"])])
def test_text_without_words_is_warned_of(
    toy_pairs: list[Pair], toy_config: Config, tmp_path: Path, separator: str, expected: list[str]
) -> None:
    pairs = [(source, target.replace(" ", separator)) for source, target in toy_pairs]
    files = TrainingFiles(*write_pairs(tmp_path, "train", pairs), *write_pairs(tmp_path, "valid", pairs))
    messages = Messages()
    begin(files, tmp_path / "run", with_settings(toy_config, WORDS), messages)
    few_blanks = [message for message in messages.said if "blank" in message]
    assert len(few_blanks) == len(expected)
    assert all(text in message for text, message in zip(expected, few_blanks, strict=True))
