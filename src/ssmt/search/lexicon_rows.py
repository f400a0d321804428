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
    """Rows of prefix sums, as many as there can be open segments: what no open segment points to is overwritten."""

    def __init__(self, segments: SegmentModel, rows: int, device: torch.device) -> None:
        """`rows`: how many segments can be open at one time."""
        self.segments = segments
        self.dtype = sum_precision(device)  # differences of prefix sums must resolve small probabilities
        # What they do not resolve must stay possible where nothing else could write it.
        self.least = torch.finfo(self.dtype).eps / 4 if segments.characters is None else 0.0
        self.sums = torch.empty(rows, len(segments.lexicon), dtype=self.dtype, device=device)

    def begin(self, states: Tensor, used: Tensor) -> Tensor:
        """Segments begin beside those that are open in the slots `used`: states (N, D) -> their slots (N,)."""
        is_used = torch.zeros(len(self.sums), dtype=torch.uint8, device=states.device).index_fill_(0, used, 1)
        slot = is_used.argsort(stable=True)[: len(states)]
        self.sums[slot] = torch.cumsum(self.segments.entry_probs(states), dim=1, dtype=self.dtype)
        return slot

    def mass(self, slot: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """The probability of the entries start..end-1; 0 where there are none. slot (n,), start and end (n, ...)"""
        flat = self.sums.view(-1)
        before = (slot * self.sums.shape[1] - 1).view(-1, *([1] * (start.dim() - 1)))
        below_start = flat[(before + start).clamp_(min=0)].masked_fill_(start == 0, 0.0)
        difference = flat[(before + end).clamp_(min=0)] - below_start
        return difference.clamp_(min=self.least).masked_fill_(end == start, 0.0)
