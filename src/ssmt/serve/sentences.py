"""A text as sentences and the white space between them, from which it can be put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BLANKS = re.compile(r"(\s+)")
_ENDS = re.compile(r"[.!?…।؟۔።။។][)\]}\"'”’»›」』]*$")
_ENDS_WITHOUT_BLANK = re.compile(r"[。！？]+[」』”’）]*")
_INITIALS = re.compile(r"(?:\w\.)+$")
_PAUSES = ",;:،؛、，—–"
# What people write a full stop after within a sentence, in small letters.
_ABBREVIATIONS = {
    *("mr", "mrs", "ms", "dr", "prof", "rev", "hon", "st", "sr", "jr", "gen", "col", "capt", "lt", "sgt", "mnr", "mev"),
    *("vs", "etc", "ca", "cf", "fig", "vol", "pp", "eds", "approx", "dept", "inc", "ltd", "corp"),
    *("jan", "feb", "apr", "aug", "sept", "oct", "nov", "dec"),
}


@dataclass(frozen=True)
class Split:
    """The white space before each sentence and after the last (one more than sentences), and the sentences."""

    gaps: list[str]
    sentences: list[str]

    def joined(self, sentences: Sequence[str]) -> str:
        """The text with other sentences in the place of its own."""
        assert len(sentences) == len(self.sentences)
        return self.gaps[0] + "".join(s + gap for s, gap in zip(sentences, self.gaps[1:], strict=True))


def split_sentences(text: str, longest: int, at_marks: bool = True, at_newlines: bool = True) -> Split:
    """Cut a text where its sentences end: at marks such as the full stop, and at line breaks.

    What is longer than `longest` is cut at pauses, else between words, else anywhere. Where line breaks do not end a
    sentence, those inside one become blanks."""
    gaps, sentences = [""], []
    words: list[str] = []  # of the sentence under way, with the blanks between them
    for word, blank, next_word in _words(text):
        if not word:
            gaps[-1] += blank
            continue
        words += [word]
        at_newline = at_newlines and any(mark in blank for mark in "\n\r\u2028\u2029")
        if not next_word or at_newline or (at_marks and _is_end(words, blank, next_word)):
            for part, gap in _within(words, longest):
                sentences.append(part)
                gaps.append(gap)
            gaps[-1] = blank
            words = []
        else:
            words += [blank if at_newlines or not blank.strip(" ") else " "]
    return Split(gaps, sentences)


def _words(text: str) -> Iterator[tuple[str, str, str]]:
    """Each word with the blank after it and the next word; an empty word has the blank before the first."""
    pieces: list[str] = []
    for place, piece in enumerate(_BLANKS.split(text)):
        if place % 2:
            pieces.append(piece)
            continue
        start = 0
        for end in _ENDS_WITHOUT_BLANK.finditer(piece):
            if end.end() < len(piece):
                pieces += [piece[start : end.end()], ""]
                start = end.end()
        pieces.append(piece[start:])
    for place in range(0, len(pieces), 2):
        yield pieces[place], "".join(pieces[place + 1 : place + 2]), "".join(pieces[place + 2 : place + 3])


def _is_end(words: Sequence[str], blank: str, next_word: str) -> bool:
    """Whether a sentence ends with the last of these words."""
    word = words[-1]
    if not blank:
        return True
    if not _ENDS.search(word) or next((c for c in next_word if c.isalpha()), "X").islower():
        return False
    bare = word.lstrip("([{\"'“‘«‹")
    if not bare.endswith("."):
        return True
    is_number_of_item = len(words) == 1 and bare[:-1].isdigit()
    return not (is_number_of_item or _INITIALS.match(bare) or bare[:-1].lower() in _ABBREVIATIONS)


def _within(words: Sequence[str], longest: int) -> Iterator[tuple[str, str]]:
    """A sentence, or its parts of at most so many characters, each with what follows it."""
    whole = "".join(words)
    while len(whole) > longest:
        blanks = [found.span() for found in _BLANKS.finditer(whole, 1, longest + 1) if found.start() <= longest]
        pauses = [span for span in blanks if whole[span[0] - 1] in _PAUSES and span[0] > longest // 2]
        start, end = (pauses or blanks or [(longest, longest)])[-1]
        end += len(whole[end:]) - len(whole[end:].lstrip())
        yield whole[:start], whole[start:end]
        whole = whole[end:]
    if whole:
        yield whole, ""
