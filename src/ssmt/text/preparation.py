"""From raw text files to a vocabulary and memory-mapped corpora, with nothing prepared by hand."""

from __future__ import annotations

import hashlib
import math
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ssmt.config import LARGEST_RATIO, CorpusConfig, DataConfig, TextConfig
from ssmt.errors import UserError
from ssmt.outputs import replacing, require_no_link
from ssmt.progress import Bar, Reporter, plural
from ssmt.text.alphabet import Alphabet, describe_characters
from ssmt.text.corpus import CORPUS_LINES, Corpus
from ssmt.text.corpus_writer import require_ours, unfinished_beside, write_corpus
from ssmt.text.lexicon import Lexicon, most_frequent_ngrams, of_entries, read_entries, single_entries
from ssmt.text.lines import with_single_blanks
from ssmt.text.pairs import Pair, PairReader, repetitions
from ssmt.text.subwords import MARK, MOST_TRAINING_LINES, Algorithm, Subwords, TargetSubwords
from ssmt.text.tags import language_symbol, origin_symbol
from ssmt.text.vocabulary import BothSides, SourceSubwords, SubwordVocabulary, Vocabulary
from ssmt.text.workers import cores
from ssmt.version import __version__

SomeSubwords = TypeVar("SomeSubwords", bound=Subwords)
LENGTH_PERCENTILE = 99.5
SHORT_SOURCE = 20  # characters; ratios of shorter sources say little
MANY_PAIRS = 50_000  # fewer are encoded before other processes have begun
PAIRS_BETWEEN_LOOKS = 10_000
PREPARING = "preparing"  # in the data of a run whose preparation is under way, or was interrupted
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
class Beginning:
    """The vocabulary of the model that training begins with."""

    vocabulary: BothSides
    source: bool = True  # whether this side is taken over
    target: bool = True
    extend: bool = True  # whether what the text has and the vocabulary lacks is added

    @property
    def identity(self) -> tuple[object, ...]:
        """What an interrupted preparation must have begun with to be gone on with."""
        vocabulary = self.vocabulary
        entries = vocabulary.lexicon.texts if isinstance(vocabulary, Vocabulary) else ()
        return (
            tuple(vocabulary.rows("source")),
            tuple(vocabulary.rows("target")),
            tuple(entries),
            self.source,
            self.target,
            self.extend,
        )


@dataclass(frozen=True)
class TrainingText:
    """The training pairs, read and found good, and how to write the corpora once the text can be encoded."""

    pairs: PairReader
    times: Sequence[float]  # how often a pair of each group counts, so that languages are balanced
    characters: set[str]  # of the target
    kept: Path  # a directory for what an interrupted preparation need not learn again
    write: Callable[[BothSides], Corpus]  # -> training corpus; of a vocabulary, whether it is complete or not
    reporter: Reporter
    beginning: Beginning | None = None

    @property
    def languages(self) -> list[str]:
        """The target languages, where there are several, here or before."""
        codes = {group.target_language for group in self.pairs.groups if group.target_language}
        known = () if self.beginning is None else self.beginning.vocabulary.languages
        return sorted(codes) if len(codes) > 1 or known else []

    @property
    def origins(self) -> list[str]:
        """The origins that sources are tagged with."""
        return sorted({group.origin for group in self.pairs.groups if group.tagged and group.origin})

    def tags(self, languages: bool) -> list[str]:
        """The symbols that stand in front of sources."""
        of_languages = map(language_symbol, self.languages if languages else ())
        return [*of_languages, *map(origin_symbol, self.origins)]

    def lines(self, *sides: int) -> list[str]:
        """Lines to learn subwords from, of the source (1), of the target (2) or of both; every n-th of very many, and
        more of what counts more than once."""
        total = sum(times * size for times, size in zip(self.times, self.pairs.sizes, strict=True))
        stride = math.ceil(total * len(sides) / MOST_TRAINING_LINES)
        share = [times / stride for times in self.times]  # of each pair of a group
        owed = [1 - of_pair for of_pair in share]
        lines: list[str] = []
        for pair in self.pairs:
            owed[pair.group] += share[pair.group]
            while owed[pair.group] > 1 - 1e-6:
                owed[pair.group] -= 1
                lines += [(pair.source, pair.target)[side - 1] for side in sides]
        return lines

    def subwords(self, kind: type[SomeSubwords], *sides: int, size: int, algorithm: Algorithm = "bpe") -> SomeSubwords:
        """Subwords of the source (1), of the target (2) or of both."""
        path = self.kept / f"{algorithm}-{size}-{'-'.join(map(str, sides))}.model"
        if path.exists():
            return kind.load(path)
        lines = self.lines(*sides)
        if len(sides) > 1:
            lines[::2] = map(with_single_blanks, lines[::2])  # blanks matter on the target side only
        of = " and ".join(("source", "target")[side - 1] for side in sides)
        self.reporter.say(f"Learning {size:,} {of} subwords from {plural(len(lines), 'line')}")
        learnt = kind.train(lines, size, algorithm, self.reporter.warn)
        learnt.save(path)
        return learnt


