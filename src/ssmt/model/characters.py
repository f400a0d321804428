"""The character model: an LSTM that spells a segment, started from the decoder's state (p_char of Eq. 3).

Its first input is the character before the segment, then come the segment's own characters, and `<eom>` ends it.

Shapes: n segment starts, C alphabet, D width, H width of the LSTM, L segment lengths.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ssmt.config import NetworkConfig
from ssmt.lattice import NEG_INF
from ssmt.model.dropout import Dropout
from ssmt.text.alphabet import Alphabet

STARTS_AT_A_TIME = 4096


class Spelling(NamedTuple):
    """The LSTM's state inside a segment, and what it says of the next character."""

    hidden: Tensor  # (n, H)
    cell: Tensor  # (n, H)


class CharacterModel(nn.Module):
    def __init__(self, alphabet: Alphabet, config: NetworkConfig, longest: int) -> None:
        super().__init__()
        width = config.character_width or config.width
        self.eom, self.longest, self.proper = alphabet.eom, longest, config.proper
        self.start = nn.Linear(config.width, width)
        self.input = nn.Linear(config.width, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width, bias=False)
        self.output = nn.Linear(width, len(alphabet))
        self.input_dropout, self.dropout = Dropout(config.dropout), Dropout(config.dropout)
        # With `proper`, a segment begins with any character, and goes on with word characters or `<eom>` only.
        never = torch.tensor([symbol_is_never_generated(symbol, alphabet) for symbol in alphabet.symbols])
        inside = torch.from_numpy(alphabet.is_word).clone()
        inside[alphabet.eom] = True
        first = ~never if config.proper else torch.ones(len(alphabet), dtype=torch.bool)
        next = inside if config.proper else torch.ones(len(alphabet), dtype=torch.bool)
        self.register_buffer("first_allowed", torch.where(first, 0.0, NEG_INF), persistent=False)
        self.register_buffer("next_allowed", torch.where(next, 0.0, NEG_INF), persistent=False)
        self.register_buffer("is_word", torch.from_numpy(alphabet.is_word), persistent=False)

    def input_table(self, embedding: Tensor) -> Tensor:
        """The LSTM's input projection of every character: characters are few, so it is a table. (C, 4H)"""
        table: Tensor = self.input(self.input_dropout(embedding))
        return table

    def advance(self, spelling: Spelling, inputs: Tensor) -> Spelling:
        """One LSTM step; `inputs` are rows of the input table. (n, 4H)"""
        gates = inputs + self.recurrent(spelling.hidden)
        if not torch.is_grad_enabled():  # decoding takes many small steps: the less around each, the better
            return Spelling(*_lstm_cell(gates, spelling.cell)[:2])
        return Spelling(*_LSTMCell.apply(gates, spelling.cell))  # type: ignore[no-untyped-call]

    def begin(self, states: Tensor) -> Spelling:
        """Before the first input: h0 from the decoder's state, c0 = 0. (n, D)"""
        hidden = self.start(states)
        return Spelling(hidden, torch.zeros_like(hidden))

    def log_probs(self, spelling: Spelling, first: bool) -> Tensor:
        """Of every next character, `<eom>` included; `first` where none has been spelt yet. (n, C)"""
        allowed = self.get_buffer("first_allowed" if first else "next_allowed")
        return F.log_softmax(self.output(self.dropout(spelling.hidden)).float() + allowed, dim=-1)

    def log_probs_of_both(self, spelling: Spelling, new: int) -> Tensor:
        """The same where the first `new` rows have spelt nothing yet and the others have. (n, C)"""
        logits = self.output(self.dropout(spelling.hidden)).float()
        logits[:new] += self.get_buffer("first_allowed")
        logits[new:] += self.get_buffer("next_allowed")
        return F.log_softmax(logits, dim=-1)

    def segment_log_probs(
        self, states: Tensor, previous: Tensor, following: Tensor, legal: Tensor, embedding: Tensor
    ) -> Tensor:
        """log p_char of the segments of every length at every start; what is illegal has any value. (n, L)

        states (n, D), previous (n,) the character before each start, following (n, L) the characters from it on,
        legal (n,) the longest legal length. In training, what the backward pass needs is computed again there, for a
        part of the starts at a time: keeping it for all of them would take much memory.
        """
        table = self.input_table(embedding)
        starts = states, previous, following, legal
        if not torch.is_grad_enabled() or len(states) <= STARTS_AT_A_TIME:
            return self._spell(*starts, table)
        parts = zip(*(torch.split(tensor, STARTS_AT_A_TIME) for tensor in starts), strict=True)
        return torch.cat([checkpoint(self._spell, *part, table, use_reentrant=False) for part in parts])

    def _spell(self, states: Tensor, previous: Tensor, following: Tensor, legal: Tensor, table: Tensor) -> Tensor:
        """Starts are sorted by how far their spelling goes and the batch shrinks from step to step, so that no step is
        spent on a segment that is not legal. (n, L)"""
        L = self.longest
        steps = self._steps_needed(following[:, 0], legal)
        steps, order = torch.sort(steps, descending=True, stable=True)
        # The one synchronisation here: how many starts are still spelling at each step.
        counts = (steps.unsqueeze(0) > torch.arange(L + 1, device=steps.device).unsqueeze(1)).sum(dim=1).tolist()
        inputs = torch.cat([previous.unsqueeze(1), following], dim=1)[order]  # (n, L+1)
        spelling = self.begin(states[order])
        n = len(order)
        spelt = states.new_zeros(n, dtype=torch.float32)  # log-probability of the characters so far
        by_length = []
        for step in range(L + 1):
            count = counts[step]
            if count:
                spelling = Spelling(spelling.hidden[:count], spelling.cell[:count])
                spelling = self.advance(spelling, F.embedding(inputs[:count, step], table))
                log_probs = self.log_probs(spelling, first=step == 0)
            if step > 0:  # the segments of `step` characters end here; those beyond `count` end by necessity
                ending = log_probs[:, self.eom] if count else spelt[:0]
                by_length.append(torch.cat([spelt[:count] + ending, spelt[count:n]]))
            if step < L:
                wanted = inputs[:count, step + 1].unsqueeze(1)
                spelt = torch.cat([spelt[:count] + log_probs.gather(1, wanted).squeeze(1), spelt[count:]])
        scores = torch.stack(by_length, dim=1)  # (n, L)
        return torch.empty_like(scores).index_copy(0, order, scores)

    def _steps_needed(self, first: Tensor, legal: Tensor) -> Tensor:
        """LSTM steps that score all segments of a start: one a character, and one for `<eom>` unless it is certain."""
        if not self.proper:
            return legal + 1
        return torch.where(self.get_buffer("is_word")[first], (legal + 1).clamp(max=self.longest), 1)


