"""A lexicon's trie as part of a network."""

from __future__ import annotations

import dataclasses

from torch import nn

from ssmt.text.lexicon import Trie


class TrieBuffers(nn.Module):
    """A lexicon's trie on the network's own device: the lexicon itself is shared, and stays where it is."""

    def __init__(self, trie: Trie) -> None:
        super().__init__()
        self.fields = tuple(field.name for field in dataclasses.fields(trie))[1:]
        self.alphabet_size = trie.alphabet_size
        for name in self.fields:
            self.register_buffer(name, getattr(trie, name), persistent=False)

    def trie(self) -> Trie:
        return Trie(self.alphabet_size, *(getattr(self, name) for name in self.fields))
