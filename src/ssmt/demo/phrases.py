"""Noun phrases, adjuncts and English verbs: the parts of which sentences are made, in both languages at once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from ssmt.demo import grammar, vocabulary
from ssmt.demo.grammar import Concord, Tense, Word
from ssmt.demo.vocabulary import Adverb, Kind, Noun, Verb

Agreement = Literal["first", "singular", "plural"]
"""What an English verb agrees with; "you" counts as plural."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase, a pronoun or a name. A pronoun has no words of its own: the verb's markers say it."""

    english: str
    words: tuple[Word, ...]
    concord: Concord
    agreement: Agreement
    definite: bool = True
    noun_class: int = 1

    @property
    def marker(self) -> Concord | None:
        """The object marker that the verb takes for this phrase as its (first) object."""
        return self.concord if self.definite else None


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """One item. Python promises the same numbers in every version for `random()` alone, so nothing else is used."""
    return items[int(rng.random() * len(items))]


# ------------------------------------------------------------------------------------------------------ noun phrases

_NOUNS_OF_KIND: dict[Kind, tuple[Noun, ...]] = {
    kind: tuple(noun for noun in vocabulary.NOUNS if noun.kind == kind) for kind in get_args(Kind)
}
_OBLIQUE = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
_AGREEMENT: dict[str, Agreement] = {"I": "first", "he": "singular", "she": "singular"}


def with_article(english: str) -> str:
    return f"{'an' if english[0] in grammar.VOWELS else 'a'} {english}"


def pronoun(rng: random.Random, *, subject: bool) -> Phrase:
    person = pick(rng, tuple(grammar.PERSONS))
    english = person if subject else _OBLIQUE.get(person, person)
    return Phrase(english, (), grammar.PERSONS[person], _AGREEMENT.get(person, "plural"))


def name(rng: random.Random) -> Phrase:
    english = pick(rng, vocabulary.PERSON_NAMES)
    return Phrase(english, (grammar.person_name(english),), grammar.NOUN_CLASSES[1].concord, "singular")


def adjective(rng: random.Random, *, people: bool) -> tuple[str, str]:
    """A stem and its English; `people` leaves out what is not said of them."""
    return pick(rng, vocabulary.ADJECTIVES if people else vocabulary.ADJECTIVES + vocabulary.COLOURS)


def noun_phrase(
    rng: random.Random,
    kinds: Sequence[Kind],
    *,
    definite: bool | None = None,
    plural: bool | None = None,
    modified: bool = True,
    relative: bool = False,
) -> Phrase:
    """A noun with an article and perhaps a modifier; what is None is drawn."""
    noun = pick(rng, tuple(itertools.chain.from_iterable(_NOUNS_OF_KIND[kind] for kind in kinds)))
    if noun.plural is None:
        plural = False
    elif plural is None:
        plural = rng.random() < 0.35
    if definite is None:
        definite = rng.random() < 0.5
    noun_class = vocabulary.PLURAL_CLASS[noun.noun_class] if plural else noun.noun_class
    english = noun.plural if plural and noun.plural else noun.singular
    words = [grammar.noun(noun.stem, noun_class)]
    determiner, clause = "the", ""

    draw = rng.random() if modified else 1.0
    if draw < 0.13:
        stem, quality = adjective(rng, people=noun.kind == "person")
        words.append(grammar.adjective(stem, noun_class))
        english = f"{quality} {english}"
    elif draw < 0.22:
        determiner = pick(rng, tuple(grammar.POSSESSORS))
        words.append(grammar.possessive_pronoun(noun_class, determiner))
        definite = True
    elif draw < 0.28:
        owner = noun_phrase(rng, ("person",), definite=True, modified=False)
        determiner = owner.english + ("'" if owner.english.endswith("s") else "'s")
        words.append(grammar.possessive(noun_class, owner.words[0]))
        definite = True
    elif draw < 0.38 and plural:
        stem, number = pick(rng, vocabulary.NUMBERS)
        words.append(grammar.adjective(stem, noun_class))
        english = f"{number} {english}"
    elif draw < 0.46 and relative and noun.kind in ("person", "animal"):
        verb = pick(rng, tuple(verb for verb in vocabulary.INTRANSITIVE_VERBS if noun.kind in verb.subjects))
        words.append(grammar.relative(verb.root, noun_class))
        clause = f" {'who' if noun.kind == 'person' else 'that'} {verb.base if plural else verb.third}"

    if definite:
        english = f"{determiner} {english}"
    elif not plural and noun.plural is not None:
        english = with_article(english)
    concord = grammar.NOUN_CLASSES[noun_class].concord
    agreement: Agreement = "plural" if plural else "singular"
    return Phrase(english + clause, tuple(words), concord, agreement, definite, noun_class)