def symbol_is_never_generated(symbol: str, alphabet: Alphabet) -> bool:
    """Symbols that cannot begin a segment: padding, `<eom>`, and foreign specials such as `<s>`."""
    return len(symbol) > 1 and symbol not in (alphabet.symbols[alphabet.eos], alphabet.symbols[alphabet.unk])


def _lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New hidden state and cell, and for the derivative: the activated gates and the squashed cell."""
    H = cell.shape[1]
    activated = torch.sigmoid(gates)
    torch.tanh(gates[:, 2 * H : 3 * H], out=activated[:, 2 * H : 3 * H])
    remember_in, forget, candidate, out = activated.chunk(4, dim=1)
    new_cell = torch.addcmul(forget * cell, remember_in, candidate)
    squashed = torch.tanh(new_cell)
    return out * squashed, new_cell, activated, squashed


class _LSTMCell(torch.autograd.Function):
    """The LSTM's element-wise part, with its derivative by hand: autograd would keep every intermediate tensor."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        hidden, new_cell, activated, squashed = _lstm_cell(gates, cell)
        ctx.save_for_backward(activated, cell, squashed)
        return hidden, new_cell

    @staticmethod
    def backward(ctx: Any, d_hidden: Tensor, d_cell: Tensor) -> tuple[Tensor, Tensor]:
        activated, cell, squashed = ctx.saved_tensors
        remember_in, forget, candidate, out = activated.chunk(4, dim=1)
        d_new = d_cell + d_hidden * out * (1 - squashed * squashed)
        d_gates = torch.cat(
            [
                d_new * candidate * remember_in * (1 - remember_in),
                d_new * cell * forget * (1 - forget),
                d_new * remember_in * (1 - candidate * candidate),
                d_hidden * squashed * out * (1 - out),
            ],
            dim=1,
        )
        return d_gates, d_new * forget
