"""The lexicon by first character: p_lex(s | h) = p(first character of s | h) p(s | h, first character). Ours, not the
paper's.

All segments that start at j begin with the same character, and in training that character is known. So training pays
for the classes, as many as the alphabet has characters, and for the entries of one class, some hundreds instead of V.
The lexicon is ordered by its entries' characters: those of a class are a range.

Shapes: n segment starts, C alphabet (a class for each character), V lexicon entries, D width, L segment lengths.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.lattice import NEG_INF, at_least_float32
from ssmt.text.lexicon import ABSENT, Lexicon


class LexiconClasses(nn.Module):
    def __init__(self, lexicon: Lexicon, width: int) -> None:
        super().__init__()
        C = len(lexicon.alphabet)
        count = Counter(entry[0] for entry in lexicon.entries)
        self.sizes = [count[character] for character in range(C)]
        self.logits = nn.Linear(width, C)
        nn.init.normal_(self.logits.weight, std=width**-0.5)
        nn.init.zeros_(self.logits.bias)
        first = torch.tensor([entry[0] for entry in lexicon.entries])
        self.register_buffer("first", first, persistent=False)  # (V,) the class of each entry
        empty = torch.tensor([size == 0 for size in self.sizes])
        self.register_buffer("possible", torch.where(empty, NEG_INF, 0.0), persistent=False)  # (C,)

    def class_log_probs(self, states: Tensor) -> Tensor:
        """(n, D) -> (n, C)"""
        return F.log_softmax(at_least_float32(self.logits(states)) + self.get_buffer("possible"), dim=-1)

    def log_probs(self, states: Tensor, entry_logits: Tensor) -> Tensor:
        """Of every entry. (n, D), (n, V) -> (n, V)"""
        by_class = torch.split(entry_logits, [size for size in self.sizes if size], dim=1)
        within = [
            F.log_softmax(logits, dim=1) if logits.shape[1] > 1 else torch.zeros_like(logits) for logits in by_class
        ]
        return self.class_log_probs(states)[:, self.get_buffer("first")] + torch.cat(within, dim=1)

    def selected_log_probs(self, states: Tensor, weight: Tensor, bias: Tensor, first: Tensor, ids: Tensor) -> Tensor:
        """Of some entries that begin with the character `first` (n,), NEG_INF where an id is ABSENT.
        states (n, D), weight (V, D), bias (V,), ids (n, L) -> (n, L)"""
        of_class = self.class_log_probs(states).gather(1, first.unsqueeze(1))  # (n, 1)
        within = _SelectedWithinClass.apply(states, weight, bias, first, ids, self.sizes)  # type: ignore[no-untyped-call]
        selected: Tensor = (of_class + within).masked_fill(ids == ABSENT, NEG_INF)
        return selected


class _SelectedWithinClass(torch.autograd.Function):
    """log p(entry | class) of some entries of each state's class; what is ABSENT has any value.

    Starts are sorted by class, so that each class is one matrix product. The probabilities are kept for the backward
    pass: over one class each, they are few.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, first: Tensor, ids: Tensor, sizes: list[int]
    ) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        order = torch.sort(first, stable=True).indices
        sorted_states, half_weight, half_bias = states[order].to(dtype), weight.to(dtype), bias.to(dtype)
        groups = _groups(first, sizes)  # a synchronisation: how many starts each class has
        ranges_start = first.new_tensor([0, *sizes]).cumsum(0)[first][order].unsqueeze(1)  # of each start's class
        places = (ids[order] - ranges_start).clamp_(min=0)  # (n, L) within the class
        selected = states.new_zeros(ids.shape, dtype=torch.promote_types(states.dtype, torch.float32))
        probabilities = []
        for rows, entries in groups:
            logits = F.linear(sorted_states[rows], half_weight[entries], half_bias[entries]).to(selected.dtype)
            log_probs = torch.log_softmax(logits, dim=1)
            torch.gather(log_probs, 1, places[rows], out=selected[rows])
            probabilities.append(log_probs.exp_())
        ctx.save_for_backward(sorted_states, half_weight, order, ids, places, *probabilities)
        ctx.groups, ctx.dtypes = groups, (states.dtype, weight.dtype, bias.dtype)
        return torch.empty_like(selected).index_copy_(0, order, selected)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        states, weight, order, ids, places, *probabilities = ctx.saved_tensors
        gradient = gradient.masked_fill(ids == ABSENT, 0.0)[order]
        total = gradient.sum(dim=1, keepdim=True).neg_()
        d_sorted = torch.zeros_like(states)
        d_weight = torch.zeros_like(weight, dtype=gradient.dtype)
        d_bias = gradient.new_zeros(len(weight))
        for (rows, entries), probability in zip(ctx.groups, probabilities, strict=True):
            d_logits = probability * total[rows]
            d_logits.scatter_add_(1, places[rows], gradient[rows])
            torch.sum(d_logits, dim=0, out=d_bias[entries])
            half = d_logits.to(weight.dtype)
            torch.mm(half, weight[entries], out=d_sorted[rows])
            d_weight[entries] = half.T @ states[rows]
        d_states = torch.empty_like(d_sorted).index_copy_(0, order, d_sorted)
        state_dtype, weight_dtype, bias_dtype = ctx.dtypes
        return d_states.to(state_dtype), d_weight.to(weight_dtype), d_bias.to(bias_dtype), None, None, None


def _groups(first: Tensor, sizes: list[int]) -> list[tuple[slice, slice]]:
    """The starts of each class, among all of them sorted by class, and its entries. Where a class has one entry that
    entry is certain, and there is nothing to compute."""
    counts = torch.bincount(first, minlength=len(sizes)).tolist()
    groups, row, entry = [], 0, 0
    for count, size in zip(counts, sizes, strict=True):
        if count and size > 1:
            groups.append((slice(row, row + count), slice(entry, entry + size)))
        row, entry = row + count, entry + size
    return groups