Learn = Callable[[TrainingText, TextConfig], BothSides]  # learns a vocabulary and writes the corpora


def learn_segmental(text: TrainingText, config: TextConfig) -> Vocabulary:
    """Source subwords, the target's alphabet and its lexicon; of those that the run begins with, what is new."""
    begun = text.beginning
    subwords = _source_subwords(text, config, "bpe", text.tags(config.tag_source))
    if begun is not None and begun.target:
        assert isinstance(begun.vocabulary, Vocabulary)
        old = begun.vocabulary.alphabet
        alphabet = old.extended(text.characters if begun.extend else (), text.languages)
    else:
        alphabet = Alphabet.of_characters(text.characters, text.languages)
    corpus = text.write(Vocabulary(subwords, alphabet, Lexicon.of_texts(alphabet, ())))
    corpus.require_within((len(subwords), len(alphabet)))  # a part of it may be of an interrupted preparation
    passes = config.longest_segment if config.lexicon == "ngrams" else 1
    with text.reporter.bar("counting segments", passes * len(corpus.target.ids)) as bar:
        lexicon = learn_lexicon(text, corpus, alphabet, config, bar)
    text.reporter.say(f"{len(subwords):,} source subwords, {len(lexicon):,} lexicon entries ({config.lexicon})")
    return Vocabulary(subwords, alphabet, lexicon)


def learn_lexicon(text: TrainingText, corpus: Corpus, alphabet: Alphabet, config: TextConfig, bar: Bar) -> Lexicon:
    longest, counted = config.longest_segment, 0

    def chunks() -> Iterator[npt.NDArray[np.int64]]:
        nonlocal counted
        for chunk in corpus.target.chunks():
            yield chunk
            counted += len(chunk)
            bar.advance(counted)

    weights = None if {*text.times} == {1.0} else partial(corpus.target_weights, text.times)
    if text.beginning is not None and text.beginning.target:
        assert isinstance(text.beginning.vocabulary, Vocabulary)
        known = text.beginning.vocabulary.lexicon
        size = config.lexicon_size if text.beginning.extend else 0
        if size and config.lexicon in ("bpe", "ulm"):
            room = max(0, size - len({*known.entries, *single_entries(alphabet)}))
            lexicon = of_entries(subword_entries(text, config), chunks, alphabet, longest, known.entries, room)
        else:
            size = size if config.lexicon == "ngrams" else 0
            lexicon = most_frequent_ngrams(chunks, alphabet, size, longest, weights, known.entries)
        text.reporter.say(f"{len(lexicon) - len(known):,} lexicon entries are new")
        return lexicon
    if config.lexicon == "ngrams":
        lexicon = most_frequent_ngrams(chunks, alphabet, config.lexicon_size, longest, weights)
        if len(lexicon) != config.lexicon_size:
            text.reporter.warn(
                f"lexicon_size is {config.lexicon_size:,}, but this corpus gives {len(lexicon):,} entries"
            )
        return lexicon
    if config.lexicon == "file":
        assert config.lexicon_file is not None
        return of_entries(read_entries(config.lexicon_file, alphabet, longest), chunks, alphabet, longest)
    return of_entries(subword_entries(text, config), chunks, alphabet, longest)


def subword_entries(text: TrainingText, config: TextConfig) -> list[str]:
    """The subwords of the target that a lexicon is made of, in the order in which they were learnt."""
    algorithm: Algorithm = "bpe" if config.lexicon == "bpe" else "unigram"
    subwords = text.subwords(TargetSubwords, 2, size=config.lexicon_size, algorithm=algorithm)
    return [piece.removeprefix(MARK) for piece in subwords.pieces]


def learn_subwords(algorithm: Algorithm, text: TrainingText, config: TextConfig) -> SubwordVocabulary:
    """Subwords of both languages, one vocabulary for both or one for each."""
    begun, size, tags = text.beginning, config.subword_vocabulary, text.tags(True)
    if begun is not None:
        vocabulary = _begun_subwords(begun, text, config, algorithm)
        sizes = "{:,} source and {:,} target subwords".format(*vocabulary.sizes)
        text.reporter.say(f"{sizes}, with those of the model that training begins with")
    elif config.shared_vocabulary:
        both = text.subwords(TargetSubwords, 1, 2, size=size, algorithm=algorithm).with_tags(tags)
        vocabulary = SubwordVocabulary(both, both)
        text.reporter.say(f"{len(both):,} subwords of both languages ({algorithm})")
    else:
        vocabulary = SubwordVocabulary(
            text.subwords(Subwords, 1, size=config.source_vocabulary, algorithm=algorithm).with_tags(tags),
            text.subwords(TargetSubwords, 2, size=size, algorithm=algorithm),
        )
        sizes = "{:,} source and {:,} target subwords".format(*vocabulary.sizes)
        text.reporter.say(f"{sizes} ({algorithm})")
    text.write(vocabulary)
    return vocabulary


