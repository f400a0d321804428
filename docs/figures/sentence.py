"""The README's picture, as SVG by hand: a translation as the model cuts it, above the grammar's morphemes.

A character has a column of its own, so that segments, posteriors and morphemes stand above one another in any font.
Colours are readable on white and on black: a README has no say in where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise

from ssmt import Translator
from ssmt.demo import Sentence
from ssmt.demo.sentences import BOUNDARY
from ssmt.evaluation.gold import cuts_of, word_spans
from ssmt.evaluation.plots import SERIES

COLUMN, LETTER = 21, 23  # pixels: width of a character, size of its letter
LEFT = 116
FAINT = "#7d8590"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LOWEST_BAR = 0.02  # posteriors below this are not drawn
TOP, BARS, BLOCKS, MORPHEMES, BOTTOM = 34, 62, 104, 156, 214  # pixels from above


def draw_sentence(translator: Translator, sentence: Sentence, glosses: Sequence[str]) -> str:
    """An SVG document. `glosses` say what the sentence's morphemes mean, one each."""
    text = sentence.target
    (segments,) = translator.segment([sentence.english], [text])
    (posteriors,) = translator.boundary_posteriors([sentence.english], [text])
    width = LEFT + COLUMN * len(text) + 12
    parts = [
        *_labels({"English": TOP, "cut?": BARS, "ssmt": BLOCKS, "morphemes": MORPHEMES}),
        f'<text x="{LEFT}" y="{TOP}" fill="{FAINT}" font-size="{LETTER - 3}">{escape(sentence.english)}</text>',
        *_bars(text, posteriors),
        *_blocks(text, cuts_of(segments)),
        *_morphemes(sentence, glosses),
    ]
    about = f"{sentence.english} {text} Segments: {' '.join(segments)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {BOTTOM}" width="{width}" height="{BOTTOM}" '
        f'role="img" font-family="{FONT}"><title>{escape(about)}</title>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _labels(rows: dict[str, int]) -> Iterator[str]:
    for text, y in rows.items():
        yield f'<text x="{LEFT - 18}" y="{y}" text-anchor="end" fill="{FAINT}" font-size="14">{text}</text>'


def _bars(text: str, posteriors: Sequence[float]) -> Iterator[str]:
    """Between two letters of a word: a bar as high as the probability of a cut there."""
    for start, end in word_spans(text):
        for offset in range(start + 1, end):
            height = 20 * posteriors[offset - 1]
            if posteriors[offset - 1] >= LOWEST_BAR:
                x = LEFT + COLUMN * offset - 2
                yield (
                    f'<rect x="{x}" y="{BARS + 6 - height:.1f}" width="4" height="{height:.1f}" rx="1" fill="{FAINT}">'
                    f"<title>{posteriors[offset - 1]:.2f}</title></rect>"
                )


def _blocks(text: str, cuts: Iterable[int]) -> Iterator[str]:
    colours: dict[str, str] = {}  # a segment has the same colour wherever it occurs
    for start, end in _pieces(text, cuts):
        colour = colours.setdefault(text[start:end].lower(), SERIES[len(colours) % len(SERIES)])
        x, width = LEFT + COLUMN * start + 2, COLUMN * (end - start) - 4
        yield f'<rect x="{x}" y="{BLOCKS - 26}" width="{width}" height="38" rx="6" fill="{colour}"/>'
        yield from _letters(text, start, end, BLOCKS, "#ffffff")


def _morphemes(sentence: Sentence, glosses: Sequence[str]) -> Iterator[str]:
    text = sentence.target
    pieces = _pieces(text, cuts_of(sentence.gold.split(BOUNDARY)))
    for (start, end), gloss in zip(pieces, glosses, strict=True):
        x, middle = LEFT + COLUMN * start + 3, LEFT + COLUMN * (start + end) / 2
        yield from _letters(text, start, end, MORPHEMES, FAINT)
        yield f'<rect x="{x}" y="{MORPHEMES + 9}" width="{COLUMN * (end - start) - 6}" height="2" fill="{FAINT}"/>'
        yield _centred(middle, MORPHEMES + 28, gloss, FAINT, 12)


def _pieces(text: str, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The words of a text, cut."""
    for first, last in word_spans(text):
        yield from pairwise([first, *sorted(cut for cut in cuts if first < cut < last), last])


def _letters(text: str, start: int, end: int, y: int, colour: str) -> Iterator[str]:
    for offset in range(start, end):
        yield _centred(LEFT + COLUMN * (offset + 0.5), y, text[offset], colour, LETTER)


def _centred(x: float, y: int, text: str, colour: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" fill="{colour}" font-size="{size}">{escape(text)}</text>'
