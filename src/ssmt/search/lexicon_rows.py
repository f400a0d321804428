"""What the lexicon says at the starts of open segments, kept so that a beam can be reordered without moving it.

Probabilities of entries are kept as prefix sums: entries that begin with the same string are a range of the lexicon, so
that their mass is a difference. They are written once; hypotheses carry a pointer, the slot.

Shapes: n open segments, N of them that begin at one step, C alphabet, V lexicon entries, D width.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.model.classes import LexiconClasses
from ssmt.model.segments import SegmentModel
from ssmt.text.lexicon import Trie


class LexiconRows(Protocol):
    def begin(self, states: Tensor) -> Tensor:
        """Segments begin: states (N, D) -> their slots (N,)."""

    def enter(self, slot: Tensor, length: Tensor, characters: Tensor) -> Tensor:
        """Their slots once they have read one more character; `length` (n,) is how many they had read. (n,) -> (n,)"""

    def mass(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """The probability of the entries start..end-1 of segments that have read something; 0 where there are none.
        slot (n,), start and end (n, ...)"""

    def below(self, slot: Tensor, length: Tensor, trie: Trie, node: Tensor) -> Tensor:
        """The probability of all entries below each child of a segment's node. (n,) -> (n, C)"""


def sum_precision(device: torch.device) -> torch.dtype:
    """For sums over hundreds of steps or thousands of entries: float64, which mps has not."""
    return torch.float32 if device.type == "mps" else torch.float64


class _PrefixSums:
    """Rows of prefix sums in a ring: what is older than the longest segment is overwritten."""

    def __init__(self, steps: int, rows: int, entries: int, device: torch.device, only_source: bool) -> None:
        """`rows`: at most so many a step; `only_source`: nothing but the lexicon generates segments."""
        self.dtype = sum_precision(device)  # differences of prefix sums must resolve small probabilities
        # What they do not resolve must stay possible where nothing else could write it.
        self.least = torch.finfo(self.dtype).eps / 4 if only_source else 0.0
        self.rows = rows
        self.sums = torch.empty(steps * rows, entries, dtype=self.dtype, device=device)
        self.step = 0

    def next_slots(self, count: int) -> slice:
        first = self.step * self.rows
        self.step = (self.step + 1) % (len(self.sums) // self.rows)
        return slice(first, first + count)

    def difference(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """slot (n,), start and end (n, ...): the mass of places start..end-1."""
        flat = self.sums.view(-1)
        before = (slot * self.sums.shape[1] - 1).view(-1, *([1] * (start.dim() - 1)))
        below_start = flat[(before + start).clamp_(min=0)].masked_fill_(start == 0, 0.0)
        difference = flat[(before + end).clamp_(min=0)] - below_start
        return difference.clamp_(min=self.least).masked_fill_(end == start, 0.0)


class WholeLexicon(_PrefixSums):
    """The distribution over all entries, at every start."""

    def __init__(self, segments: SegmentModel, steps: int, rows: int, device: torch.device) -> None:
        super().__init__(steps, rows, len(segments.lexicon), device, segments.characters is None)
        self.segments = segments

    def begin(self, states: Tensor) -> Tensor:
        slots = self.next_slots(len(states))
        torch.cumsum(self.segments.entry_probs(states).to(self.dtype), dim=1, out=self.sums[slots])
        return torch.arange(slots.start, slots.stop, device=states.device)

    def enter(self, slot: Tensor, length: Tensor, characters: Tensor) -> Tensor:
        return slot

    def mass(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return self.difference(slot, start, end)

    def below(self, slot: Tensor, length: Tensor, trie: Trie, node: Tensor) -> Tensor:
        return self.difference(slot, *trie.ranges_below(node))


class ClassByClass(_PrefixSums):
    """A lexicon by first character: the classes at every start, and entries only of the characters that the beam has
    chosen. Before anything is read, the mass below a character is that of its class."""

    def __init__(
        self, segments: SegmentModel, classes: LexiconClasses, entries: nn.Linear, steps: int, rows: int
    ) -> None:
        device = entries.weight.device
        super().__init__(steps, rows, max(classes.sizes), device, segments.characters is None)
        self.classes, self.entries = classes, entries
        bounds = [0, *accumulate(classes.sizes)]
        self.range_of_class = [slice(start, end) for start, end in pairwise(bounds)]
        self.start_of_class = torch.tensor(bounds[:-1], device=device)  # (C,)
        self.first_entry = torch.zeros(len(self.sums), dtype=torch.int64, device=device)  # of each slot's class
        self.states: Tensor
        self.of_classes: Tensor  # (N, C) of the segments that begin now

    def begin(self, states: Tensor) -> Tensor:
        self.states, self.of_classes = states, self.classes.class_log_probs(states).to(self.dtype).exp()
        return torch.arange(len(states), device=states.device)

    def enter(self, slot: Tensor, length: Tensor, characters: Tensor) -> Tensor:
        begun = (length == 0).nonzero().squeeze(-1)
        first, order = torch.sort(characters[begun], stable=True)
        begun = begun[order]  # by class, so that each class is one matrix product
        starts = slot[begun]  # places among the states where segments begin now
        slots = self.next_slots(len(begun))
        states, of_class = self.states[starts], self.of_classes[starts, first].unsqueeze(1)
        classes, counts = torch.unique_consecutive(first, return_counts=True)
        row = 0
        for symbol, count in zip(classes.tolist(), counts.tolist(), strict=True):  # a synchronisation
            rows, entries = slice(row, row + count), self.range_of_class[symbol]
            logits = F.linear(states[rows], self.entries.weight[entries], self.entries.bias[entries])
            within = torch.softmax(logits.float(), dim=1).to(self.dtype) * of_class[rows]
            into = self.sums[slots.start + rows.start : slots.start + rows.stop, : within.shape[1]]
            torch.cumsum(within, dim=1, out=into)
            row += count
        self.first_entry[slots] = self.start_of_class[first]
        new = slot.clone()
        new[begun] = torch.arange(slots.start, slots.stop, device=slot.device)
        return new

    def mass(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        first = self.first_entry[slot].view(-1, *([1] * (start.dim() - 1)))
        return self.difference(slot, (start - first).clamp_(min=0), (end - first).clamp_(min=0))

    def below(self, slot: Tensor, length: Tensor, trie: Trie, node: Tensor) -> Tensor:
        is_new = length == 0
        result = self.of_classes.new_empty(len(slot), self.of_classes.shape[1])
        result[is_new] = self.of_classes[slot[is_new]]
        old = (~is_new).nonzero().squeeze(-1)
        result[old] = self.mass(slot[old], *trie.ranges_below(node[old]))
        return result


def lexicon_rows(
    segments: SegmentModel, steps: int, rows: int, device: torch.device, class_by_class: bool
) -> LexiconRows | None:
    """`class_by_class`: where the lexicon has classes, entries are looked at only of characters that are read."""
    if segments.entries is None:
        return None
    if class_by_class and segments.classes is not None and isinstance(segments.entries, nn.Linear):
        return ClassByClass(segments, segments.classes, segments.entries, steps, rows)
    return WholeLexicon(segments, steps, rows, device)