def _begun_subwords(
    begun: Beginning, text: TrainingText, config: TextConfig, algorithm: Algorithm
) -> SubwordVocabulary:
    """Subwords of a model, with the characters and languages that are new."""
    old = begun.vocabulary
    if begun.source and begun.target:
        assert isinstance(old, SubwordVocabulary)
        if old.shared:
            both = _extended(begun, old.source, text.tags(True), text, 1, 2)
            assert isinstance(both, TargetSubwords)
            return SubwordVocabulary(both, both)
    elif config.shared_vocabulary:
        raise UserError(
            "text.shared_vocabulary: a run that begins with one side of a model has a vocabulary of its own for the "
            "other; set it to false"
        )
    if begun.target:
        assert isinstance(old, SubwordVocabulary)
        assert isinstance(old.target, TargetSubwords)
        target = old.target.with_characters(old.target.characters_of(text.lines(2)) if begun.extend else ())
    else:
        target = text.subwords(TargetSubwords, 2, size=config.subword_vocabulary, algorithm=algorithm)
    return SubwordVocabulary(_source_subwords(text, config, algorithm, text.tags(True)), target)


def _source_subwords(
    text: TrainingText, config: TextConfig, algorithm: Algorithm, tags: Sequence[str]
) -> SourceSubwords:
    """Of the source, with tags: those of the model that training begins with, or new ones."""
    if text.beginning is not None and text.beginning.source:
        return _extended(text.beginning, text.beginning.vocabulary.source, tags, text, 1)
    return text.subwords(Subwords, 1, size=config.source_vocabulary, algorithm=algorithm).with_tags(tags)


def _extended(
    begun: Beginning, subwords: SourceSubwords, tags: Sequence[str], text: TrainingText, *sides: int
) -> SourceSubwords:
    """Subwords of a model with new tags and, if that is allowed, with the characters of some sides of the text."""
    if not isinstance(subwords, Subwords):
        if missing := [tag for tag in tags if tag not in subwords.tags]:
            raise UserError(f"The model that training begins with was imported, and cannot have {', '.join(missing)}")
        return subwords
    new = subwords.characters_of(text.lines(*sides)) if begun.extend else ()
    return subwords.with_characters(new).with_tags(tags)


def prepare(
    files: TrainingFiles | DataConfig,
    config: TextConfig,
    directory: Path,
    reporter: Reporter,
    learn: Learn = learn_segmental,
    beginning: Beginning | None = None,
) -> Prepared:
    """Learn the vocabulary, or what is new to that of a beginning, and write `directory/train` and `directory/valid`.
    Nothing is written if a line is bad."""
    for part in ("train", "valid"):
        require_ours(directory / part)
    data = files.data if isinstance(files, TrainingFiles) else files
    train, valid = PairReader(data.train, config), PairReader(data.valid, config)

    characters: set[str] = set()
    ratios = array("f")
    learner = (getattr(learn, "func", learn).__name__, getattr(learn, "args", ()))
    digest = hashlib.blake2b(
        repr((config, learner, beginning and beginning.identity, __version__)).encode(), digest_size=16
    )
    held_out, seen = set[int](), set[int]()
    for pair in valid:
        held_out.add(hash(pair[1:3]))
        digest.update(_as_bytes(pair))
    with reporter.bar("reading", None) as bar:
        for pair in train:
            _, source, target, _ = pair
            characters.update(target)
            ratios.append(len(target) / max(len(source), SHORT_SOURCE))
            if (both := hash((source, target))) in held_out:
                seen.add(both)
            digest.update(_as_bytes(pair))
            if len(ratios) % PAIRS_BETWEEN_LOOKS == 0:
                bar.advance(len(ratios), plural(len(ratios), "pair"))
    digest.update(repr((train.groups, valid.groups)).encode())
    _compare_languages(train, valid, beginning)
    if len(seen) > MOST_SEEN * len(held_out):
        reporter.warn(
            f"{len(seen):,} of {len(held_out):,} different validation pairs are training pairs too, so validation "
            f"says little about new text; validate on pairs that training does not have"
        )
    if train.skipped:
        reporter.warn(f"{plural(train.skipped, 'training pair')} left out: empty or too long")
    if beginning is not None and beginning.target and not beginning.extend:
        _report_lacking(beginning.vocabulary, characters, reporter)
    known = beginning.vocabulary.rows("target") if beginning is not None and beginning.target else ()
    _report_unknown(valid, Alphabet.of_characters(characters.union(row for row in known if len(row) == 1)), reporter)
    times = repetitions(train.groups, train.sizes, config.language_temperature)
    kept = _kept_of(directory, digest.hexdigest())
    write = partial(_write, train, valid, directory, reporter)
    text = TrainingText(train, times, characters, kept, write, reporter, beginning)
    in_languages = f" into {', '.join(text.languages)}" if text.languages else ""
    different = f"{plural(len(characters), 'different character')} in the target"
    reporter.say(f"{plural(len(ratios), 'training pair')}{in_languages}, {different}")
    vocabulary = learn(text, config)
    shutil.rmtree(kept)
    ratio = round(float(np.percentile(ratios, LENGTH_PERCENTILE)), 2)
    return Prepared(vocabulary, min(max(ratio, 0.01), LARGEST_RATIO))  # 0 would be no ratio


