"""The lexicon: the segments that the model can produce in one piece, and a trie to find them in text.

Entries are ordered by the ids of their characters. All entries that begin with a given string then form a range,
so the probability of "some entry that begins with ..." is a difference of two prefix sums.

Shapes: B sentences, T characters, L segment lengths, C alphabet, V lexicon entries, U trie nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ssmt.errors import UserError
from ssmt.files import count_in, read_description_lines
from ssmt.outputs import replacing
from ssmt.text.alphabet import EOS, UNK, Alphabet
from ssmt.text.lines import read_lines

Gram = tuple[int, ...]  # an n-gram as character ids
ABSENT = -1
LONGEST_ENTRY = 100  # characters; that no segment of a model of ours has more than 20 does not bind imported ones
DENSE_TRIE_CELLS = 1 << 24  # up to here the trie's edges are kept as a table as well: 64 MiB


def legal_lengths(characters: Tensor, is_word: Tensor, longest: int, lengths: Tensor | None = None) -> Tensor:
    """Length of the longest legal segment that starts at each position; 0 on padding. (..., T) -> (..., T)

    A legal segment is one character of any kind, or up to `longest` word characters in a row.
    """
    T = characters.shape[-1]
    position = torch.arange(T, device=characters.device)
    beyond = torch.full_like(position, T)
    not_word_at = torch.where(is_word[characters], beyond, position)  # (..., T)
    next_not_word = not_word_at.flip(-1).cummin(dim=-1).values.flip(-1)
    legal = (next_not_word - position).clamp(1, longest)
    if lengths is not None:
        legal = torch.minimum(legal, (lengths.unsqueeze(-1) - position).clamp(min=0))
    return legal


@dataclass(frozen=True)
class Trie:
    """The n-grams of a lexicon as integer codes in one sorted array: data, on whatever device its tensors are.

    Node 0 is the root. An edge is the code `parent * C + character`; nodes are numbered breadth first in the order of
    those codes, so that the sorted array of codes is at once the list of nodes: node k belongs to code k - 1.
    """

    alphabet_size: int
    codes: Tensor  # (U-1,)
    entry_of_node: Tensor  # (U,) lexicon id, or ABSENT for a string that only begins an entry
    range_start: Tensor  # (U,) the entries below a node are range_start <= id < range_end
    range_end: Tensor  # (U,)
    dense: Tensor | None  # (U*C,) node by code, or ABSENT; only where it is small enough

    @classmethod
    def of_entries(cls, entries: Sequence[Gram], alphabet_size: int) -> Trie:
        assert list(entries) == sorted(set(entries)), "entries must be distinct and ordered by their characters"
        codes: list[int] = []
        entry_of_node, starts, ends = [ABSENT], [0], [len(entries)]
        nodes: list[tuple[Gram, int, int]] = [((), 0, len(entries))]  # prefix, range; breadth first
        for parent, (prefix, start, end) in enumerate(nodes):  # grows while it is walked
            depth = len(prefix)
            if start < end and len(entries[start]) == depth:
                entry_of_node[parent] = start
                start += 1
            while start < end:
                character = entries[start][depth]
                stop = start + 1
                while stop < end and entries[stop][depth] == character:
                    stop += 1
                codes.append(parent * alphabet_size + character)
                entry_of_node.append(ABSENT)
                starts.append(start)
                ends.append(stop)
                nodes.append(((*prefix, character), start, stop))
                start = stop
        edges = torch.tensor(codes, dtype=torch.int64)
        dense = None
        if len(nodes) * alphabet_size <= DENSE_TRIE_CELLS:
            dense = torch.full((len(nodes) * alphabet_size,), ABSENT, dtype=torch.int32)
            dense[edges] = torch.arange(1, len(nodes), dtype=torch.int32)
        entry, start_of_range, end_of_range = (
            torch.tensor(values, dtype=torch.int64) for values in (entry_of_node, starts, ends)
        )
        return cls(alphabet_size, edges, entry, start_of_range, end_of_range, dense)

    def child(self, nodes: Tensor, characters: Tensor) -> Tensor:
        """The node reached from each node by each character, or ABSENT; ABSENT nodes have no children."""
        codes = (nodes * self.alphabet_size + characters).clamp(min=0)
        if self.dense is not None:
            children = self.dense.index_select(0, codes.reshape(-1)).view(codes.shape).long()
        else:
            place = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
            children = torch.where(self.codes[place] == codes, place + 1, ABSENT)
        return children.masked_fill(nodes < 0, ABSENT)

    def children_of(self, nodes: Tensor) -> Tensor:
        """The children of each node by character, or ABSENT. (...) -> (..., C)"""
        if self.dense is None:
            return self.child(nodes.unsqueeze(-1), torch.arange(self.alphabet_size, device=nodes.device))
        rows = self.dense.view(-1, self.alphabet_size)[nodes.clamp(min=0)].long()
        return rows.masked_fill((nodes < 0).unsqueeze(-1), ABSENT)

    def ranges_below(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The range of entries below each node; empty where a node is ABSENT. (n, C) -> (n, C), (n, C)"""
        missing, present = nodes == ABSENT, nodes.clamp(min=0)
        start, end = (
            bound.index_select(0, present.view(-1)).view(nodes.shape) for bound in (self.range_start, self.range_end)
        )
        return start.masked_fill_(missing, 0), end.masked_fill_(missing, 0)

    def walk(self, characters: Tensor, legal: Tensor, depth: int) -> list[tuple[Tensor, Tensor]]:
        """Follow the flat text from every position; for each length, the starts still inside the trie and their nodes.

        characters, legal: (n,). The starts shrink from length to length, and with them the work. (`index_select` by
        the places that remain is faster than a mask in brackets.)
        """
        starts = torch.nonzero(legal > 0).squeeze(-1)
        nodes = torch.zeros_like(starts)
        reached = []
        for length in range(depth):
            nodes = self.child(nodes, characters.index_select(0, starts + length))
            alive = torch.nonzero(nodes != ABSENT).squeeze(-1)
            starts, nodes = starts.index_select(0, alive), nodes.index_select(0, alive)
            reached.append((starts, nodes))
            longer = torch.nonzero(legal.index_select(0, starts) > length + 1).squeeze(-1)
            starts, nodes = starts.index_select(0, longer), nodes.index_select(0, longer)
        return reached

    def ids_of_segments(self, characters: Tensor, legal: Tensor, longest: int) -> Tensor:
        """The lexicon id of every segment by start and length, ABSENT where it is illegal or no entry.

        characters, legal: (..., T); result (..., T, L), int64.
        """
        flat_characters, flat_legal = characters.reshape(-1), legal.reshape(-1)
        ids = flat_characters.new_full((flat_characters.shape[0] * longest,), ABSENT)
        for length, (starts, nodes) in enumerate(self.walk(flat_characters, flat_legal, longest)):
            ids.index_copy_(0, starts * longest + length, self.entry_of_node.index_select(0, nodes))
        return ids.view(*characters.shape, longest)


