"""Which of the source has been said already, for a decoder that decides where to look next. Ours, not the paper's.

A decoder that goes through a source has to know where it is. States know it vaguely: of two names in a list they tell
hardly which was written last, and so a part of the source is left out, or said again. But what has been written says
it: the first layer looks, once it has read a word (or a subword), for what of the source that word says, and training
with an alignment shows it how (`TranslationModel.decoded`). The layers above, which look for what comes next, are told

    of each source token    how much the word read last has looked at it and at the tokens around it, and how much
                            all words until now have (coverage, as in Tu et al. 2016)

and a small network makes of these what is added to the logits of their attention, for each head. All are functions of
what is written and of the source, like states.

Shapes: B sentences, T positions, S source tokens, H heads, F features.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.model.layers import linear

BEFORE, BEHIND = 3, 2  # how far the tokens before a token, and behind it, are looked at
INNER = 16
MOST_SAID = 2.0  # more than that is as much
SHARPNESS = 4.0  # of what comes out, so that it is learnt fast


class Coverage(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.inner, self.outer = linear(BEFORE + 1 + BEHIND + 3, INNER), linear(INNER, heads)
        nn.init.zeros_(self.outer.weight)

    def forward(self, looked: Tensor, said: Tensor) -> Tensor:
        """What is added to the logits: looked (B, T, S) where the first layer looks at each position, said (B, T, S)
        the sum of that up to there -> (B, H, T, S)"""
        S = looked.shape[-1]
        looked_around = F.pad(looked, (BEFORE, BEHIND)).unfold(2, S, 1)  # (B, T, BEFORE + 1 + BEHIND, S)
        said_around = F.pad(said.clamp(max=MOST_SAID), (1, 1)).unfold(2, S, 1)  # (B, T, 3, S)
        features = torch.cat([looked_around, said_around], dim=2).transpose(2, 3)  # (B, T, S, F)
        told: Tensor = self.outer(torch.tanh(self.inner(features)))
        return told.permute(0, 3, 1, 2) * SHARPNESS
