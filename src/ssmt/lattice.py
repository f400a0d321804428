"""The dynamic program over segmentations, as pure functions on one tensor.

A lattice is `scores[b, j, l]`: the log-probability of the segment of length l+1 that starts at character j of sentence
b; `NEG_INF` where no such segment is legal. `lengths[b]` is the number of characters of sentence b, the final `</s>`
included. A segmentation is a path from 0 to `lengths[b]`; its log-probability is the sum over its segments.

Everything is computed in at least float32, whatever the precision of the model, and is exact for T < L too.

Shapes: B sentences, T characters, L segment lengths, K paths, M blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 16  # characters of the text that are worked off at once, see `_recursion`
NEG_INF = -1e30  # finite, so that differences of masked values are never NaN


class Posteriors(NamedTuple):
    segments: Tensor  # (B, T, L) probability that the segment is used
    boundaries: Tensor  # (B, T) probability of a cut after each character; 1 after the last, 0 on padding


class Paths(NamedTuple):
    scores: Tensor  # (B, K) log-probabilities, best first; NEG_INF where there are fewer than K paths
    ends: Tensor  # (B, K, T) bool: a segment ends after this character


def marginal(scores: Tensor, lengths: Tensor) -> Tensor:
    """Log of the sum over all segmentations of each sentence (Eq. 4). (B,)

    The gradient with respect to a segment's score is that segment's posterior probability, so the backward pass is
    one more recursion instead of an autograd graph of T steps.
    """
    return _Marginal.apply(at_least_float32(scores), lengths)  # type: ignore[no-any-return, no-untyped-call]


class _Marginal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        alpha = forward_table(scores)
        total = alpha.gather(1, lengths.unsqueeze(1)).squeeze(1)
        ctx.save_for_backward(scores, lengths, alpha, total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scores, lengths, alpha, total = ctx.saved_tensors
        beta = backward_table(scores, lengths)
        return _segment_posteriors(scores, alpha, beta, total) * gradient.view(-1, 1, 1), None


def forward_table(scores: Tensor) -> Tensor:
    """alpha[b, k]: log-probability of the first k characters with a boundary after them (Eq. 5). (B, T+1)"""
    return _recursion(_scores_by_end(scores).transpose(0, 1))


def backward_table(scores: Tensor, lengths: Tensor) -> Tensor:
    """beta[b, k]: log-probability of the characters from k on, given a boundary before them. (B, T+1)

    The same recursion from the other end. What comes after a sentence's end is passed over at no cost on the way.
    """
    T, L = scores.shape[1:]
    position, length = (torch.arange(n, device=lengths.device) for n in (T, L))
    left = lengths.unsqueeze(1) - position  # (B, T) characters from each position to the end
    passing = torch.where(length == 0, 0.0, NEG_INF).to(scores.dtype)
    within = scores.masked_fill(length >= left.unsqueeze(-1), NEG_INF)
    beta = _recursion(torch.where((left <= 0).unsqueeze(-1), passing, within).flip(1, 2)).flip(1)
    beyond = torch.arange(T + 1, device=lengths.device) > lengths.unsqueeze(1)
    return beta.masked_fill_(beyond, NEG_INF)


def _recursion(weights: Tensor) -> Tensor:
    """alpha_0 = 1, alpha_k = sum over i of alpha_{k-L+i} w_{k,i}, in logarithms; w_k is column k-1. (B, T+1)

    T steps one after the other are T small operations. So the text is cut into blocks: first, for all blocks at once,
    what each of the L values before a block gives to each place in it (BLOCK steps); then block after block, what
    these values are (T / BLOCK steps).
    """
    B, T, L = weights.shape
    M = -(-T // BLOCK)
    weights = F.pad(weights, (0, 0, 0, M * BLOCK - T), value=NEG_INF).view(B, M, 1, BLOCK, L)
    reached = weights.new_full((B, M, L, L + BLOCK), NEG_INF)  # from each value before the block: those, the block
    reached.diagonal(dim1=2, dim2=3).zero_()
    for place in range(BLOCK):
        reached[..., L + place] = _log_sum(reached[..., place : place + L] + weights[..., place, :], dim=-1)
    alpha = weights.new_full((B, L + M * BLOCK), NEG_INF)  # the columns before alpha_0 are before the sentence
    alpha[:, L - 1] = 0.0
    for block in range(M):
        first = block * BLOCK
        before = alpha[:, first : first + L].unsqueeze(-1)
        alpha[:, first + L : first + L + BLOCK] = _log_sum(before + reached[:, block, :, L:], dim=1)
    return alpha[:, L - 1 : L + T]


def _log_sum(terms: Tensor, dim: int) -> Tensor:
    """log of the sum of exp(terms), which are finite: torch's own looks for those that are not. `terms` are used up."""
    largest = terms.amax(dim, keepdim=True)
    return terms.sub_(largest).exp_().sum(dim).log_().add_(largest.squeeze(dim))


def posteriors(scores: Tensor, lengths: Tensor) -> Posteriors:
    """How probable each segment and each boundary is, given the sentence."""
    scores = at_least_float32(scores)
    alpha = forward_table(scores)
    beta = backward_table(scores, lengths)
    total = alpha.gather(1, lengths.unsqueeze(1)).squeeze(1)
    boundaries = torch.exp(alpha + beta - total.unsqueeze(1))[:, 1:]
    return Posteriors(_segment_posteriors(scores, alpha, beta, total), boundaries)


