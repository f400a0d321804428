"""From raw text files to a vocabulary and memory-mapped corpora, with nothing prepared by hand."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ssmt.config import LARGEST_RATIO, CorpusConfig, DataConfig, TextConfig
from ssmt.progress import Reporter, plural
from ssmt.text.alphabet import Alphabet, describe_characters
from ssmt.text.corpus import Corpus, Encode, write_corpus
from ssmt.text.lexicon import Lexicon, most_frequent_ngrams, of_entries, read_entries
from ssmt.text.lines import with_single_blanks
from ssmt.text.pairs import PairReader
from ssmt.text.subwords import MARK, MOST_TRAINING_LINES, Algorithm, Subwords, TargetSubwords
from ssmt.text.vocabulary import BothSides, SubwordVocabulary, Vocabulary, encode_targets

LENGTH_PERCENTILE = 99.5
SHORT_SOURCE = 20  # characters; ratios of shorter sources say little
MOST_SEEN = 0.1  # of the validation pairs: so many short sentences may be in any text


@dataclass(frozen=True)
class TrainingFiles:
    """The simplest data: a file for each side, to train on and to validate on."""

    source: Path
    target: Path
    valid_source: Path
    valid_target: Path

    @property
    def data(self) -> DataConfig:
        train = CorpusConfig(source=(str(self.source),), target=(str(self.target),))
        valid = CorpusConfig(source=(str(self.valid_source),), target=(str(self.valid_target),))
        return DataConfig(train=(train,), valid=(valid,))


class Prepared(NamedTuple):
    vocabulary: BothSides
    length_ratio: float  # all but a few training targets have fewer characters for each of their source's


@dataclass(frozen=True)
class TrainingText:
    """The training pairs, read and found good, and how to write the corpora once the text can be encoded."""

    pairs: PairReader
    count: int
    alphabet: Alphabet
    write: Callable[[Encode, Encode, tuple[int, int]], Corpus]  # encoders, sizes of vocabularies -> training corpus
    reporter: Reporter

    def lines(self, *sides: int) -> list[str]:
        """Lines to learn subwords from, of the source (1), of the target (2) or of both; every n-th of very many."""
        stride = -(-self.count * len(sides) // MOST_TRAINING_LINES)
        return [(pair.source, pair.target)[side - 1] for pair in islice(self.pairs, 0, None, stride) for side in sides]


Learn = Callable[[TrainingText, TextConfig], BothSides]  # learns a vocabulary and writes the corpora


def learn_segmental(text: TrainingText, config: TextConfig) -> Vocabulary:
    """Source subwords, the target's alphabet and its lexicon."""
    subwords = Subwords.train(text.lines(1), config.source_vocabulary, warn=text.reporter.warn)
    alphabet = text.alphabet
    corpus = text.write(subwords.encode, partial(encode_targets, alphabet), (len(subwords), len(alphabet)))
    lexicon = learn_lexicon(text, corpus, config)
    text.reporter.say(f"{len(subwords):,} source subwords, {len(lexicon):,} lexicon entries ({config.lexicon})")
    return Vocabulary(subwords, alphabet, lexicon)


def learn_lexicon(text: TrainingText, corpus: Corpus, config: TextConfig) -> Lexicon:
    chunks, alphabet, longest = corpus.target.chunks, text.alphabet, config.longest_segment
    if config.lexicon == "ngrams":
        lexicon = most_frequent_ngrams(chunks, alphabet, config.lexicon_size, longest)
        if len(lexicon) != config.lexicon_size:
            text.reporter.warn(
                f"lexicon_size is {config.lexicon_size:,}, but this corpus gives {len(lexicon):,} entries"
            )
        return lexicon
    if config.lexicon == "file":
        assert config.lexicon_file is not None
        return of_entries(read_entries(config.lexicon_file, alphabet, longest), chunks, alphabet, longest)
    algorithm: Algorithm = "bpe" if config.lexicon == "bpe" else "unigram"
    subwords = TargetSubwords.train(text.lines(2), config.lexicon_size, algorithm, text.reporter.warn)
    return of_entries((piece.removeprefix(MARK) for piece in subwords.pieces), chunks, alphabet, longest)