def _kept_of(directory: Path, key: str) -> Path:
    """Where a preparation keeps what it has learnt. What another has left, with other text or settings, goes."""
    kept = directory / PREPARING
    found = kept / "key"
    require_no_link(kept)
    if found.is_file() and found.stat().st_size == len(key) and found.read_bytes() == key.encode():
        return kept
    for part in ("train", "valid"):
        if (directory / part / CORPUS_LINES).exists():
            shutil.rmtree(directory / part)
        shutil.rmtree(unfinished_beside(directory / part), ignore_errors=True)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with replacing(found) as temporary:
        temporary.write_text(key, encoding="utf-8")
    return kept


def _write(train: PairReader, valid: PairReader, directory: Path, reporter: Reporter, vocabulary: BothSides) -> Corpus:
    """The corpora in the ids of a vocabulary; the training corpus comes back."""
    for part, pairs in (("train", train), ("valid", valid)):
        if (directory / part / CORPUS_LINES).exists():  # before an interruption
            continue
        count = sum(pairs.sizes)
        with reporter.bar(f"encoding {part}", count) as bar:
            write_corpus(
                directory / part,
                pairs,
                vocabulary.encode_sources,
                vocabulary.encode_targets,
                vocabulary.sizes,
                with_text=part == "valid",
                groups=pairs.groups,
                tags=lambda group: vocabulary.tags(group.target_language, group.origin if group.tagged else None),
                processes=cores() if count >= MANY_PAIRS else 1,
                advance=bar.advance,
            )
    return Corpus(directory / "train")


def _compare_languages(train: PairReader, valid: PairReader, beginning: Beginning | None) -> None:
    """Refuse to validate on what was never trained on, and to go on with a model of several languages without one."""
    known = () if beginning is None else beginning.vocabulary.languages
    trained = {group.target_language or "" for group in train.groups}
    if known and trained == {""}:
        raise UserError(
            f"The model that training begins with translates into {', '.join(known)}: say what the target language is"
        )
    new = trained.difference(known)
    if known and new and beginning is not None and not beginning.extend:
        raise UserError(f"The model that training begins with does not know {', '.join(sorted(new))} (start.extend)")
    for code in sorted({group.target_language or "" for group in valid.groups}):
        if (len(trained) > 1 or known) and code not in (*trained, *known):
            named = f"is in {code!r}" if code else "does not say its target language"
            raise UserError(f"The validation text {named}; training is into {', '.join(sorted(trained))}")


def _report_lacking(vocabulary: BothSides, characters: set[str], reporter: Reporter) -> None:
    if unknown := vocabulary.unknown_characters("".join(sorted(characters))):
        reporter.warn(
            f"the model that training begins with lacks {plural(len(unknown), 'character')} of the training text; they "
            f"count as <unk>: {describe_characters(unknown)}"
        )


def _as_bytes(pair: Pair) -> bytes:
    return f"{pair.source}\n{pair.target}\n{pair.group}\n".encode("utf-8", "surrogatepass")


def _report_unknown(valid: PairReader, alphabet: Alphabet, reporter: Reporter) -> None:
    unknown: dict[str, int] = {}  # character -> first line
    for number, _, target, _ in valid:
        unknown = dict.fromkeys(alphabet.unknown_characters(target), number) | unknown
    if valid.skipped:
        reporter.warn(f"{plural(valid.skipped, 'validation pair')} left out: empty or too long")
    if unknown:
        reporter.warn(
            f"{valid.place(min(unknown.values()))}: validation text has characters that the "
            f"training text lacks ({len(unknown)}); they count as <unk>: {describe_characters(list(unknown))}"
        )
