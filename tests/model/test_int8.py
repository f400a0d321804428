"""Weights of 8 bits: nearly the same scores, everything still works."""

from __future__ import annotations

import copy

import pytest
import torch

from ssmt.errors import UserError
from ssmt.model.int8 import use_int8_weights
from ssmt.model.ssmt import SSMT
from tests.models import SOURCES, batch_of, random_model, translator

TARGETS = ["ab ba", "b", "aab ab", "", "a b a", "bbba", "aa"]


def in_8_bits(model: SSMT) -> SSMT:
    changed = copy.deepcopy(model)
    use_int8_weights(changed)
    return changed


@torch.no_grad()
@pytest.mark.parametrize(
    "network", [{}, {"characters": False}, {"lexicon": False}, {"decoder_layers": 3, "character_layers": 2}]
)
def test_probabilities_are_nearly_the_same(network: dict[str, object]) -> None:
    model = random_model(**network)
    batch = batch_of(model, zip(SOURCES, TARGETS, strict=True))
    exact, rounded = (one.log_probability(batch) for one in (model, in_8_bits(model)))
    assert (exact != rounded).any()  # it does something
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)


def test_what_is_small_stays_as_it_is() -> None:
    model = random_model(coverage=True)
    rounded = in_8_bits(model)
    assert type(rounded.decoder.get_submodule("coverage.inner")) is torch.nn.Linear
    assert type(rounded.decoder.get_submodule("layers.0.cross_attention.query")) is not torch.nn.Linear
    said = torch.rand(1, 2, 5)
    told = [one.decoder.get_submodule("coverage")(said, said) for one in (model, rounded)]
    torch.testing.assert_close(*told)


def test_elsewhere_than_on_cpu_it_says_what_to_do() -> None:
    with pytest.raises(UserError, match="on meta; load it on cpu"):
        use_int8_weights(random_model().to("meta"))


def test_the_score_is_still_that_of_the_output() -> None:
    model = translator(in_8_bits(random_model()))
    for source in SOURCES:  # alone: inputs of one batch are rounded together
        texts, _, scores = model.translate([source], beam=1)
        assert scores == pytest.approx(model.score([source], texts), rel=0.05, abs=0.1)
