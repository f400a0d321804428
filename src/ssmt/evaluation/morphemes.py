"""Words and their morphemes, of which compositional generalisation is made: read, learnt, or a model's segments.

A *word* is what stands between spaces, without the characters at its edges that are no word characters (`"ilanga,"` is
`ilanga`); what has no word character at all (a number, a dash) is none. Morphemes are trimmed in the same way. They
need not spell the word, so canonical analyses will do.
"""

from __future__ import annotations

import importlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ssmt.errors import UserError
from ssmt.files import name_of
from ssmt.progress import Reporter
from ssmt.text.alphabet import is_word_character
from ssmt.text.lines import read_lines, read_parallel

if TYPE_CHECKING:
    from ssmt.translator import Translator


class Word(NamedTuple):
    """A compound and its atoms."""

    text: str
    morphemes: tuple[str, ...]


Sentence = Sequence[Word]
Segment = Callable[[str], Sequence[str]]  # from a word to its morphemes


class Text(NamedTuple):
    """A file and its lines."""

    path: str | Path
    lines: list[str]

    @classmethod
    def read(cls, path: str | Path) -> Text:
        return cls(path, read_lines(path))


def analyse_texts(
    train: Text,
    test: Text,
    *,
    morphemes: Sequence[str | Path] = (),
    segmenter: str | Path | None = None,
    to: str | None = None,
    seed: int = 0,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> tuple[list[Sentence], list[Sentence]]:
    """Words and morphemes of the training and of the test text.

    Morphemes come from a word list (one file), from both texts with `|` between morphemes (two files), from a model
    directory whose segments they are (`to`: the texts' language, for a model that has several), or else from Morfessor,
    which learns them from the training text.
    """
    reporter = reporter or Reporter()
    check_morphemes(morphemes, segmenter)
    if len(morphemes) == 2:
        return read_analyses(train.path, morphemes[0]), read_analyses(test.path, morphemes[1])
    segment: Segment
    if morphemes:
        segment = read_word_list(morphemes[0])
    elif segmenter is not None:
        from ssmt.evaluation.model_output import load_for

        reporter.say(f"Segmenting words with {segmenter}")
        segment = word_segmenter(load_for(segmenter, to, device), train.lines + test.lines)
    else:
        reporter.say("Morfessor learns morphemes from the training text")
        segment = train_morfessor(train.lines, seed=seed)
    analysed = analyse(train.lines, segment), analyse(test.lines, segment)
    if morphemes:
        words = {word for sentence in analysed[0] for word in sentence}
        whole = sum(len(word.morphemes) == 1 for word in words)
        if 2 * whole > len(words):
            reporter.warn(
                f"{whole:,} of {len(words):,} distinct training words are one morpheme; words that "
                f"{name_of(morphemes[0])} does not list count as such"
            )
    return analysed


def check_morphemes(morphemes: Sequence[str | Path], segmenter: str | Path | None) -> None:
    if morphemes and segmenter is not None:
        raise UserError("Files of morphemes and a segmenter exclude each other: morphemes come from one of them")
    if len(morphemes) > 2:
        raise UserError(
            f"Morphemes come from one file (a word list) or two (the training and the test text segmented), not from "
            f"{len(morphemes)}"
        )


def trim(token: str) -> str:
    """Without the characters at both ends that are no word characters."""
    start, end = 0, len(token)
    while start < end and not is_word_character(token[start]):
        start += 1
    while end > start and not is_word_character(token[end - 1]):
        end -= 1
    return token[start:end]


def analyse(lines: Iterable[str], segment: Segment) -> list[Sentence]:
    """Words and morphemes of raw lines. `segment` is asked once for each distinct word."""
    lines = list(lines)
    tokens = dict.fromkeys(token for line in lines for token in line.split())
    texts = {text: None for token in tokens if (text := trim(token))}
    words = {text: _word(text, segment(text)) for text in texts}
    of_token = {token: words.get(trim(token)) for token in tokens}
    return [[word for token in line.split() if (word := of_token[token])] for line in lines]


def read_analyses(text: str | Path, morphemes: str | Path, *, separator: str = "|") -> list[Sentence]:
    """A text and a file with the same words in the same lines, each cut into its morphemes."""
    lines, segmented = read_parallel(text, morphemes)
    known: dict[tuple[str, str], Word | None] = {}
    sentences: list[Sentence] = []
    for number, (line, analysis) in enumerate(zip(lines, segmented, strict=True), start=1):
        tokens, parts = line.split(), analysis.split()
        if len(tokens) != len(parts):
            raise UserError(
                f"{name_of(morphemes)}, line {number}: {len(parts)} words, but {name_of(text)} has {len(tokens)} "
                f"there. Morphemes of a word are joined by {separator!r}, words stand between spaces"
            )
        sentence = []
        for pair in zip(tokens, parts, strict=True):
            if pair not in known:
                stem = trim(pair[0])
                known[pair] = _word(stem, pair[1].split(separator)) if stem else None
            if word := known[pair]:
                sentence.append(word)
        sentences.append(sentence)
    return sentences


def read_word_list(path: str | Path, *, separator: str = "-") -> Segment:
    """A segmenter that looks words up in a file of `word TAB morphemes`; a word that is not listed is one morpheme, and
    of several analyses of a word the first counts."""
    analyses: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) != 2 or not all(fields):
            raise UserError(
                f"{name_of(path)}, line {number}: wanted a word, a tab and its morphemes joined by {separator!r}"
            )
        word, morphemes = trim(fields[0]), tuple(trim(fields[1]).split(separator))
        analyses.setdefault(word, morphemes)
    return lambda word: analyses.get(word, (word,))