class Lexicon:
    """The lexicon's entries and, as a trie, their places in any text."""

    def __init__(self, alphabet: Alphabet, entries: Iterable[Gram], counts: dict[Gram, int] | None = None) -> None:
        self.alphabet = alphabet
        self.entries: list[Gram] = sorted(set(entries))
        self.counts = counts or {}
        self.longest = max(len(entry) for entry in self.entries)
        self.trie = Trie.of_entries(self.entries, len(alphabet))

    @classmethod
    def of_texts(cls, alphabet: Alphabet, segments: Iterable[str]) -> Lexicon:
        """The given segments, and every single character: without those some text could not be segmented."""
        grams = (tuple(int(id) for id in alphabet.encode(segment)) for segment in segments)
        return cls(alphabet, [*single_entries(alphabet), *grams])

    def __len__(self) -> int:
        return len(self.entries)

    def cut(self, characters: Tensor, legal: Tensor) -> Tensor:
        """Texts cut from left to right, at the longest entry each time: its id where it begins, ABSENT elsewhere. What
        begins no entry is left out. characters, legal (B, T) -> (B, T)"""
        ids = self.trie.ids_of_segments(characters, legal, self.longest)  # (B, T, L)
        lengths = torch.where(ids == ABSENT, 0, torch.arange(1, self.longest + 1)).amax(dim=2).clamp_(min=1)
        longest = ids.gather(2, (lengths - 1).unsqueeze(2)).squeeze(2)
        # A loop over the entries of the longest text, which is cheap for numpy.
        steps, ends = lengths.numpy(), (legal > 0).sum(dim=1).numpy()
        begins = np.zeros(characters.shape, dtype=np.bool_)
        rows, place = np.arange(len(begins)), np.zeros(len(begins), dtype=np.int64)
        while len(rows := rows[place[rows] < ends[rows]]):
            begins[rows, place[rows]] = True
            place[rows] += steps[rows, place[rows]]
        return longest.masked_fill_(torch.from_numpy(~begins), ABSENT)

    @property
    def texts(self) -> list[str]:
        return ["".join(self.alphabet.symbols[id] for id in entry) for entry in self.entries]

    def save(self, path: Path) -> None:
        """One entry a line in id order, a tab, and how often it occurs in the training text."""
        rows = (f"{text}\t{self.counts.get(gram, 0)}\n" for text, gram in zip(self.texts, self.entries, strict=True))
        with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(rows)

    @classmethod
    def load(cls, path: Path, alphabet: Alphabet) -> Lexicon:
        id_of_symbol = {symbol: id for id, symbol in enumerate(alphabet.symbols)}
        counts: dict[Gram, int] = {}
        lines = read_description_lines(path)
        for number, line in enumerate(lines, start=1):
            text, tab, written = line.rpartition("\t")
            count = count_in(written)
            symbols = [text] if text in id_of_symbol else list(text)
            unknown = [symbol for symbol in symbols if symbol not in id_of_symbol]
            if not tab or count is None or not symbols or unknown:
                raise UserError(
                    f"{path}, line {number}: expected an entry written in the alphabet's characters, a tab and a count"
                )
            if len(symbols) > LONGEST_ENTRY:
                raise UserError(
                    f"{path}, line {number}: the entry has {len(symbols):,} characters; {LONGEST_ENTRY} can be"
                )
            counts[tuple(id_of_symbol[symbol] for symbol in symbols)] = count
        if not counts:
            raise UserError(f"{path}: is empty; a lexicon has at least the alphabet's characters")
        lexicon = cls(alphabet, counts, counts)
        if list(counts) != lexicon.entries or len(counts) != len(lines):
            raise UserError(f"{path}: entries must be in the order of the alphabet, without repetitions")
        return lexicon


