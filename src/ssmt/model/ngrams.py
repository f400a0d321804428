"""n-gram inputs: what a decoder over characters is told of the characters that it has just read. Ours, not the paper's.

A subword model is handed the meaning of a subword by its embedding; a model over characters has to put it together
first. So to the embedding of each character are added those of all lexicon entries of two or more characters that end
with it. The state still depends on the characters alone, never on how they are segmented.

Shapes: B sentences, N rows of a search, T characters, L longest entry, V lexicon entries, U trie nodes, C alphabet,
D width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.model.tries import TrieBuffers
from ssmt.text.lexicon import ABSENT, Lexicon, Trie, legal_lengths


class Suffixes(ABC):
    """Which entries the last characters of each row of a search are."""

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Row i of the next step continues row `rows[i]` of this one."""

    @abstractmethod
    def read(self, symbols: Tensor, reading: Tensor | None) -> Tensor:
        """The entries of two or more characters that end with one more symbol a row, which (with `reading`, these rows
        alone) take it in; V fills up. (N,) -> (N, L-1)"""


class SuffixesByLength(Suffixes):
    """The place of the last characters in the lexicon's trie, by how many they are."""

    def __init__(self, trie: Trie, rows: int, longest: int, none: int) -> None:
        self.trie, self.none = trie, none
        self.nodes = torch.full((rows, longest), ABSENT, device=trie.codes.device)  # (N, L)

    def reorder(self, rows: Tensor) -> None:
        self.nodes = self.nodes.index_select(0, rows)

    def read(self, symbols: Tensor, reading: Tensor | None) -> Tensor:
        shorter = F.pad(self.nodes[:, :-1], (1, 0), value=0)  # the root stands before the suffix of one symbol
        nodes = self.trie.child(shorter, symbols.unsqueeze(1))
        self.nodes = nodes if reading is None else nodes.where(reading.unsqueeze(1), self.nodes)
        longer = nodes[:, 1:]
        entries = self.trie.entry_of_node[longer.clamp(min=0)].masked_fill(longer == ABSENT, ABSENT)
        return entries.where(entries != ABSENT, self.none)


class Automaton(NamedTuple):
    """The trie as an automaton (Aho and Corasick, 1975): its state is the longest suffix that is a node, from which all
    shorter ones follow."""

    alphabet_size: int
    following: Tensor  # (U*C,) the state after one more character
    entries: Tensor  # (U, L-1) the entries of two or more characters that are suffixes, by length, or V

    def to(self, device: torch.device) -> Automaton:
        return Automaton(self.alphabet_size, self.following.to(device), self.entries.to(device))


class SuffixesByState(Suffixes):
    """The state of the trie's automaton: one lookup in the place of L."""

    def __init__(self, automaton: Automaton, rows: int) -> None:
        self.automaton = automaton
        self.state = torch.zeros(rows, dtype=automaton.following.dtype, device=automaton.following.device)  # (N,)

    def reorder(self, rows: Tensor) -> None:
        self.state = self.state.index_select(0, rows)

    def read(self, symbols: Tensor, reading: Tensor | None) -> Tensor:
        code = self.state * self.automaton.alphabet_size + symbols
        state = self.automaton.following.index_select(0, code)
        self.state = state if reading is None else state.where(reading, self.state)
        return self.automaton.entries.index_select(0, state)


@lru_cache(maxsize=8)
def automaton_of(lexicon: Lexicon, device: torch.device) -> Automaton | None:
    """None where the alphabet is so large that the trie has no table of its edges."""
    trie, C = lexicon.trie, len(lexicon.alphabet)
    if trie.dense is None:
        return None
    following = trie.dense.view(-1, C).clone()  # (U, C)
    following[0].clamp_(min=0)  # what begins nothing leads back to the root
    shorter = torch.zeros(len(following), dtype=torch.int64)  # the longest suffix of each node's string that is a node
    entries = torch.full((len(following), lexicon.longest - 1), ABSENT)
    parent, character = trie.codes // C, trie.codes % C
    level = torch.zeros(1, dtype=torch.int64)  # nodes are numbered breadth first
    for length in range(1, lexicon.longest + 1):
        level = torch.isin(parent, level).nonzero().squeeze(-1) + 1
        if length > 1:
            shorter[level] = following[shorter[parent[level - 1]], character[level - 1]].long()
            entries[level] = entries[shorter[level]]
            entries[level, length - 2] = trie.entry_of_node[level]
        nowhere = following[level] == ABSENT
        following[level] = following[shorter[level]].where(nowhere, following[level])
    return Automaton(C, following.view(-1), entries.where(entries != ABSENT, len(lexicon))).to(device)


class NgramInputs(nn.Module):
    def __init__(self, lexicon: Lexicon, width: int) -> None:
        super().__init__()
        self.lexicon, self.longest = lexicon, lexicon.longest
        self.tries = TrieBuffers(lexicon.trie)
        self.entries = nn.Embedding(len(lexicon) + 1, width, padding_idx=len(lexicon))  # the last: no entry
        nn.init.normal_(self.entries.weight, std=width**-0.5)
        nn.init.zeros_(self.entries.weight[len(lexicon)])
        self.register_buffer("is_word", torch.from_numpy(lexicon.alphabet.is_word), persistent=False)

    def forward(self, read: Tensor) -> Tensor:
        """The sum over the entries that end with each character that is read. (B, T) -> (B, T, D)"""
        legal = legal_lengths(read, self.get_buffer("is_word"), self.longest)
        ids = self.tries.trie().ids_of_segments(read, legal, self.longest)  # (B, T, L)
        return self._sum(by_end(ids)[..., 1:])

    def start(self, rows: int) -> Suffixes:
        """Before anything is read."""
        automaton = automaton_of(self.lexicon, self.entries.weight.device)
        if automaton is None:
            return SuffixesByLength(self.tries.trie(), rows, self.longest, len(self.lexicon))
        return SuffixesByState(automaton, rows)

    def step(self, symbols: Tensor, suffixes: Suffixes, reading: Tensor | None = None) -> Tensor:
        """The same for one more symbol a row, which the suffixes take in (with `reading`, those of these rows).
        (N,) -> (N, D)"""
        return F.embedding(suffixes.read(symbols, reading), self.entries.weight).sum(dim=1)

    def _sum(self, entries: Tensor) -> Tensor:
        """(..., n) entries, or ABSENT -> (..., D)"""
        none = self.entries.num_embeddings - 1
        if entries.shape[-1] == 0:  # of single characters
            return self.entries.weight.new_zeros(*entries.shape[:-1], self.entries.embedding_dim)
        flat = entries.where(entries != ABSENT, none).view(-1, entries.shape[-1])
        summed = F.embedding_bag(flat, self.entries.weight, mode="sum", padding_idx=none)
        return summed.view(*entries.shape[:-1], -1)


def by_end(ids: Tensor) -> Tensor:
    """From segments by start to segments by end: [b, j, l] is the entry of length l+1 whose last character is j.
    (B, T, L) -> (B, T, L)"""
    T = ids.shape[1]
    columns = [F.pad(of_length, (extra, 0), value=ABSENT)[:, :T] for extra, of_length in enumerate(ids.unbind(dim=2))]
    return torch.stack(columns, dim=2)
