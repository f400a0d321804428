"""Sentences of the artificial language with their English, drawn at random.

English decides the target wholly, so that translation can be learnt: a definite object ("the dog") is marked on the
verb and an indefinite one ("a dog") is not, "you all" is the plural of "you", "together with" is company and "with" an
instrument, each English tense is one tense. The reverse does not hold: "he" and "she" are one person in the language.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ssmt.demo import grammar, phrases, vocabulary
from ssmt.demo.grammar import Concord, Extension, Tense, Word
from ssmt.demo.phrases import NOTHING, Adjunct, Phrase, english_verb, noun_phrase, object_phrase, pick, subject_phrase
from ssmt.demo.vocabulary import Kind, Verb

BOUNDARY = "|"
_PUNCTUATION = ".,?!"
_SHORTEST, _LONGEST = 3, 12  # English words of a sentence


@dataclass(frozen=True)
class Sentence:
    english: str
    gold: str
    """The target sentence with `|` between the morphemes of a word."""

    @property
    def target(self) -> str:
        return self.gold.replace(BOUNDARY, "")

    @property
    def words(self) -> tuple[Word, ...]:
        """The words as morphemes, without punctuation and without the capital of the sentence's beginning."""
        plain = self.gold[0].lower() + self.gold[1:]
        return tuple(tuple(token.strip(_PUNCTUATION).split(BOUNDARY)) for token in plain.split(" "))


def _written(english: str, words: Sequence[Word], end: str, *, comma_after: int = 0) -> Sentence:
    tokens = [BOUNDARY.join(word) for word in words]
    if comma_after:
        tokens[comma_after - 1] += ","
    gold = " ".join(tokens) + end
    return Sentence(english[0].upper() + english[1:] + end, gold[0].upper() + gold[1:])


@dataclass(frozen=True)
class Manner:
    """Tense, polarity and mood of a clause."""

    tense: Tense
    negative: bool = False
    question: bool = False


def manner(rng: random.Random) -> Manner:
    if rng.random() < 0.2:
        return Manner(pick(rng, grammar.NEGATIVE_TENSES), negative=True)
    tense: Tense = "present" if rng.random() < 0.3 else pick(rng, grammar.TENSES)
    return Manner(tense, question=rng.random() < 0.1)


def clause(
    subject: Phrase,
    verb: Verb,
    how: Manner,
    tail: str,
    words: Sequence[Word],
    *,
    root: str | None = None,
    marker: Concord | None = None,
    extension: Extension | None = None,
) -> Sentence:
    """Subject, verb, and what follows it in English (`tail`) and in the language (`words`)."""
    auxiliary, rest = english_verb(
        verb,
        subject.agreement,
        how.tense,
        negative=how.negative,
        passive=extension == "passive",
        question=how.question,
    )
    order = (auxiliary, subject.english, rest, tail) if how.question else (subject.english, auxiliary, rest, tail)
    finite = grammar.verb(
        verb.root if root is None else root,
        subject.concord,
        how.tense,
        object=marker,
        extension=extension,
        negative=how.negative,
        last=not words,
    )
    particle = (("na",),) if how.question else ()
    english = " ".join(part for part in order if part)
    return _written(english, (*subject.words, finite, *words, *particle), "?" if how.question else ".")


# ---------------------------------------------------------------------------------------------------- kinds of sentence


def intransitive(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.INTRANSITIVE_VERBS), manner(rng)
    draw = rng.random()
    adjunct: Adjunct = NOTHING
    if draw < 0.2:
        adjunct = phrases.adverb(rng, vocabulary.TIME_ADVERBS, how.tense)
    elif draw < 0.4:
        adjunct = phrases.adverb(rng, vocabulary.MANNER_ADVERBS, how.tense)
    elif draw < 0.65:
        adjunct = phrases.place(rng, "at", before_name="in")
    elif draw < 0.75:
        adjunct = phrases.company(rng)
    return clause(subject_phrase(rng, verb.subjects), verb, how, *adjunct)


def transitive(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.TRANSITIVE_VERBS), manner(rng)
    subject, thing = subject_phrase(rng, verb.subjects), object_phrase(rng, verb.objects)
    draw = rng.random()
    adjunct: Adjunct = NOTHING
    if draw < 0.12:
        adjunct = phrases.adverb(rng, vocabulary.TIME_ADVERBS, how.tense)
    elif draw < 0.2:
        adjunct = phrases.place(rng, "at", before_name="in")
    elif verb.base in _DONE_WITH_TOOLS and draw < 0.6:
        adjunct = phrases.instrument(rng)
    tail = f"{thing.english} {adjunct[0]}".rstrip()
    return clause(subject, verb, how, tail, (*thing.words, *adjunct[1]), marker=thing.marker)


