"""The whole model: probabilities of sentences."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from ssmt.lattice import NEG_INF
from ssmt.model.dropout import Dropout
from tests.models import batch_of, random_model

PAIRS = [
    ("the cat sees a dog", "ab ba aab"),
    ("cats run", "b"),
    ("run dog", ""),
    ("a dog runs", "aaabbb ba"),
]


@torch.no_grad()
def test_a_score_does_not_depend_on_the_batch() -> None:
    model = random_model()
    together = model.log_probability(batch_of(model, PAIRS))
    for pair, expected in zip(PAIRS, together.tolist(), strict=True):
        assert model.log_probability(batch_of(model, [pair])).item() == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_log_probability_sums_over_all_segmentations() -> None:
    model = random_model()
    batch = batch_of(model, PAIRS)
    scores = model.lattice(batch)
    for b, length in enumerate(batch.target_lengths.tolist()):
        total = 0.0
        for cuts in itertools.product([False, True], repeat=length - 1):
            log_p, start = 0.0, 0
            for place, end in enumerate([*cuts, True]):
                if end:
                    size = place - start + 1
                    log_p += scores[b, start, size - 1].item() if size <= 3 else NEG_INF
                    start = place + 1
            total += math.exp(log_p) if log_p > NEG_INF / 2 else 0.0
        assert model.log_probability(batch)[b].item() == pytest.approx(math.log(total), abs=1e-4)


def test_training_lowers_the_loss_and_reaches_every_parameter() -> None:
    model = random_model(dropout=0.1).train()
    batch = batch_of(model, PAIRS)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = model(batch).minimised
        optimiser.zero_grad()
        loss.backward()
        missing = [name for name, p in model.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
        assert not missing
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.3)
    x = torch.ones(1000, 1003)  # a size that is no multiple of four
    y = dropout(x)
    assert (y == 0).float().mean().item() == pytest.approx(0.3, abs=3e-3)
    assert y.mean().item() == pytest.approx(1.0, abs=3e-3)
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)
    torch.manual_seed(0)
    assert torch.equal(y, dropout(x)), "the same seed gives the same mask"
    assert torch.equal(dropout.eval()(x), x)