def single_entries(alphabet: Alphabet) -> list[Gram]:
    """Entries that every lexicon has: each character, the sentence's end and the unknown character."""
    return [(id,) for id, symbol in enumerate(alphabet.symbols) if len(symbol) == 1 or symbol in (EOS, UNK)]


def most_frequent_ngrams(
    chunks: Callable[[], Iterable[np.ndarray]],
    alphabet: Alphabet,
    size: int,
    longest: int,
    weights: Callable[[], Iterable[np.ndarray]] | None = None,
    kept: Collection[Gram] = (),
) -> Lexicon:
    """All single characters, then the most frequent legal n-grams, `size` entries in all; ties go by text.

    `chunks` gives the training text anew at each call, as flat arrays of ids in which every sentence ends in `</s>`;
    `weights`, how many times each place counts (the same for a whole sentence). What is `kept` is there in any case,
    and `size` counts it.
    One pass for each length: an n-gram is at most as frequent as the (n-1)-gram it extends, and comes after it in a
    tie, so only extensions of n-grams that are still among the best `size` need counting. That is exact, and keeps
    the memory at no more than `size * C` codes however long the text is.
    """
    is_word = torch.from_numpy(alphabet.is_word)
    singles = single_entries(alphabet)
    kept_longer = {gram for gram in kept if len(gram) > 1}
    room = max(size - len(singles) - len(kept_longer), 0)
    candidates = room + len(kept_longer)  # a kept one may be among the most frequent
    best: dict[Gram, float] = {}  # the n-grams of two or more characters that are among the most frequent so far
    trie = Trie.of_entries(singles, len(alphabet))
    single_counts = torch.zeros(len(alphabet), dtype=torch.float64)
    for length in range(1, longest + 1):
        codes, counts = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64)
        for chunk, weight in zip(chunks(), repeat(None) if weights is None else weights(), strict=False):
            characters = torch.from_numpy(np.asarray(chunk, dtype=np.int64))
            times = torch.ones(len(characters), dtype=torch.float64) if weight is None else torch.from_numpy(weight)
            if length == 1:
                single_counts += torch.bincount(characters, times, minlength=len(alphabet))
                continue
            legal = legal_lengths(characters, is_word, longest)
            starts, nodes = trie.walk(characters, legal, length - 1)[-1]
            longer = legal[starts] >= length
            starts, nodes = starts[longer], nodes[longer]
            seen, occurrence = torch.unique(
                nodes * len(alphabet) + characters[starts + length - 1], return_inverse=True
            )
            seen_counts = torch.bincount(occurrence, times[starts], minlength=len(seen))
            codes, place = torch.unique(torch.cat([codes, seen]), return_inverse=True)
            counts = torch.bincount(place, torch.cat([counts, seen_counts]), minlength=len(codes))
        if length == 1:
            continue
        # Within one length the order of codes is the order of texts, so a stable sort breaks ties by text.
        top = torch.sort(counts, descending=True, stable=True).indices[:candidates]
        gram_of_node = grams_by_node(trie)
        for code, count in zip(codes[top].tolist(), counts[top].tolist(), strict=True):
            parent, character = divmod(code, len(alphabet))
            gram = (*gram_of_node[parent], character)
            best[gram] = count
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
        best = dict(ranked[:candidates])
        trie = Trie.of_entries(sorted([*singles, *best]), len(alphabet))
    new = [gram for gram in best if gram not in kept_longer][:room]
    all_counts = {gram: round(float(single_counts[gram[0]])) for gram in singles}
    all_counts |= {gram: round(best.get(gram, 0)) for gram in (*sorted(kept_longer), *new)}
    return Lexicon(alphabet, all_counts, all_counts)