def learn_subwords(algorithm: Algorithm, text: TrainingText, config: TextConfig) -> SubwordVocabulary:
    """Subwords of both languages, one vocabulary for both or one for each."""
    warn = text.reporter.warn
    if config.shared_vocabulary:
        lines = text.lines(1, 2)
        lines[::2] = map(with_single_blanks, lines[::2])  # blanks matter on the target side only
        both = TargetSubwords.train(lines, config.subword_vocabulary, algorithm, warn)
        vocabulary = SubwordVocabulary(both, both)
        text.reporter.say(f"{len(both):,} subwords of both languages ({algorithm})")
    else:
        vocabulary = SubwordVocabulary(
            Subwords.train(text.lines(1), config.source_vocabulary, algorithm, warn),
            TargetSubwords.train(text.lines(2), config.subword_vocabulary, algorithm, warn),
        )
        sizes = "{:,} source and {:,} target subwords".format(*vocabulary.sizes)
        text.reporter.say(f"{sizes} ({algorithm})")
    text.write(vocabulary.encode_sources, vocabulary.encode_targets, vocabulary.sizes)
    return vocabulary


def prepare(
    files: TrainingFiles | DataConfig,
    config: TextConfig,
    directory: Path,
    reporter: Reporter,
    learn: Learn = learn_segmental,
) -> Prepared:
    """Learn the vocabulary and write `directory/train` and `directory/valid`. Nothing is written if a line is bad."""
    data = files.data if isinstance(files, TrainingFiles) else files
    train, valid = PairReader(data.train, config), PairReader(data.valid, config)

    characters: set[str] = set()
    ratios = array("f")
    held_out, seen = _pairs_of(valid), set[int]()
    for _, source, target, _ in train:
        characters.update(target)
        ratios.append(len(target) / max(len(source), SHORT_SOURCE))
        if (pair := hash((source, target))) in held_out:
            seen.add(pair)
    count = len(ratios)
    if len(seen) > MOST_SEEN * len(held_out):
        reporter.warn(
            f"{len(seen):,} of {len(held_out):,} different validation pairs are training pairs too, so validation "
            f"says little about new text; validate on pairs that training does not have"
        )
    if train.skipped:
        reporter.warn(f"{plural(train.skipped, 'training pair')} left out: empty or too long")
    alphabet = Alphabet.of_characters(characters)
    _report_unknown(valid, alphabet, reporter)
    reporter.say(f"{plural(count, 'training pair')}, {plural(len(characters), 'target character')}")

    def write(encode_sources: Encode, encode_targets: Encode, sizes: tuple[int, int]) -> Corpus:
        for part, pairs in (("train", train), ("valid", valid)):
            write_corpus(
                directory / part,
                pairs,
                encode_sources,
                encode_targets,
                sizes,
                with_text=part == "valid",
                groups=pairs.groups,
            )
        return Corpus(directory / "train")

    vocabulary = learn(TrainingText(train, count, alphabet, write, reporter), config)
    ratio = round(float(np.percentile(ratios, LENGTH_PERCENTILE)), 2)
    return Prepared(vocabulary, min(max(ratio, 0.01), LARGEST_RATIO))  # 0 would be no ratio


def _pairs_of(pairs: PairReader) -> set[int]:
    """The different pairs, by their hashes."""
    return {hash((source, target)) for _, source, target, _ in pairs}


def _report_unknown(valid: PairReader, alphabet: Alphabet, reporter: Reporter) -> None:
    unknown: dict[str, int] = {}  # character -> first line
    for number, _, target, _ in valid:
        for character in alphabet.unknown_characters(target):
            unknown.setdefault(character, number)
    if valid.skipped:
        reporter.warn(f"{plural(valid.skipped, 'validation pair')} left out: empty or too long")
    if unknown:
        reporter.warn(
            f"{valid.place(min(unknown.values()))}: validation text has characters that the "
            f"training text lacks ({len(unknown)}); they count as <unk>: {describe_characters(list(unknown))}"
        )