def best_path(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable segmentation: its log-probability (B,) and after which characters it cuts (B, T)."""
    paths = n_best(scores, lengths, 1)
    return paths.scores[:, 0], paths.ends[:, 0]


def n_best(scores: Tensor, lengths: Tensor, n: int) -> Paths:
    """The n most probable segmentations, best first (Viterbi with n candidates a position)."""
    scores = at_least_float32(scores)
    B, T, L = scores.shape
    by_end = _scores_by_end(scores)
    best = scores.new_full((B, L + T + 1, n), NEG_INF)
    best[:, L, 0] = 0.0
    origin = lengths.new_zeros(B, T + 1, n)  # which (window column, candidate) a path came from, as one number
    for k in range(1, T + 1):
        candidates = best[:, k : k + L] + by_end[k - 1].unsqueeze(-1)  # (B, L, n)
        best[:, L + k], origin[:, k] = candidates.view(B, -1).topk(n, dim=1)
    final = best[:, L:].gather(1, lengths.view(B, 1, 1).expand(B, 1, n)).squeeze(1)

    position = lengths.unsqueeze(1).repeat(1, n)  # (B, K): trace all paths back at once
    rank = torch.arange(n, device=lengths.device).expand(B, n)
    ends = torch.zeros(B, n, T + 1, dtype=torch.bool, device=scores.device)
    flat_origin = origin.view(B, -1)
    for _ in range(T):
        ends.scatter_(2, position.unsqueeze(-1), (position > 0).unsqueeze(-1))
        came_from = flat_origin.gather(1, position * n + rank)
        length = L - came_from // n
        rank = torch.where(position > 0, came_from % n, rank)
        position = (position - length).clamp(min=0)
    ends = ends[:, :, 1:] & (final > NEG_INF / 2).unsqueeze(-1)
    return Paths(final.clamp(min=NEG_INF), ends)


def sample(scores: Tensor, lengths: Tensor, n: int, generator: torch.Generator | None = None) -> Paths:
    """n segmentations drawn from their posterior distribution, with their log-probabilities."""
    scores = at_least_float32(scores)
    B, T, L = scores.shape
    alpha = forward_table(scores)
    window = torch.cat([scores.new_full((B, L), NEG_INF), alpha], dim=1).unfold(1, L, 1)[:, 1:-1]  # (B, T, L)
    arriving = window + _scores_by_end(scores).transpose(0, 1)  # log-weight of each last segment, by end
    position = lengths.unsqueeze(1).repeat(1, n)
    ends = torch.zeros(B, n, T + 1, dtype=torch.bool, device=scores.device)
    total = scores.new_zeros(B, n)
    rows = torch.arange(B, device=lengths.device).unsqueeze(1)
    for _ in range(T):
        ends.scatter_(2, position.unsqueeze(-1), (position > 0).unsqueeze(-1))
        weights = torch.softmax(arriving[rows, (position - 1).clamp(min=0)], dim=-1)  # (B, n, L)
        column = torch.multinomial(weights.view(-1, L), 1, generator=generator).view(B, n)
        length = torch.where(position > 0, L - column, 0)
        start = (position - length).clamp(min=0)
        used = scores[rows, start.clamp(max=T - 1), (length - 1).clamp(min=0)]
        total = total + torch.where(position > 0, used, 0.0)
        position = start
    return Paths(total, ends[:, :, 1:])


def path_score(scores: Tensor, ends: Tensor) -> Tensor:
    """The log-probability of given segmentations, each as the characters after which it cuts. (B,)"""
    T, L = scores.shape[1:]
    position = torch.arange(T, device=ends.device)
    previous_end = torch.where(ends, position, -1).cummax(dim=1).values
    start = torch.cat([torch.zeros_like(previous_end[:, :1]), previous_end[:, :-1] + 1], dim=1)  # of the segment here
    length = position - start
    used = scores.flatten(1).gather(1, start * L + length.clamp(max=L - 1))
    legal = torch.where(length < L, used, NEG_INF)
    return torch.where(ends, legal, 0.0).sum(dim=1)


def at_least_float32(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _scores_by_end(scores: Tensor) -> Tensor:
    """[k-1, b, i]: the segment that ends after k characters and starts at k - L + i, so that column i meets
    alpha[k - L + i] in a plain window. (T, B, L)"""
    B, T, L = scores.shape
    padded = torch.cat([scores.new_full((B, L - 1, L), NEG_INF), scores], dim=1)  # (B, L-1+T, L)
    columns = [padded[:, i : i + T, L - 1 - i] for i in range(L)]  # start k-L+i, length L-i
    return torch.stack(columns, dim=2).transpose(0, 1).contiguous()


def _segment_posteriors(scores: Tensor, alpha: Tensor, beta: Tensor, total: Tensor) -> Tensor:
    B, T, L = scores.shape
    after = torch.cat([beta, beta.new_full((B, L), NEG_INF)], dim=1).unfold(1, L, 1)[:, 1 : T + 1]  # beta[j+1+l]
    return torch.exp(alpha[:, :T].unsqueeze(-1) + scores + after - total.view(B, 1, 1))
