"""Room for what comes: targets without a source, other first symbols, a wrapped network, several devices."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from ssmt.model.ssmt import SSMT
from ssmt.search.decode import search_batch
from ssmt.search.job import Request
from ssmt.search.marginal import MarginalScorer
from ssmt.search.options import SearchOptions
from ssmt.search.table import SEARCHES
from ssmt.text.batch import Batch
from tests.models import SOURCES, batch_of, random_model

bodies = pytest.mark.parametrize(
    "body", [{}, {"decoder_layers": 4, "character_layers": 2}], ids=["characters", "words"]
)
TARGETS = ["abba ab", "b", "a  bab a"]


def pairs(model: SSMT) -> Batch:
    return batch_of(model, zip(SOURCES, TARGETS, strict=False))


@bodies
@pytest.mark.parametrize("search", ["marginal", "dynamic", "mixture", "sample"])
@torch.inference_mode()
def test_strings_without_a_source(body: dict[str, Any], search: str) -> None:
    """A language model: what a search finds has the probability that its lattice has."""
    model = random_model(**body)
    request = Request.of_lengths(model.vocabulary.start, torch.tensor([9, 9]))
    options = SearchOptions(search, beam=3, n_best=2)
    found = search_batch(model, MarginalScorer, SEARCHES[search], None, request, options, seeds=[1, 2])
    for hypotheses in found:
        texts = [model.vocabulary.decode(hypothesis.symbols) for hypothesis in hypotheses]
        alone = replace(batch_of(model, [("", text) for text in texts]), source=None)
        scores = model.log_probability(alone).tolist()
        for hypothesis, score in zip(hypotheses, scores, strict=True):
            if search in ("marginal", "sample"):
                assert hypothesis.score == pytest.approx(score, abs=1e-4)
            else:
                assert hypothesis.score <= score + 1e-4
    with_source = search_batch(
        model,
        MarginalScorer,
        SEARCHES["marginal"],
        torch.tensor(model.vocabulary.encode_sources(SOURCES[:1])).repeat(2, 1),
        request,
        SearchOptions(beam=3),
    )
    assert with_source[0][0].score != found[0][0].score


@bodies
def test_without_a_source_the_encoder_learns_nothing(body: dict[str, Any]) -> None:
    model = random_model(**body).train()
    model(replace(pairs(model), source=None)).minimised.backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    learnt = [name for name, parameter in model.decoder.named_parameters() if parameter.grad is not None]
    assert learnt
    assert not any("cross" in name for name in learnt)


@bodies
@torch.inference_mode()
def test_the_first_symbol_comes_from_the_batch(body: dict[str, Any]) -> None:
    model = random_model(**body)
    batch = pairs(model)
    other = replace(batch, start_symbols=torch.full_like(batch.start_symbols, model.vocabulary.alphabet.unk))
    assert batch.previous[:, 0].tolist() == [model.vocabulary.alphabet.eos] * 3
    assert torch.equal(batch.previous[:, 1:], batch.target[:, :-1])
    assert not torch.isclose(model.log_probability(batch), model.log_probability(other)).any()
    mixed = replace(batch, start_symbols=torch.where(torch.tensor([True, False, True]), *_starts(batch, other)))
    expected = torch.where(
        torch.tensor([True, False, True]), model.log_probability(batch), model.log_probability(other)
    )
    torch.testing.assert_close(model.log_probability(mixed), expected)


def _starts(batch: Batch, other: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.start_symbols, other.start_symbols


class Wrapper(nn.Module):
    """As DistributedDataParallel does: it calls `forward` and knows nothing else of the network."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


def test_what_training_calls_is_forward() -> None:
    model = random_model()
    batch = pairs(model)
    loss = Wrapper(model)(batch)
    assert loss.nats.item() == pytest.approx(-model.log_probability(batch).sum().item(), abs=1e-4)
    assert math.isfinite(loss.minimised.item())


def test_two_networks_of_one_vocabulary_share_no_device() -> None:
    """Moving one moves its own copy of the lexicon's trie, and neither the other's nor the lexicon's."""
    model = random_model()
    lexicon = model.vocabulary.lexicon
    other = SSMT(model.vocabulary, _config_of(model))
    moved = copy.copy(other).to("meta")
    assert moved.segments.trie.codes.device.type == "meta"
    assert model.segments.trie.codes.device.type == "cpu"
    assert lexicon.trie.codes.device.type == "cpu"


def _config_of(model: SSMT) -> Any:
    from ssmt.config import Config, changed
    from tests.models import SMALL

    return changed(Config(), {"text": {"longest_segment": model.segments.longest}, "network": SMALL}, "test")
