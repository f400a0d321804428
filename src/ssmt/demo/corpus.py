"""The embedded corpus: sentence pairs drawn from the grammar, split, and written as plain text files.

Two test sets come with every training set. `test` is a random split. `test.hard` asks for known morphemes in new
combinations (the paper's Section 6.2): a share of all word forms is set aside by construction, no training sentence
contains one of them, and in every sentence of `test.hard` at least `novelty` of the words are among them. Its morphemes
and its English words are all known from training. So `novelty` chooses the compound divergence while the atom
divergence stays low; with the default size and seed (alpha .1 for compounds and .5 for atoms, as in Appendix C):

               test   test.hard, novelty .3    .5     1
    compounds   .20                      .55   .64  1.00
    atoms       .02                      .03   .04   .15
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssmt.demo import grammar, vocabulary
from ssmt.demo.grammar import Word
from ssmt.demo.sentences import Sentence, sample_sentence
from ssmt.errors import UserError
from ssmt.outputs import open_in_directory

SOURCE, TARGET = "en", "art"
"""Endings of the files; `art` is the ISO 639-2 code for artificial languages."""

SENTENCES = 8000
HELD_OUT = 300
SEED = 1
NOVELTY = 0.5

FEWEST_SENTENCES = 500
"""With fewer, many morphemes never occur in training and a set of known ones in new words cannot be drawn."""

_SET_ASIDE = 0.25  # share of the word forms that training never sees

_README = """\
A corpus of an artificial language
==================================

Nobody speaks the language in this directory. It was made up for the ssmt toolkit so that the program can be tried in
minutes: its build is that of isiZulu and isiXhosa (noun classes, concord, long verbs, sound changes between
morphemes), its stems are invented, and every sentence was drawn at random from a small grammar. Numbers measured on
it compare models and settings of this program with each other; they say nothing about a real language.

Written by:  ssmt.demo.write_corpus(sentences={sentences}, seed={seed}, held_out={held_out}, novelty={novelty})
The same numbers give the same files, on every machine.

  train      {sentences:>7,} sentence pairs
  dev        {held_out:>7,}
  test       {held_out:>7,} from the same distribution as train
  test.hard  {held_out:>7,} known morphemes in new combinations: in each sentence at least {novelty:.0%} of the words
                     are forms that never occur in train, though all their morphemes and all English words do

  NAME.en              the English side, one sentence a line
  NAME.art             the artificial language (art: the ISO 639-2 code for artificial languages)
  NAME.sentences.tsv   English, target, target with | between the morphemes of each word
  NAME.words.tsv       each word of the target once, and its morphemes joined by -

