"""From decoder states to segment scores: the mixture of character model and lexicon (Eq. 3).

    p(s | h_j) = g_j p_char(s | h_j) + (1 - g_j) p_lex(s | h_j)

Shapes: B sentences, T characters, L segment lengths, V lexicon entries, D width, n real characters of a batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.config import NetworkConfig
from ssmt.lattice import NEG_INF
from ssmt.model.characters import CharacterModel
from ssmt.model.classes import LexiconClasses
from ssmt.model.copies import SegmentCopies, Units
from ssmt.model.dropout import Dropout
from ssmt.model.tries import TrieBuffers
from ssmt.text.lexicon import ABSENT, Trie, legal_lengths
from ssmt.text.vocabulary import Vocabulary

CHUNK_ELEMENTS = 1 << 22  # logits over the lexicon that exist at one time: 16 MiB


class SegmentModel(nn.Module):
    """Scores segments given the state at their start. Knows nothing of the body that made the state."""

    def __init__(self, vocabulary: Vocabulary, config: NetworkConfig, longest: int) -> None:
        super().__init__()
        lexicon, alphabet = vocabulary.lexicon, vocabulary.alphabet
        self.longest = longest
        self.pad = alphabet.pad
        self.lexicon = lexicon
        self.tries = TrieBuffers(lexicon.trie)
        self.characters = CharacterModel(alphabet, config, longest) if config.characters else None
        self.entries: nn.Module | None = nn.Linear(config.width, len(lexicon)) if config.lexicon else None
        by_class = config.lexicon and config.lexicon_by_first_character
        self.classes = LexiconClasses(lexicon, config.width) if by_class else None
        self.gate = nn.Linear(config.width, 1) if config.characters and config.lexicon else None
        self.copies = SegmentCopies(vocabulary, config, longest) if config.copies else None
        self.dropout = Dropout(config.dropout)
        self.register_buffer("is_word", torch.from_numpy(alphabet.is_word), persistent=False)
        if isinstance(self.entries, nn.Linear):
            nn.init.normal_(self.entries.weight, std=config.width**-0.5)
            nn.init.zeros_(self.entries.bias)

    @property
    def trie(self) -> Trie:
        return self.tries.trie()

    def log_gates(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """log g and log (1 - g): the shares of the character model and of the lexicon. (..., D) -> (...)"""
        if self.gate is None:
            certain, never = torch.zeros(2, *states.shape[:-1], device=states.device).unbind()
            never = never + NEG_INF
            return (certain, never) if self.entries is None else (never, certain)
        logits = self.gate(states).squeeze(-1).float()
        return F.logsigmoid(logits), F.logsigmoid(-logits)

    def entry_log_probs(self, states: Tensor) -> Tensor:
        """log p_lex of every entry. (n, D) -> (n, V)"""
        assert self.entries is not None
        states = self.dropout(states)
        logits = self.entries(states).float()
        return F.log_softmax(logits, dim=-1) if self.classes is None else self.classes.log_probs(states, logits)

    def entry_probs(self, states: Tensor) -> Tensor:
        """p_lex of every entry. (n, D) -> (n, V)"""
        if self.classes is not None:
            return self.entry_log_probs(states).exp()
        assert self.entries is not None
        return torch.softmax(self.entries(self.dropout(states)).float(), dim=-1)

    def selected_entry_log_probs(self, states: Tensor, first: Tensor, ids: Tensor) -> Tensor:
        """log p_lex of some entries that all begin with the character `first` (n,), NEG_INF where an id is ABSENT.
        (n, D), (n, L) -> (n, L)"""
        if isinstance(self.entries, nn.Linear):
            states, weight, bias = self.dropout(states), self.entries.weight, self.entries.bias
            if self.classes is not None:
                return self.classes.selected_log_probs(states, weight, bias, first, ids)
            return selected_log_probs(states, weight, bias, ids)
        parts = [  # weights of 8 bits
            self.entry_log_probs(states[rows]).gather(1, ids[rows].clamp(min=0))
            for rows in _chunks(len(states), len(self.lexicon))
        ]
        return torch.cat(parts).masked_fill(ids == ABSENT, NEG_INF)

    def forward(
        self,
        target: Tensor,
        lengths: Tensor,
        previous: Tensor,
        states: Tensor,
        embedding: Tensor,
        units: Units | None = None,
    ) -> Tensor:
        """Scores of all segments of each target: the lattice. (B, T, L)

        target (B, T), lengths (B,), previous (B, T) the character before each position, states (B, T, D),
        embedding (C, D) of the characters, units what can be copied.
        """
        L = self.longest
        legal_by_place = legal_lengths(target, self.get_buffer("is_word"), L, lengths)  # (B, T)
        real = legal_by_place > 0
        legal, state = legal_by_place[real], states[real]  # (n,), (n, D): only real characters cost anything
        log_g, log_not_g = self.log_gates(state)
        parts = []
        if self.characters is not None:
            following = F.pad(target, (0, L - 1), value=self.pad).unfold(1, L, 1)[real]  # (n, L)
            spelt = self.characters.segment_log_probs(state, previous[real], following, legal, embedding)
            parts.append(log_g.unsqueeze(1) + spelt)
        if self.entries is not None:
            ids = self.trie.ids_of_segments(target, legal_by_place, L)[real]  # (n, L)
            parts.append(log_not_g.unsqueeze(1) + self.selected_entry_log_probs(state, target[real], ids))
        mixed = torch.logaddexp(*parts) if len(parts) == 2 else parts[0]  # Eq. 3
        if units is not None:
            assert self.copies is not None
            copied, log_rest = self.copies(target, legal_by_place, previous, states, units)
            mixed = torch.logaddexp(log_rest[real].unsqueeze(1) + mixed, copied[real])
        is_legal = torch.arange(L, device=legal.device) < legal.unsqueeze(1)
        scores = mixed.new_full((*target.shape, L), NEG_INF)
        scores[real] = mixed.masked_fill(~is_legal, NEG_INF)
        return scores


def selected_log_probs(states: Tensor, weight: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """`log_softmax(states @ weight.T + bias).gather(ids)`, NEG_INF where an id is ABSENT, a chunk at a time.

    No (n, V) tensor outlives its chunk: the backward pass computes the logits again.
    states (n, D), weight (V, D), bias (V,), ids (n, L) -> (n, L)
    """
    return _SelectedLogProbs.apply(states, weight, bias, ids)  # type: ignore[no-any-return, no-untyped-call]


class _SelectedLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        half_states, half_weight = states.to(dtype), weight.to(dtype)
        selected = states.new_empty(ids.shape, dtype=torch.promote_types(states.dtype, torch.float32))
        normaliser = selected.new_empty(len(states), 1)
        for rows in _chunks(len(states), len(weight)):
            logits = F.linear(half_states[rows], half_weight, bias.to(dtype)).to(selected.dtype)
            torch.logsumexp(logits, dim=1, keepdim=True, out=normaliser[rows])
            selected[rows] = logits.gather(1, ids[rows].clamp(min=0)) - normaliser[rows]
        ctx.save_for_backward(half_states, half_weight, bias, ids, normaliser)
        ctx.dtypes = states.dtype, weight.dtype
        return selected.masked_fill_(ids == ABSENT, NEG_INF)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states, weight, bias, ids, normaliser = ctx.saved_tensors
        gradient = gradient.masked_fill(ids == ABSENT, 0.0)
        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight, dtype=gradient.dtype)
        d_bias = torch.zeros_like(bias, dtype=gradient.dtype)
        for rows in _chunks(len(states), len(weight)):
            d_logits = F.linear(states[rows], weight, bias.to(weight.dtype)).to(gradient.dtype)
            d_logits.sub_(normaliser[rows]).exp_()  # the probabilities
            d_logits.mul_(-gradient[rows].sum(dim=1, keepdim=True))
            d_logits.scatter_add_(1, ids[rows].clamp(min=0), gradient[rows])
            d_bias += d_logits.sum(dim=0)
            half = d_logits.to(weight.dtype)
            d_states[rows] = half @ weight
            d_weight += half.T @ states[rows]
        state_dtype, weight_dtype = ctx.dtypes
        return d_states.to(state_dtype), d_weight.to(weight_dtype), d_bias.to(bias.dtype), None


def _chunks(rows: int, columns: int) -> list[slice]:
    size = max(1, CHUNK_ELEMENTS // columns)
    return [slice(start, start + size) for start in range(0, rows, size)]
