"""The lexicon by first character: p_lex(s | h) = p(first character of s | h) p(s | h, first character). Ours, not the
paper's.

All segments that start at j begin with the same character, and in training that character is known. So training pays
for the classes, as many as the alphabet has characters, and for the entries of one class, some hundreds instead of V.
The lexicon is ordered by its entries' characters: those of a class are a range, and those of neighbouring classes too.

Shapes: n segment starts, C alphabet (a class for each character), V lexicon entries, D width, L segment lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.lattice import NEG_INF, at_least_float32
from ssmt.text.lexicon import ABSENT, Lexicon

SMALL = 256  # entries that neighbouring classes may have together, to be worked off at once


class Neighbours(NamedTuple):
    """Classes next to each other, those before `stop` that no others have, and what entries they have together."""

    stop: int
    entries: slice
    are_several: bool  # that have entries


class LexiconClasses(nn.Module):
    def __init__(self, lexicon: Lexicon, width: int) -> None:
        super().__init__()
        C = len(lexicon.alphabet)
        count = Counter(entry[0] for entry in lexicon.entries)
        self.sizes = [count[character] for character in range(C)]
        self.neighbours = list(neighbours(self.sizes))
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
        first = self.get_buffer("first")
        class_of_each = first.expand_as(entry_logits)
        of_classes = self.class_log_probs(states)
        highest = torch.full_like(of_classes, -torch.inf).scatter_reduce(1, class_of_each, entry_logits, "amax")
        shifted = entry_logits - highest.index_select(1, first)
        total = torch.zeros_like(of_classes).scatter_add(1, class_of_each, shifted.exp())
        return shifted + (of_classes - total.log()).index_select(1, first)

    def selected_log_probs(self, states: Tensor, weight: Tensor, bias: Tensor, first: Tensor, ids: Tensor) -> Tensor:
        """Of some entries that begin with the character `first` (n,), NEG_INF where an id is ABSENT.
        states (n, D), weight (V, D), bias (V,), ids (n, L) -> (n, L)"""
        of_class = self.class_log_probs(states).gather(1, first.unsqueeze(1))  # (n, 1)
        parts = self.neighbours, self.get_buffer("first")
        within = _SelectedWithinClass.apply(states, weight, bias, first, ids, *parts)  # type: ignore[no-untyped-call]
        selected: Tensor = (of_class + within).masked_fill(ids == ABSENT, NEG_INF)
        return selected


class _SelectedWithinClass(torch.autograd.Function):
    """log p(entry | class) of some entries of each state's class; what is ABSENT has any value.

    Starts are sorted by class, so that a class, or a few small ones, are one matrix product; what it has of other
    classes is left out of each start's sum. The probabilities are kept for the backward pass: they are few.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        first: Tensor,
        ids: Tensor,
        neighbours: Sequence[Neighbours],
        class_of_entry: Tensor,
    ) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        sorted_first, order = torch.sort(first, stable=True)
        sorted_states, half_weight, half_bias = states[order].to(dtype), weight.to(dtype), bias.to(dtype)
        groups = list(_groups(sorted_first, neighbours))
        sorted_ids = ids[order]
        places = torch.empty_like(sorted_ids)  # (n, L) among the entries of a group
        selected = states.new_zeros(ids.shape, dtype=torch.promote_types(states.dtype, torch.float32))
        probabilities = []
        for rows, entries, is_mixed in groups:
            torch.sub(sorted_ids[rows], entries.start, out=places[rows]).clamp_(min=0)
            logits = F.linear(sorted_states[rows], half_weight[entries], half_bias[entries]).to(selected.dtype)
            if is_mixed:
                logits.masked_fill_(class_of_entry[entries] != sorted_first[rows].unsqueeze(1), NEG_INF)
            log_probs = torch.log_softmax(logits, dim=1)
            torch.gather(log_probs, 1, places[rows], out=selected[rows])
            probabilities.append(log_probs.exp_())
        ctx.save_for_backward(sorted_states, half_weight, order, ids, places, *probabilities)
        ctx.groups, ctx.dtypes = groups, (states.dtype, weight.dtype, bias.dtype)
        return torch.empty_like(selected).index_copy_(0, order, selected)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
        states, weight, order, ids, places, *probabilities = ctx.saved_tensors
        gradient = gradient.masked_fill(ids == ABSENT, 0.0)[order]
        total = gradient.sum(dim=1, keepdim=True).neg_()
        d_sorted = torch.zeros_like(states)
        d_weight = torch.zeros_like(weight, dtype=gradient.dtype)
        d_bias = gradient.new_zeros(len(weight))
        for (rows, entries, _), probability in zip(ctx.groups, probabilities, strict=True):
            d_logits = probability * total[rows]
            d_logits.scatter_add_(1, places[rows], gradient[rows])
            torch.sum(d_logits, dim=0, out=d_bias[entries])
            half = d_logits.to(weight.dtype)
            torch.mm(half, weight[entries], out=d_sorted[rows])
            d_weight[entries] = half.T @ states[rows]
        d_states = torch.empty_like(d_sorted).index_copy_(0, order, d_sorted)
        state_dtype, weight_dtype, bias_dtype = ctx.dtypes
        return d_states.to(state_dtype), d_weight.to(weight_dtype), d_bias.to(bias_dtype), None, None, None, None


def neighbours(sizes: Sequence[int]) -> Iterator[Neighbours]:
    """All classes, one by one or several small ones together; sizes: entries of each class."""
    begin = end = filled = 0
    for character, size in enumerate(sizes):
        if end > begin and size and end - begin + size > SMALL:
            yield Neighbours(character, slice(begin, end), filled > 1)
            begin, filled = end, 0
        end, filled = end + size, filled + (size > 0)
    yield Neighbours(len(sizes), slice(begin, end), filled > 1)


def _groups(sorted_first: Tensor, neighbours: Sequence[Neighbours]) -> Iterator[tuple[slice, slice, bool]]:
    """Of neighbouring classes: the starts among all of them, sorted by class; the entries; and whether they are of more
    than one class. Where there is one entry that entry is certain, and there is nothing to compute."""
    stops = sorted_first.new_tensor([of.stop for of in neighbours])
    row = 0
    for of, end in zip(neighbours, torch.searchsorted(sorted_first, stops).tolist(), strict=True):  # a synchronisation
        if end > row and of.entries.stop - of.entries.start > 1:
            yield slice(row, end), of.entries, of.are_several
        row = end
