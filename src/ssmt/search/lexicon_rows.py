"""What the lexicon says at the starts of open segments, kept so that a beam can be reordered without moving it.

Probabilities of entries are kept as prefix sums: entries that begin with the same string are a range of the lexicon, so
that their mass is a difference. They are written once; hypotheses carry a pointer, the slot.

Shapes: n open segments, N of them that begin at one step, V lexicon entries, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ssmt.model.segments import SegmentModel


def sum_precision(device: torch.device) -> torch.dtype:
    """For sums over hundreds of steps or thousands of entries: float64, which mps has not."""
    return torch.float32 if device.type == "mps" else torch.float64


class LexiconRows:
    """Rows of prefix sums in a ring: what is older than the longest segment is overwritten."""

    def __init__(self, segments: SegmentModel, steps: int, rows: int, device: torch.device) -> None:
        """`rows`: at most so many a step."""
        self.segments, self.rows, self.step = segments, rows, 0
        self.dtype = sum_precision(device)  # differences of prefix sums must resolve small probabilities
        # What they do not resolve must stay possible where nothing else could write it.
        self.least = torch.finfo(self.dtype).eps / 4 if segments.characters is None else 0.0
        self.sums = torch.empty(steps * rows, len(segments.lexicon), dtype=self.dtype, device=device)

    def begin(self, states: Tensor) -> Tensor:
        """Segments begin: states (N, D) -> their slots (N,)."""
        first = self.step * self.rows
        self.step = (self.step + 1) % (len(self.sums) // self.rows)
        last = first + len(states)
        torch.cumsum(self.segments.entry_probs(states), dim=1, dtype=self.dtype, out=self.sums[first:last])
        return torch.arange(first, last, device=states.device)

    def mass(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """The probability of the entries start..end-1; 0 where there are none. slot (n,), start and end (n, ...)"""
        flat = self.sums.view(-1)
        before = (slot * self.sums.shape[1] - 1).view(-1, *([1] * (start.dim() - 1)))
        below_start = flat[(before + start).clamp_(min=0)].masked_fill_(start == 0, 0.0)
        difference = flat[(before + end).clamp_(min=0)] - below_start
        return difference.clamp_(min=self.least).masked_fill_(end == start, 0.0)