def topic(rng: random.Random) -> Sentence:
    """As for the dog, the child sees it: the object stands first, and its marker on the verb agrees with it."""
    verb = pick(rng, [verb for verb in vocabulary.TRANSITIVE_VERBS if verb.objects != ("person",)])
    kinds = [kind for kind in verb.objects if kind != "person"]  # of a person English would have to say him or her
    how, thing = Manner(pick(rng, grammar.TENSES)), noun_phrase(rng, kinds, definite=True)
    subject = subject_phrase(rng, verb.subjects)
    sentence = clause(subject, verb, how, "them" if thing.agreement == "plural" else "it", (), marker=thing.concord)
    first, rest = f"as for {thing.english}, ", sentence.english
    if subject.english[0].islower():
        rest = rest[0].lower() + rest[1:]
    return _written(first + rest[:-1], (*thing.words, *sentence.words), ".", comma_after=len(thing.words))


def ditransitive(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.DITRANSITIVE_VERBS), manner(rng)
    subject, receiver = subject_phrase(rng, verb.subjects), object_phrase(rng, ("person",), modified=False)
    thing = noun_phrase(rng, verb.objects)
    tail = f"{receiver.english} {thing.english}"
    return clause(subject, verb, how, tail, (*receiver.words, *thing.words), marker=receiver.marker)


def applicative(rng: random.Random) -> Sentence:
    """For whom it is done stands first in the language and last in English."""
    verb = pick(rng, [verb for verb in vocabulary.TRANSITIVE_VERBS if "person" not in verb.objects])
    subject, receiver = subject_phrase(rng, ("person",)), object_phrase(rng, ("person",), modified=False)
    thing, how = noun_phrase(rng, verb.objects, modified=False), manner(rng)
    tail, words = f"{thing.english} for {receiver.english}", (*receiver.words, *thing.words)
    return clause(subject, verb, how, tail, words, marker=receiver.marker, extension="applicative")


_MAKE = Verb("", "make", "made", "made", ("person",))


def causative(rng: random.Random) -> Sentence:
    caused, how = pick(rng, vocabulary.INTRANSITIVE_VERBS), manner(rng)
    subject, person = subject_phrase(rng, ("person",)), object_phrase(rng, caused.subjects, modified=False)
    tail = f"{person.english} {caused.base}"
    return clause(
        subject, _MAKE, how, tail, person.words, root=caused.root, marker=person.marker, extension="causative"
    )


def passive(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.TRANSITIVE_VERBS), manner(rng)
    subject = subject_phrase(rng, verb.objects)
    adjunct: Adjunct = NOTHING
    if rng.random() < 0.6:
        doer = noun_phrase(rng, verb.subjects, modified=False)
        adjunct = f"by {doer.english}", (grammar.agent(doer.words[0]),)
    return clause(subject, verb, how, *adjunct, extension="passive")


def reciprocal(rng: random.Random) -> Sentence:
    verb = pick(rng, [verb for verb in vocabulary.TRANSITIVE_VERBS if set(verb.subjects) & set(verb.objects)])
    kinds = [kind for kind in verb.subjects if kind in verb.objects]
    subject = noun_phrase(rng, kinds, definite=True, plural=True)
    if "person" in kinds and rng.random() < 0.3:
        people = pick(rng, ("we", "you all", "they"))
        subject = Phrase(people, (), grammar.PERSONS[people], "plural")
    return clause(subject, verb, manner(rng), "each other", (), extension="reciprocal")


def motion(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.MOTION_VERBS), manner(rng)
    where = phrases.place(rng, verb.preposition, before_name=verb.preposition)
    if verb.preposition == "to" and rng.random() < 0.2:
        person = noun_phrase(rng, ("person",), definite=True, modified=False)
        where = f"to {person.english}", (grammar.towards(person.words[0]),)
    return clause(subject_phrase(rng, verb.subjects), verb, how, *where)


def infinitive(rng: random.Random) -> Sentence:
    verb, how = pick(rng, vocabulary.INFINITIVE_VERBS), manner(rng)
    subject = subject_phrase(rng, verb.subjects)
    if rng.random() < 0.4:
        done = pick(rng, vocabulary.INTRANSITIVE_VERBS)
        return clause(subject, verb, how, f"to {done.base}", (grammar.infinitive(done.root),))
    done = pick(rng, [verb for verb in vocabulary.TRANSITIVE_VERBS if "person" in verb.subjects])
    thing = object_phrase(rng, done.objects, modified=False)
    words = (grammar.infinitive(done.root, object=thing.marker), *thing.words)
    return clause(subject, verb, how, f"to {done.base} {thing.english}", words)


