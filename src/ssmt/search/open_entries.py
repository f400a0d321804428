"""Open segments as the lexicon sees them, in marginal search: of each hypothesis, one for each of the last L places
where a segment may have begun.

A segment that begins now may become any entry; what counts is the probability of each first character. Once that is
read, the segment is within the entries of one class, those that begin with it: their probabilities, given the class,
are kept as prefix sums, and the entries below a node of the trie are a range, whose mass is a difference. Prefix sums
are written once; hypotheses carry a pointer. Only edges that the trie has are looked at, so that what is no beginning
of an entry costs nothing.

Shapes: N hypotheses, L longest segment, C alphabet, V lexicon entries, D width, W entries of the largest class, E edges
that lead on from all nodes where segments are.
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.model.segments import SegmentModel
from ssmt.search.legal_trie import legal_trie
from ssmt.search.lexicon_rows import sum_precision


class LexiconStarts:
    """What the lexicon says where segments begin: of first characters at once, of their entries once one is read.

    A lexicon by first character is asked for the entries of the characters that are read and no others. One without
    classes (or with weights of 8 bits) computes all logits together, and its classes follow from them.
    """

    def __init__(self, segments: SegmentModel, rows: int) -> None:
        assert segments.entries is not None
        self.entries, self.classes = segments.entries, segments.classes
        weight = self.entries.weight if isinstance(self.entries, nn.Linear) else None
        device = segments.get_buffer("is_word").device
        lexicon = segments.lexicon
        C, V, L = len(lexicon.alphabet), len(lexicon), segments.longest
        first = torch.tensor([entry[0] for entry in lexicon.entries])
        sizes = torch.bincount(first, minlength=C).tolist()
        bounds = [0, *accumulate(sizes)]
        self.bounds = torch.tensor(bounds, device=device)  # (C+1,) where each class begins and ends
        self.ranges = list(pairwise(bounds))
        self.by_class = None
        if self.classes is not None and weight is not None:
            bias = self.entries.bias
            assert isinstance(bias, Tensor)
            self.by_class = list(zip(torch.split(weight, sizes), torch.split(bias, sizes), strict=True))
        self.dtype = sum_precision(device)
        # Sums cannot tell the least probable entries from impossible ones; they must stay possible where nothing else
        # could write them.
        self.least = torch.finfo(self.dtype).eps / 4 if segments.characters is None else 0.0
        self.rows, self.widest, self.before = rows, max(sizes) + 1, V
        # L blocks, of one step each, in turn; in front, so that a place less an entry's number is never negative, V.
        self.sums = torch.zeros(V + L * rows * self.widest, dtype=self.dtype, device=device)
        self.blocks = self.sums[V:].view(L, rows, self.widest)
        self.step = 0
        self.states: Tensor  # (N, D) where segments begin now
        self.logits: Tensor  # (N, V) of all entries there, unless they are asked for class by class

    def begin(self, states: Tensor) -> Tensor:
        """The probability of each first character of the segments that begin now. (N, D) -> (N, C)"""
        self.states = states
        if self.by_class is None:
            self.logits = self.entries(states).float()
        if self.classes is not None:
            return self.classes.class_log_probs(states).to(self.dtype).exp_()
        sums = F.pad(torch.softmax(self.logits, dim=1).cumsum(dim=1, dtype=self.dtype), (1, 0))
        return sums.index_select(1, self.bounds).diff(dim=1).clamp_(min=self.least).mul_(self.bounds.diff() > 0)

    def enter(self, rows: Tensor, characters: Tensor) -> Tensor:
        """The segments that began in `rows` read their first characters. (n,), (n,) -> (n,): the place before the
        prefix sums of their classes, less the first entry's number."""
        n, block = len(rows), self.blocks[self.step]
        read, order = torch.sort(characters)
        origin = rows.index_select(0, order)
        groups, place = [], 0
        for character, same in groupby(read.tolist()):  # a synchronisation: a matrix product a class
            count = sum(1 for _ in same)
            groups.append((character, place, place + count))
            place += count
        widest = max(1, *(high - low for low, high in (self.ranges[character] for character, _, _ in groups)))
        logits = self.states.new_full((n, widest), -torch.inf, dtype=torch.float32)
        logits[:, 0] = 0.0  # where a class has one entry that entry is certain
        states = self.states.index_select(0, origin) if self.by_class is not None else None
        for character, begin, end in groups:
            low, high = self.ranges[character]
            if high - low <= 1:
                continue
            if states is None:
                logits[begin:end, : high - low] = self.logits[origin[begin:end], low:high]
            else:
                assert self.by_class is not None
                logits[begin:end, : high - low] = F.linear(states[begin:end], *self.by_class[character])
        torch.cumsum(torch.softmax(logits, dim=1), dim=1, dtype=self.dtype, out=block[:n, 1 : widest + 1])
        sorted_places = torch.arange(n, device=rows.device) * self.widest
        sorted_places += self.before + self.step * self.rows * self.widest
        sorted_places -= self.bounds.index_select(0, read)
        self.step = (self.step + 1) % len(self.blocks)
        return torch.empty_like(sorted_places).index_copy_(0, order, sorted_places)