def train_morfessor(lines: Iterable[str], *, vocabulary: int = 20_000, seed: int = 0) -> Segment:
    """An unsupervised segmenter for texts without morphemes: Morfessor Baseline, each distinct word counted once.

    It learns from the most frequent words, as many as `vocabulary` says: each costs it 5 to 10 milliseconds.
    """
    try:
        morfessor = importlib.import_module("morfessor")
    except ImportError:
        raise UserError(
            "Without morphemes words are segmented by Morfessor, which is not installed: pip install ssmt[morfessor]"
        ) from None
    tokens = Counter(token for line in lines for token in line.split())
    words: Counter[str] = Counter()
    for token, count in tokens.items():
        words[trim(token)] += count
    del words[""]
    if not words:
        raise UserError("The training text has no words, so Morfessor has nothing to learn from")
    model = morfessor.BaselineModel()
    frequent = sorted(words, key=lambda word: (-words[word], word))[:vocabulary]
    model.load_data([(1, word) for word in frequent])
    state, bar = random.getstate(), morfessor.utils.show_progress_bar  # it knows no seed and no silence of its own
    try:
        random.seed(seed)
        morfessor.utils.show_progress_bar = False
        model.train_batch()
    finally:
        random.setstate(state)
        morfessor.utils.show_progress_bar = bar
    return lambda word: tuple(model.viterbi_segment(word)[0])


def _word(text: str, morphemes: Iterable[str]) -> Word:
    """Morphemes that are nothing but punctuation vanish; a word keeps at least one, itself."""
    return Word(text, tuple(filter(None, map(trim, morphemes))) or (text,))


def word_segmenter(translator: Translator, lines: Iterable[str]) -> Segment:
    """A segmenter of the words of the given lines, each cut once and without a source, as the words are one by one.

    A word longer than the model takes stays whole.
    """
    longest = translator.config.text.longest_target
    words = {trim(token) for line in lines for token in line.split()} - {""}
    known = sorted(word for word in words if len(word) <= longest)
    segments = dict(zip(known, translator.segment(None, known, allow_unknown=True), strict=True))
    return lambda word: segments.get(word, [word])
