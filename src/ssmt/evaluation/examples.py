"""Segmented text as HTML: every segment has its morpheme's colour, every possible cut a bar as high as its posterior.

A word is a grid with one column a character, so that bars, segments and gold morphemes stand above one another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from ssmt.evaluation.gold import Cuts
from ssmt.text.alphabet import is_word_character

_LOWEST_BAR = 0.02  # posteriors below this are not drawn


@dataclass(frozen=True)
class SegmentedText:
    """A text as one system cuts it; `posteriors` are of a cut at each offset, both ends included."""

    system: str
    text: str
    cuts: Cuts
    posteriors: Sequence[float]


def example_html(
    source: str | None, segmented: Sequence[SegmentedText], gold: Cuts | None, hues: Hues, *, name_systems: bool
) -> str:
    """One sentence: its source, and its segmentation by each system above the gold morphemes, where there are any."""
    rows = [f'<p class="source">{escape(source)}</p>'] if source else []
    for system in segmented:
        label = f'<span class="system">{escape(system.system)}</span>' if name_systems else ""
        rows.append(f'<p class="segmented">{label}{_text_html(system, gold, hues)}</p>')
    return f'<div class="example">{"".join(rows)}</div>'


def evenly_spaced(texts: Sequence[str], count: int, longest: int = 110) -> list[int]:
    """Rows of about `count` texts from all over the list, none too long to be looked at unless all are."""
    short = [row for row, text in enumerate(texts) if len(text.strip()) > 0 and len(text) <= longest]
    rows = short or [row for row, text in enumerate(texts) if text.strip()]
    if len(rows) <= count:
        return rows
    return [rows[(2 * step + 1) * len(rows) // (2 * count)] for step in range(count)]


class Hues:
    """A colour for each morpheme, the same wherever it occurs; successive ones are far apart, so neighbours differ."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, morpheme: str) -> int:
        return round(self._known.setdefault(morpheme.lower(), len(self._known)) * 137.508) % 360


def _text_html(segmented: SegmentedText, gold: Cuts | None, hues: Hues) -> str:
    tokens, start = [], 0
    for token in segmented.text.split(" "):
        pieces = []
        at = start
        for is_word, run in groupby(token, key=is_word_character):
            end = at + sum(1 for _ in run)
            outside = f'<span class="mark">{escape(segmented.text[at:end])}</span>'
            pieces.append(_word_html(segmented, at, end, gold, hues) if is_word else outside)
            at = end
        tokens.append(f'<span class="token">{"".join(pieces)}</span>')
        start += len(token) + 1
    return " ".join(tokens)


def _word_html(segmented: SegmentedText, start: int, end: int, gold: Cuts | None, hues: Hues) -> str:
    bars = []
    for offset in range(start + 1, end):
        posterior = float(segmented.posteriors[offset])
        if posterior >= _LOWEST_BAR:
            kind = "" if gold is None else ' class="right"' if offset in gold else ' class="wrong"'
            place = f"--c:{offset - start};--p:{posterior:.2f}"
            bars.append(f'<i{kind} style="{place}" title="cut here: {posterior:.2f}"></i>')
    rows = [_segments_html(segmented.text, start, end, segmented.cuts, "segment", hues)]
    if gold is not None:
        rows.append(_segments_html(segmented.text, start, end, gold, "gold", hues))
    return f'<span class="word" style="--n:{end - start}">{"".join(bars + rows)}</span>'


def _segments_html(text: str, start: int, end: int, cuts: Collection[int], row: str, hues: Hues) -> str:
    edges = [start, *sorted(cut for cut in cuts if start < cut < end), end]
    spans = []
    for first, last in pairwise(edges):
        segment = text[first:last]
        place = f"--c:{first - start + 1};--w:{len(segment)};--h:{hues.of(segment)}"
        spans.append(f'<span class="{row}" style="{place}">{escape(segment)}</span>')
    return "".join(spans)