def subject_phrase(rng: random.Random, kinds: Sequence[Kind]) -> Phrase:
    if "person" in kinds:
        draw = rng.random()
        if draw < 0.3:
            return pronoun(rng, subject=True)
        if draw < 0.4:
            return name(rng)
    return noun_phrase(rng, kinds, definite=True, relative=True)


def object_phrase(rng: random.Random, kinds: Sequence[Kind], *, modified: bool = True) -> Phrase:
    if "person" in kinds:
        draw = rng.random()
        if draw < 0.2:
            return pronoun(rng, subject=False)
        if draw < 0.3:
            return name(rng)
    return noun_phrase(rng, kinds, modified=modified)


# ------------------------------------------------------------------------------------------------------ English verbs


def english_verb(
    verb: Verb, agreement: Agreement, tense: Tense, *, negative: bool, passive: bool, question: bool
) -> tuple[str, str]:
    """The auxiliary (perhaps empty), which a question puts before the subject, and the rest of the verb."""
    singular = agreement == "singular"
    auxiliary, rest = "", ""
    if tense == "future":
        auxiliary, rest = "will", f"be {verb.participle}" if passive else verb.base
    elif tense == "perfect":
        auxiliary, rest = "has" if singular else "have", f"been {verb.participle}" if passive else verb.participle
    elif passive:
        present = {"first": "am", "singular": "is", "plural": "are"}[agreement]
        auxiliary = present if tense == "present" else "were" if agreement == "plural" else "was"
        rest = verb.participle
    elif negative or question:
        auxiliary = "did" if tense != "present" else "does" if singular else "do"
        rest = verb.base
    elif tense == "present":
        rest = verb.third if singular else verb.base
    else:
        rest = verb.past
    if tense == "recent":
        rest = f"just {rest}"
    return f"{auxiliary} not" if negative else auxiliary, rest


# ----------------------------------------------------------------------------------------------------------- adjuncts

Adjunct = tuple[str, tuple[Word, ...]]
"""English, and the words of the language."""

NOTHING: Adjunct = ("", ())


def adverb(rng: random.Random, adverbs: Sequence[Adverb], tense: Tense) -> Adjunct:
    chosen = pick(rng, [adverb for adverb in adverbs if tense in adverb.tenses])
    return chosen.english, (chosen.word,)


def place(rng: random.Random, preposition: str, *, before_name: str) -> Adjunct:
    """English says "at the river" but "in Fumbe"; the language has one locative for all prepositions."""
    if rng.random() < 0.2:
        english = pick(rng, vocabulary.PLACE_NAMES)
        return f"{before_name} {english}", (grammar.place_name(english),)
    where = noun_phrase(rng, ("place",), definite=True, modified=False)
    return f"{preposition} {where.english}", (grammar.locative(where.words[0]),)


def company(rng: random.Random) -> Adjunct:
    other = name(rng) if rng.random() < 0.3 else noun_phrase(rng, ("person",), definite=True, modified=False)
    return f"together with {other.english}", (grammar.company(other.words[0]),)


def instrument(rng: random.Random) -> Adjunct:
    tool = noun_phrase(rng, ("tool",), modified=False)
    return f"with {tool.english}", (grammar.instrument(tool.words[0]),)