No sentence, on either side, occurs in two of the four sets.
"""


@dataclass(frozen=True)
class Corpus:
    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    hard: tuple[Sentence, ...]

    @property
    def splits(self) -> dict[str, tuple[Sentence, ...]]:
        """The sets under the names of their files."""
        return {"train": self.train, "dev": self.dev, "test": self.test, "test.hard": self.hard}


# Words that are the only form of their stem, or by far the most frequent: set aside, they would take the stem along.
_MAIN_FORMS = frozenset(
    [adverb.word for adverb in vocabulary.MANNER_ADVERBS]
    + [grammar.place_name(name) for name in vocabulary.PLACE_NAMES]
    + [grammar.person_name(name) for name in vocabulary.PERSON_NAMES]
    + [grammar.noun(noun.stem, noun.noun_class) for noun in vocabulary.NOUNS if noun.plural is None]
)


def _numbers() -> Iterator[tuple[Word, Word]]:
    """Singular and plural of every noun, as they stand alone and in the locative."""
    for noun in vocabulary.NOUNS:
        if noun.plural is not None:
            singular = grammar.noun(noun.stem, noun.noun_class)
            plural = grammar.noun(noun.stem, vocabulary.PLURAL_CLASS[noun.noun_class])
            yield singular, plural
            yield grammar.locative(singular), grammar.locative(plural)


_OTHER_NUMBER = {word: other for pair in _numbers() for word, other in (pair, pair[::-1])}


def is_set_aside(word: Word, seed: int) -> bool:
    """Whether training must not see this word. A hash decides, so that no list of all words is ever needed.

    Of the singular and the plural of a noun at most one is set aside, else the noun would be all but gone.
    """
    if len(word) == 1 or word in _MAIN_FORMS:
        return False
    rank = _rank(word, seed)
    return rank < _SET_ASIDE and (word not in _OTHER_NUMBER or rank < _rank(_OTHER_NUMBER[word], seed))


def _rank(word: Word, seed: int) -> float:
    """A number from 0 to 1 that depends on the word and the seed alone, and not on Python's hash."""
    digest = hashlib.blake2b(f"{seed} {'|'.join(word)}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def english_words(sentence: Sentence) -> list[str]:
    return [word.strip(".,?!") for word in sentence.english.lower().split(" ")]


class _Draw:
    """Distinct sentences: neither side of a sentence ever comes twice, whichever set it went to."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._seen: set[str] = set()

    def take(self, count: int, suits: Callable[[Sentence], bool]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for _ in range(10_000 + 500 * count):
            if len(sentences) == count:
                return sentences
            sentence = sample_sentence(self._rng)
            if suits(sentence) and not {sentence.english, sentence.target} & self._seen:
                self._seen.update((sentence.english, sentence.target))
                sentences.append(sentence)
        raise UserError(
            f"Of {count:,} sentences wanted, the grammar of the embedded corpus gave only {len(sentences):,}: "
            f"ask for fewer, for a larger training set, or for less novelty"
        )

    def shuffled(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        # random.shuffle may differ between versions of Python; sorting by random() does not.
        order = sorted((self._rng.random(), index) for index in range(len(sentences)))
        return [sentences[index] for _, index in order]


def make_corpus(
    sentences: int = SENTENCES, seed: int = SEED, *, held_out: int = HELD_OUT, novelty: float = NOVELTY
) -> Corpus:
    """A training set of `sentences` and three sets of `held_out` sentences, the same for the same arguments.

    `novelty` is the least share of words in every sentence of the hard test set that training never shows.
    """
    if sentences < FEWEST_SENTENCES:
        raise UserError(f"The embedded corpus needs at least {FEWEST_SENTENCES} training sentences, not {sentences}")
    if held_out < 1:
        raise UserError(f"Each test set of the embedded corpus needs at least one sentence, not {held_out}")
    if not 0 < novelty <= 1:
        raise UserError(
            f"The novelty of the hard test set is a share of its words, above 0 and at most 1, not {novelty}"
        )
    draw = _Draw(seed)
    known = draw.shuffled(
        draw.take(
            sentences + 2 * held_out, lambda sentence: not any(is_set_aside(word, seed) for word in sentence.words)
        )
    )
    train, dev, test = known[:sentences], known[sentences : sentences + held_out], known[sentences + held_out :]

    morphemes = Counter(morpheme for sentence in train for word in sentence.words for morpheme in word)
    english = {word for sentence in train for word in english_words(sentence)}
    often = min(5, max(1, sentences // 1000))

    def is_hard(sentence: Sentence) -> bool:
        words = sentence.words
        return (
            sum(is_set_aside(word, seed) for word in words) >= math.ceil(novelty * len(words))
            and all(morphemes[morpheme] >= often for word in words for morpheme in word)
            and english.issuperset(english_words(sentence))
        )

    return Corpus(tuple(train), tuple(dev), tuple(test), tuple(draw.take(held_out, is_hard)))


def word_list(sentences: Iterable[Sentence]) -> list[Word]:
    """Every word once, in the order of the alphabet."""
    return sorted({word for sentence in sentences for word in sentence.words}, key=lambda word: ("".join(word), word))


def write_corpus(
    directory: str | Path,
    sentences: int = SENTENCES,
    seed: int = SEED,
    *,
    held_out: int = HELD_OUT,
    novelty: float = NOVELTY,
) -> Corpus:
    """Draw the corpus and write it into `directory`: raw text, gold morphemes, word lists and a README.txt."""
    corpus = make_corpus(sentences, seed, held_out=held_out, novelty=novelty)
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made a directory for the corpus ({error.strerror})") from None
    for name, split in corpus.splits.items():
        for ending, lines in _files(split):
            with open_in_directory(folder / f"{name}.{ending}") as stream:
                stream.writelines(line + "\n" for line in lines)
    with open_in_directory(folder / "README.txt") as stream:
        stream.write(_README.format(sentences=sentences, seed=seed, held_out=held_out, novelty=novelty))
    return corpus


def ensure_corpus(
    directory: str | Path, sentences: int = SENTENCES, seed: int = SEED, *, held_out: int = HELD_OUT
) -> bool:
    """Write the corpus unless it is there already; says whether it was written. Nothing else is ever overwritten."""
    folder = Path(directory)
    try:
        readme = (folder / "README.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        readme = ""
    if readme == _README.format(sentences=sentences, seed=seed, held_out=held_out, novelty=NOVELTY):
        return False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "a corpus of another size or seed" if readme.startswith(_README.split("\n")[0]) else "something else"
        raise UserError(f"{directory}: holds {what}; choose another directory, for nothing is ever overwritten")
    if folder.exists():
        write_corpus(folder, sentences, seed, held_out=held_out)
        return True
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        write_corpus(temporary, sentences, seed, held_out=held_out)
        temporary.rename(folder)  # at once: a corpus that was interrupted is no corpus
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def _files(split: Sequence[Sentence]) -> Iterator[tuple[str, Iterable[str]]]:
    yield SOURCE, (sentence.english for sentence in split)
    yield TARGET, (sentence.target for sentence in split)
    yield "sentences.tsv", (f"{sentence.english}\t{sentence.target}\t{sentence.gold}" for sentence in split)
    yield "words.tsv", (f"{''.join(word)}\t{'-'.join(word)}" for word in word_list(split))