def of_entries(
    segments: Iterable[str],
    chunks: Callable[[], Iterable[np.ndarray]],
    alphabet: Alphabet,
    longest: int,
    kept: Collection[Gram] = (),
    new: int | None = None,
) -> Lexicon:
    """All single characters, what is `kept`, and those of the given segments that are legal (the first `new` of them
    that are not there anyhow, or all), with their counts in the training text. `chunks` as for
    `most_frequent_ngrams`."""
    legal = (segment for segment in segments if is_legal(segment, alphabet, longest))
    grams = dict.fromkeys(tuple(int(id) for id in alphabet.encode(segment)) for segment in legal)
    there = {*single_entries(alphabet), *kept}
    lexicon = Lexicon(alphabet, [*there, *islice((gram for gram in grams if gram not in there), new)])
    is_word = torch.from_numpy(alphabet.is_word)
    totals = torch.zeros(len(lexicon) + 1, dtype=torch.int64)  # the last is for nodes that are no entry
    for chunk in chunks():
        characters = torch.from_numpy(np.asarray(chunk, dtype=np.int64))
        for _, nodes in lexicon.trie.walk(characters, legal_lengths(characters, is_word, longest), lexicon.longest):
            entries = lexicon.trie.entry_of_node[nodes]
            totals += torch.bincount(entries.where(entries != ABSENT, len(lexicon)), minlength=len(totals))
    lexicon.counts = dict(zip(lexicon.entries, totals.tolist(), strict=False))
    return lexicon


def is_legal(segment: str, alphabet: Alphabet, longest: int) -> bool:
    """Whether a text of known characters can be a segment: one character, or up to `longest` word characters."""
    if not segment or alphabet.unknown_characters(segment):
        return False
    return len(segment) == 1 or (len(segment) <= longest and all(c in alphabet.word_characters for c in segment))


def read_entries(path: str | Path, alphabet: Alphabet, longest: int) -> list[str]:
    """Segments of a user's file, one a line; what follows a tab (a count, as in a model's lexicon.txt) is ignored."""
    entries = [line[:1] + line[1:].partition("\t")[0] for line in read_lines(path)]  # a tab can be an entry too
    for number, entry in enumerate(entries, start=1):
        if entry not in (EOS, UNK) and not is_legal(entry, alphabet, longest):
            raise UserError(
                f"{path}, line {number}: {entry!r} cannot be a segment: one character of the training text, or 2 to "
                f"{longest} of its letters (text.longest_segment)"
            )
    return entries


def grams_by_node(trie: Trie) -> list[Gram]:
    """The string that leads to each node, as ids."""
    grams: list[Gram] = [()]
    for code in trie.codes.tolist():
        parent, character = divmod(code, trie.alphabet_size)
        grams.append((*grams[parent], character))
    return grams
