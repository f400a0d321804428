"""The dynamic program against the enumeration of all segmentations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ssmt import lattice
from ssmt.lattice import NEG_INF


def enumerate_paths(scores: Tensor, length: int) -> list[tuple[float, tuple[bool, ...]]]:
    """Every segmentation of one sentence: its log-probability and after which characters it cuts."""
    T, L = scores.shape
    paths = []
    for cuts in itertools.product([False, True], repeat=length - 1):
        ends = (*cuts, True)
        total, start = 0.0, 0
        for position, end in enumerate(ends):
            if end:
                size = position - start + 1
                total += float(scores[start, size - 1]) if size <= L else NEG_INF
                start = position + 1
        if total > NEG_INF / 2:
            paths.append((total, ends + (False,) * (T - length)))
    return sorted(paths, reverse=True)


@st.composite
def lattices(draw: st.DrawFn, max_T: int = 7, max_L: int = 5) -> tuple[Tensor, Tensor]:
    """Random scores with some segments illegal, sentences of several lengths in a batch, T < L included."""
    B, T, L = draw(st.integers(1, 3)), draw(st.integers(1, max_T)), draw(st.integers(1, max_L))
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    scores = -5 * torch.rand(B, T, L, generator=generator, dtype=torch.float64)
    illegal = torch.rand(B, T, L, generator=generator) < 0.3
    illegal[:, :, 0] = False  # one character is always a legal segment
    scores[illegal] = NEG_INF
    lengths = torch.randint(1, T + 1, (B,), generator=generator)
    for b, length in enumerate(lengths.tolist()):
        for j in range(T):
            for size in range(1, L + 1):
                if j + size > length:
                    scores[b, j, size - 1] = NEG_INF
    return scores, lengths


@given(lattices())
@settings(max_examples=100, deadline=None)
def test_marginal_is_the_sum_over_all_segmentations(case: tuple[Tensor, Tensor]) -> None:
    scores, lengths = case
    result = lattice.marginal(scores, lengths)
    for b, length in enumerate(lengths.tolist()):
        expected = math.log(sum(math.exp(score) for score, _ in enumerate_paths(scores[b], length)))
        assert result[b].item() == pytest.approx(expected, abs=1e-10)


@given(lattices())
@settings(max_examples=60, deadline=None)
def test_gradient_is_the_posterior(case: tuple[Tensor, Tensor]) -> None:
    scores, lengths = case
    scores.requires_grad_(True)
    weights = torch.arange(1, len(lengths) + 1, dtype=torch.float64)
    (lattice.marginal(scores, lengths) * weights).sum().backward()
    segments, boundaries = lattice.posteriors(scores.detach(), lengths)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, segments * weights.view(-1, 1, 1))
    for b, length in enumerate(lengths.tolist()):
        paths = enumerate_paths(scores[b].detach(), length)
        total = sum(math.exp(score) for score, _ in paths)
        for k in range(scores.shape[1]):
            expected = sum(math.exp(score) for score, ends in paths if ends[k]) / total
            assert boundaries[b, k].item() == pytest.approx(expected, abs=1e-10)
        used = torch.zeros_like(scores[b])
        for score, ends in paths:
            start = 0
            for position in range(length):
                if ends[position]:
                    used[start, position - start] += math.exp(score) / total
                    start = position + 1
        torch.testing.assert_close(segments[b], used.detach())


def test_gradient_by_finite_differences() -> None:
    torch.manual_seed(0)
    scores = (-torch.rand(2, 6, 3, dtype=torch.float64)).requires_grad_(True)
    lengths = torch.tensor([6, 4])
    assert torch.autograd.gradcheck(lambda s: lattice.marginal(s, lengths), (scores,))


@given(lattices(), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_n_best_are_the_best_of_all(case: tuple[Tensor, Tensor], n: int) -> None:
    scores, lengths = case
    paths = lattice.n_best(scores, lengths, n)
    best_scores, best_ends = lattice.best_path(scores, lengths)
    for b, length in enumerate(lengths.tolist()):
        expected = enumerate_paths(scores[b], length)
        for k in range(n):
            if k >= len(expected):
                assert paths.scores[b, k] <= NEG_INF / 2
                assert not paths.ends[b, k].any()
                continue
            assert paths.scores[b, k].item() == pytest.approx(expected[k][0], abs=1e-10)
            assert tuple(paths.ends[b, k].tolist()) == expected[k][1]
        assert best_scores[b].item() == pytest.approx(expected[0][0], abs=1e-10)
        assert tuple(best_ends[b].tolist()) == expected[0][1]
        torch.testing.assert_close(lattice.path_score(scores[b : b + 1], best_ends[b : b + 1])[0], best_scores[b])


def test_samples_follow_the_posterior() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = -2 * torch.rand(1, 5, 3, generator=generator, dtype=torch.float64)
    for j in range(5):
        scores[0, j, 5 - j :] = NEG_INF
    lengths = torch.tensor([5])
    n = 20_000
    drawn = lattice.sample(scores, lengths, n, generator=generator)
    expected = enumerate_paths(scores[0], 5)
    total = sum(math.exp(score) for score, _ in expected)
    for score, ends in expected:
        hits = (drawn.ends[0] == torch.tensor(ends)).all(dim=-1)
        share = math.exp(score) / total
        assert hits.double().mean().item() == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / n))
        torch.testing.assert_close(drawn.scores[0][hits], torch.full((int(hits.sum()),), score, dtype=torch.float64))


def test_sentences_of_a_batch_do_not_touch_each_other() -> None:
    generator = torch.Generator().manual_seed(2)
    scores = -3 * torch.rand(1, 6, 4, generator=generator)
    for j in range(6):
        scores[0, j, 6 - j :] = NEG_INF
    padded = torch.cat([scores, torch.full((1, 5, 4), NEG_INF)], dim=1).repeat(2, 1, 1)
    padded[1] = -3 * torch.rand(11, 4, generator=generator)
    lengths = torch.tensor([6, 11])
    alone = torch.tensor([6])
    assert lattice.marginal(padded, lengths)[0] == pytest.approx(lattice.marginal(scores, alone).item(), abs=1e-6)
    assert torch.equal(lattice.best_path(padded, lengths)[1][0, :6], lattice.best_path(scores, alone)[1][0])


def test_half_precision_scores_are_summed_in_float32() -> None:
    scores = torch.full((1, 400, 1), -3.3, dtype=torch.bfloat16)
    expected = float(scores[0, 0, 0].float()) * 400
    assert lattice.marginal(scores, torch.tensor([400])).item() == pytest.approx(expected, rel=1e-5)
