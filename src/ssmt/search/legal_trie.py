"""The lexicon's trie as marginal search walks it: only what can be a segment, and nowhere for all else.

Shapes: U trie nodes, E edges, C alphabet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ssmt.text.lexicon import ABSENT, Lexicon


@dataclass(frozen=True)
class LegalTrie:
    """Node 0 is the root, the last one is nowhere: it has no edges and is no entry. Edges of a node are a range.

    Entries and what is below an edge are ranges of the lexicon (low <= id < high), so that their probability is a
    difference of prefix sums; what is none has an empty range.
    """

    alphabet_size: int
    children: Tensor | None  # ((U+1)*C,) int32, the node by parent * C + character; none where that would be large
    codes: Tensor  # the same as a sorted array of `parent * C + character`, of all nodes but the root
    is_legal: Tensor  # (U+1,) whether a node's characters can be a segment
    entry_low: Tensor  # (U+1,) the entry that a node is
    entry_high: Tensor  # (U+1,)
    first_edge: Tensor  # (U+1,)
    edges: Tensor  # (U+1,) how many
    edge_character: Tensor  # (E,)
    edge_low: Tensor  # (E,) all entries below the edge
    edge_high: Tensor  # (E,)

    @property
    def nowhere(self) -> int:
        return len(self.is_legal) - 1

    def child(self, codes: Tensor) -> Tensor:
        """The nodes that `parent * C + character` lead to. Any shape."""
        if self.children is not None:
            return self.children.index_select(0, codes.reshape(-1)).view(codes.shape)
        place = torch.searchsorted(self.codes, codes).clamp_(max=len(self.codes) - 1)
        node = (place + 1).masked_fill_(self.codes[place] != codes, self.nowhere)
        return node.masked_fill_(~self.is_legal[node], self.nowhere)


@lru_cache(maxsize=8)
def legal_trie(lexicon: Lexicon, device: torch.device) -> LegalTrie:
    trie, C = lexicon.trie, len(lexicon.alphabet)
    is_word = torch.from_numpy(lexicon.alphabet.is_word)
    parent, character = trie.codes // C, trie.codes % C
    legal = _can_be_segments(parent, is_word[character], lexicon.longest)  # (U,)
    nowhere = len(legal)
    children = None
    if trie.dense is not None:
        illegal = (trie.dense == ABSENT) | ~legal[trie.dense.clamp(min=0).long()]
        children = torch.cat([trie.dense.masked_fill(illegal, nowhere), trie.dense.new_full((C,), nowhere)])
    leads_on = legal[1:].nonzero().squeeze(-1)  # edges are in the order of their parents
    edges = torch.bincount(parent[leads_on], minlength=nowhere + 1)
    node = leads_on + 1
    is_entry = trie.entry_of_node != ABSENT
    low = torch.where(is_entry, trie.entry_of_node, trie.range_start)
    beyond = torch.zeros(1, dtype=torch.int64)
    tables = (
        torch.cat([legal, beyond.bool()]),
        torch.cat([low, beyond]),
        torch.cat([low + is_entry, beyond]),
        edges.cumsum(0) - edges,
        edges,
        character[leads_on],
        trie.range_start[node],
        trie.range_end[node],
    )
    on_device = (table.to(device) for table in (trie.codes, *tables))
    return LegalTrie(C, None if children is None else children.to(device), *on_device)


def _can_be_segments(parent: Tensor, by_letter: Tensor, longest: int) -> Tensor:
    """Which nodes are one character, or word characters throughout. parent and by_letter (U-1,): of all nodes but the
    root. (U,)"""
    root = torch.ones(1, dtype=torch.bool)
    all_letters = torch.cat([root, by_letter])
    for _ in range(longest):  # from each level to the next
        all_letters = torch.cat([root, by_letter & all_letters[parent]])
    return torch.cat([root, (parent == 0) | all_letters[1:]])