class OpenEntries:
    def __init__(self, segments: SegmentModel, rows: int) -> None:
        self.starts = LexiconStarts(segments, rows)
        device, dtype = self.starts.sums.device, self.starts.dtype
        self.trie = legal_trie(segments.lexicon, device)
        self.least = self.starts.least
        others = segments.longest - 1, rows
        # Segments that have read something, by how much; weights are probabilities relative to the hypothesis' own.
        self.node = torch.full(others, self.trie.nowhere, device=device)  # (L-1, N) where they are in the trie
        self.base = torch.zeros(others, dtype=torch.int64, device=device)  # (L-1, N) where their prefix sums are
        self.weight = torch.zeros(others, dtype=dtype, device=device)  # (L-1, N) of their start and their class
        self.first: Tensor  # (N, C) the mass of each first character of the segment that begins now

    def begin(self, states: Tensor, weight: Tensor) -> None:
        """A segment begins in each row: states (N, D), weight (N,) of its start."""
        self.first = self.starts.begin(states).mul_(weight.unsqueeze(1))

    def masses(self) -> Tensor:
        """The mass of every next character. (N, C)"""
        trie, sums = self.trie, self.starts.sums
        node = self.node.view(-1)
        edges = trie.edges.index_select(0, node)
        cell = torch.repeat_interleave(edges)  # (E,) a synchronisation: how many edges there are
        before = trie.first_edge.index_select(0, node).sub_(edges.cumsum(0)).add_(edges)
        edge = before.index_select(0, cell).add_(torch.arange(len(cell), device=cell.device))
        base = self.base.view(-1).index_select(0, cell)
        mass = sums.index_select(0, trie.edge_high.index_select(0, edge).add_(base))
        mass.sub_(sums.index_select(0, trie.edge_low.index_select(0, edge).add_(base)))
        if self.least:
            mass.clamp_(min=self.least)
        mass.mul_(self.weight.view(-1).index_select(0, cell))
        row = cell.remainder_(len(self.first))
        place = row.mul_(trie.alphabet_size).add_(trie.edge_character.index_select(0, edge))
        return self.first.view(-1).index_add(0, place, mass).view(self.first.shape)

    def masses_by_length(self) -> Tensor:
        """The same by how many characters the segment has read. (L, N, C)"""
        first, weight = self.first, self.weight
        by_length = [first]
        self.first = torch.zeros_like(first)
        for length in range(len(weight)):
            self.weight = torch.zeros_like(weight)
            self.weight[length] = weight[length]
            by_length.append(self.masses())
        self.first, self.weight = first, weight
        return torch.stack(by_length)

    def advance(self, rows: Tensor, characters: Tensor, scale: Tensor) -> Tensor:
        """The new row i is the old `rows[i]` with one more character, and its weights are to be multiplied by a scale.
        Returns the probability that a segment ends there. (N,)"""
        trie, sums, C = self.trie, self.starts.sums, self.trie.alphabet_size
        code = torch.cat([characters.unsqueeze(0), self.node.index_select(1, rows).mul_(C).add_(characters)])
        node = trie.child(code)  # (L, N)
        base = torch.cat([self.starts.enter(rows, characters).unsqueeze(0), self.base.index_select(1, rows)])
        begun = self.first.view(-1).index_select(0, rows * C + characters)
        weight = torch.cat([begun.unsqueeze(0), self.weight.index_select(1, rows)]).mul_(scale)
        flat_node, flat_base = node.view(-1), base.view(-1)
        low, high = trie.entry_low.index_select(0, flat_node), trie.entry_high.index_select(0, flat_node)
        ended = sums.index_select(0, flat_base + high).sub_(sums.index_select(0, flat_base + low))
        if self.least:
            ended.clamp_(min=self.least).mul_(high - low)  # which is one where there is an entry, else zero
        self.node, self.base, self.weight = node[:-1], base[:-1], weight[:-1]
        return ended.view(node.shape).mul_(weight).sum(dim=0)
