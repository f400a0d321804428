"""n-gram inputs: what a decoder over characters is told of the characters that it has just read. Ours, not the paper's.

A subword model is handed the meaning of a subword by its embedding; a model over characters has to put it together
first. So to the embedding of each character are added those of all lexicon entries of two or more characters that end
with it. The state still depends on the characters alone, never on how they are segmented.

Shapes: B sentences, N rows of a search, T characters, L longest entry, V lexicon entries, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.model.tries import TrieBuffers
from ssmt.text.lexicon import ABSENT, Lexicon, legal_lengths


class Suffixes:
    """Where the last characters of each row of a search are in the lexicon's trie, by how many they are."""

    def __init__(self, nodes: Tensor) -> None:
        self.nodes = nodes  # (N, L)

    def reorder(self, rows: Tensor) -> None:
        self.nodes = self.nodes.index_select(0, rows)


class NgramInputs(nn.Module):
    def __init__(self, lexicon: Lexicon, width: int) -> None:
        super().__init__()
        self.longest = lexicon.longest
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
        return Suffixes(torch.full((rows, self.longest), ABSENT, device=self.entries.weight.device))

    def step(self, symbols: Tensor, suffixes: Suffixes, reading: Tensor | None = None) -> Tensor:
        """The same for one more symbol a row, which the suffixes take in (with `reading`, those of these rows).
        (N,) -> (N, D)"""
        trie = self.tries.trie()
        shorter = F.pad(suffixes.nodes[:, :-1], (1, 0), value=0)  # the root stands before the suffix of one symbol
        nodes = trie.child(shorter, symbols.unsqueeze(1))
        suffixes.nodes = nodes if reading is None else nodes.where(reading.unsqueeze(1), suffixes.nodes)
        longer = nodes[:, 1:]
        return self._sum(trie.entry_of_node[longer.clamp(min=0)].masked_fill(longer == ABSENT, ABSENT))

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
