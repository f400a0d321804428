"""From two raw text files to a vocabulary and memory-mapped corpora, with nothing prepared by hand."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ssmt.config import TextConfig
from ssmt.progress import Reporter
from ssmt.text.alphabet import Alphabet, describe_characters
from ssmt.text.corpus import Corpus, PairReader, write_corpus
from ssmt.text.lexicon import most_frequent_ngrams
from ssmt.text.subwords import MOST_TRAINING_LINES, Subwords
from ssmt.text.vocabulary import Vocabulary, encode_targets

LENGTH_PERCENTILE = 99.5
SHORT_SOURCE = 20  # characters; ratios of shorter sources say little


@dataclass(frozen=True)
class TrainingFiles:
    source: Path
    target: Path
    valid_source: Path
    valid_target: Path


class Prepared(NamedTuple):
    vocabulary: Vocabulary
    length_ratio: float  # all but a few training targets have fewer characters for each of their source's


def prepare(files: TrainingFiles, config: TextConfig, directory: Path, reporter: Reporter) -> Prepared:
    """Learn the vocabulary and write `directory/train` and `directory/valid`. Nothing is written if a line is bad."""
    train = PairReader(files.source, files.target, config)
    valid = PairReader(files.valid_source, files.valid_target, config)

    characters: set[str] = set()
    ratios = array("f")
    for _, source, target in train:
        characters.update(target)
        ratios.append(len(target) / max(len(source), SHORT_SOURCE))
    count = len(ratios)
    if train.skipped:
        reporter.warn(f"{train.skipped:,} training pairs are empty or too long and were left out")
    alphabet = Alphabet.of_characters(characters)
    _report_unknown(valid, alphabet, reporter)
    reporter.say(f"{count:,} training pairs, {len(characters)} target characters")

    stride = -(-count // MOST_TRAINING_LINES)
    sources = [source for _, source, _ in islice(train, 0, None, stride)]
    subwords = Subwords.train(sources, config.source_vocabulary, warn=reporter.warn)

    encode = (subwords.encode, partial(encode_targets, alphabet))
    sizes = (len(subwords), len(alphabet))
    write_corpus(directory / "train", train, *encode, sizes)
    write_corpus(directory / "valid", valid, *encode, sizes, with_text=True)

    text = Corpus(directory / "train", subwords.pad, alphabet.pad).target
    lexicon = most_frequent_ngrams(text.chunks, alphabet, config.lexicon_size, config.longest_segment)
    if len(lexicon) != config.lexicon_size:
        reporter.warn(f"lexicon_size is {config.lexicon_size:,}, but this corpus gives {len(lexicon):,} entries")
    reporter.say(f"{len(subwords):,} source subwords, {len(lexicon):,} lexicon entries")
    ratio = round(float(np.percentile(ratios, LENGTH_PERCENTILE)), 2)
    return Prepared(Vocabulary(subwords, alphabet, lexicon), ratio)


def _report_unknown(valid: PairReader, alphabet: Alphabet, reporter: Reporter) -> None:
    unknown: dict[str, int] = {}  # character -> first line
    for number, _, target in valid:
        for character in alphabet.unknown_characters(target):
            unknown.setdefault(character, number)
    if valid.skipped:
        reporter.warn(f"{valid.skipped:,} validation pairs are empty or too long and were left out")
    if unknown:
        reporter.warn(
            f"{valid.target}, line {min(unknown.values())}: {len(unknown)} characters of the validation text never "
            f"occur in the training text and count as <unk>: {describe_characters(list(unknown))}"
        )