def description(rng: random.Random) -> Sentence:
    """The child is big: an adjective alone is the predicate."""
    people = rng.random() < 0.2
    kinds: tuple[Kind, ...] = ("person",) if people else ("animal", "thing", "tool", "food", "stuff", "place")
    subject = noun_phrase(rng, kinds, definite=True, relative=True)
    stem, quality = phrases.adjective(rng, people=people)
    copula = "are" if subject.agreement == "plural" else "is"
    words = (*subject.words, grammar.predicate(stem, subject.noun_class))
    return _written(f"{subject.english} {copula} {quality}", words, ".")


def conjunction(rng: random.Random) -> Sentence:
    first = pick(rng, vocabulary.INTRANSITIVE_VERBS)
    second = pick(rng, [verb for verb in vocabulary.INTRANSITIVE_VERBS if verb != first])
    subject = subject_phrase(rng, [kind for kind in first.subjects if kind in second.subjects])
    how = Manner(pick(rng, grammar.NEGATIVE_TENSES))
    sentence = clause(subject, first, how, "", ())
    _, again = english_verb(second, subject.agreement, how.tense, negative=False, passive=False, question=False)
    words = (*sentence.words, ("hezu",), grammar.verb(second.root, subject.concord, how.tense, last=True))
    return _written(f"{sentence.english[:-1]} and {again}", words, ".")


_ASKED_WHAT = tuple(verb for verb in vocabulary.TRANSITIVE_VERBS if "thing" in verb.objects or "food" in verb.objects)


def question(rng: random.Random) -> Sentence:
    """What, a suffix of the verb, or where, a word behind it."""
    tense = pick(rng, grammar.TENSES)
    what = rng.random() < 0.5
    verb = pick(rng, _ASKED_WHAT if what else vocabulary.INTRANSITIVE_VERBS)
    subject = subject_phrase(rng, verb.subjects)
    auxiliary, rest = english_verb(verb, subject.agreement, tense, negative=False, passive=False, question=True)
    finite = grammar.verb(verb.root, subject.concord, tense, suffix="ni" if what else "")
    words = (*subject.words, finite) if what else (*subject.words, finite, ("kupe",))
    return _written(f"{'what' if what else 'where'} {auxiliary} {subject.english} {rest}", words, "?")


def command(rng: random.Random) -> Sentence:
    several, negative = rng.random() < 0.3, rng.random() < 0.25
    verb = pick(rng, [verb for verb in vocabulary.TRANSITIVE_VERBS if "person" in verb.subjects])
    thing = noun_phrase(rng, verb.objects)
    order = grammar.imperative(verb.root, object=thing.marker, plural=several, negative=negative)
    english = f"{'do not ' if negative else ''}{verb.base} {thing.english}{', all of you' if several else ''}"
    return _written(english, (order, *thing.words), "!")


_DONE_WITH_TOOLS = ("break", "mend", "slice", "cook", "wash")

_KINDS: tuple[tuple[Callable[[random.Random], Sentence], int], ...] = (
    (intransitive, 18),
    (transitive, 30),
    (topic, 3),
    (ditransitive, 7),
    (applicative, 7),
    (causative, 6),
    (passive, 9),
    (reciprocal, 4),
    (motion, 8),
    (infinitive, 5),
    (description, 4),
    (conjunction, 3),
    (question, 5),
    (command, 6),
)
"""Kinds of sentence with their relative frequencies."""

_LOTTERY = tuple(kind for kind, weight in _KINDS for _ in range(weight))


_STEMS = frozenset(
    [noun.stem for noun in vocabulary.NOUNS]
    + [verb.root for verb in vocabulary.VERBS]
    + [stem for stem, _ in vocabulary.ADJECTIVES + vocabulary.COLOURS + vocabulary.NUMBERS]
)
_SAME_PERSON = (("i", "me", "we", "us"), ("you",))


def _is_odd(sentence: Sentence) -> bool:
    """Says a thing twice (the horse bites the horse), or would need a reflexive that the language lacks (I see me)."""
    stems = [morpheme for word in sentence.words for morpheme in word if morpheme in _STEMS]
    tokens = [token.strip(_PUNCTUATION) for token in sentence.english.lower().split(" ")]
    return len(stems) != len(set(stems)) or any(sum(token in person for token in tokens) > 1 for person in _SAME_PERSON)


def sample_sentence(rng: random.Random) -> Sentence:
    """A sentence of three to twelve English words; the same for the same state of `rng` everywhere."""
    while True:
        sentence = pick(rng, _LOTTERY)(rng)
        if _SHORTEST <= sentence.english.count(" ") + 1 <= _LONGEST and not _is_odd(sentence):
            return sentence
