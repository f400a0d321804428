"""Whole sentences: some by hand, thousands by their properties."""

from __future__ import annotations

import random
import re

import pytest

from ssmt.demo import vocabulary
from ssmt.demo.grammar import NOUN_CLASSES, PERSONS, Word, agent, noun, person_name
from ssmt.demo.phrases import Phrase
from ssmt.demo.sentences import Manner, Sentence, clause, sample_sentence

VERBS = {verb.base: verb for verb in vocabulary.VERBS}
CHILD = Phrase("the child", (noun("pomba", 1),), NOUN_CLASSES[1].concord, "singular")
DOGS = Phrase("the dogs", (noun("puso", 10),), NOUN_CLASSES[10].concord, "plural", noun_class=10)
A_BOOK = Phrase("a book", (noun("pesido", 9),), NOUN_CLASSES[9].concord, "singular", definite=False, noun_class=9)
TIBO = Phrase("Tibo", (person_name("Tibo"),), NOUN_CLASSES[1].concord, "singular")
SPEAKER = Phrase("I", (), PERSONS["I"], "first")


@pytest.mark.parametrize(
    ("sentence", "english", "gold"),
    [
        (clause(CHILD, VERBS["sleep"], Manner("present"), "", ()), "The child sleeps.", "U|mu|pomba u|ya|fivet|a."),
        (
            clause(CHILD, VERBS["see"], Manner("present"), "a book", A_BOOK.words, marker=A_BOOK.marker),
            "The child sees a book.",
            "U|mu|pomba u|hik|a i|m|pesido.",
        ),
        (
            clause(CHILD, VERBS["see"], Manner("present"), "the dogs", DOGS.words, marker=DOGS.marker),
            "The child sees the dogs.",
            "U|mu|pomba u|ya|zi|hik|a i|zim|puso.",
        ),
        (
            clause(DOGS, VERBS["bite"], Manner("past", question=True), "Tibo", TIBO.words, marker=TIBO.marker),
            "Did the dogs bite Tibo?",
            "I|zim|puso z|aka|mu|komb|a u|Tibo na?",
        ),
        (
            clause(TIBO, VERBS["love"], Manner("future", negative=True), "me", (), marker=SPEAKER.marker),
            "Tibo will not love me.",
            "U|Tibo a|ka|zu|ngi|gan|i.",
        ),
        (
            clause(SPEAKER, VERBS["help"], Manner("recent"), "", (), extension="passive"),
            "I was just helped.",
            "Ngi|sa|munib|w|e.",
        ),
        (
            clause(
                DOGS, VERBS["see"], Manner("perfect"), "by the child", (agent(CHILD.words[0]),), extension="passive"
            ),
            "The dogs have been seen by the child.",
            "I|zim|puso zi|hik|w|ile ng|u|mu|pomba.",
        ),
    ],
)
def test_sentences_by_hand(sentence: Sentence, english: str, gold: str) -> None:
    assert (sentence.english, sentence.gold) == (english, gold)


@pytest.fixture(scope="module")
def sample() -> list[Sentence]:
    rng = random.Random(11)
    return [sample_sentence(rng) for _ in range(5000)]


def test_target_is_gold_without_boundaries(sample: list[Sentence]) -> None:
    for sentence in sample:
        assert sentence.target == sentence.gold.replace("|", "")
        assert all(all(morpheme.isalpha() for morpheme in word) for word in sentence.words)
        respelt = " ".join("".join(word) for word in sentence.words)
        assert respelt.lower() == re.sub("[.,?!]", "", sentence.target).lower()
        assert re.fullmatch(r"[A-Z][A-Za-z ,]*[.?!]", sentence.target)


def test_english_is_written_as_english_is(sample: list[Sentence]) -> None:
    for sentence in sample:
        english = sentence.english
        assert re.fullmatch(r"[A-Z][A-Za-z' ,]*[.?!]", english)
        assert "  " not in english
        assert english[-1] == sentence.target[-1]
        assert 3 <= len(english.split()) <= 12
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", english)
        assert not re.search(r"\b(\w+) \1\b", english)
        assert not re.search(r"\bi\b|[^ ]The\b| The\b| (He|She|They|We|You)\b", english)
        assert not re.search(r"\b(I|[Yy]ou|[Ww]e|[Tt]hey|[Yy]ou all) (does|is|has)\b", english)
        assert not re.search(r"^(He|She) (do|are|have|were)\b", english)


def test_english_decides_the_target(sample: list[Sentence]) -> None:
    targets: dict[str, str] = {}
    for sentence in sample:
        assert targets.setdefault(sentence.english, sentence.target) == sentence.target


def test_tens_of_thousands_of_sentences_are_possible(sample: list[Sentence]) -> None:
    # Birthday bound: n draws from N equally likely sentences collide about n²/2N times; unequal ones collide more.
    repeated = len(sample) - len({sentence.english for sentence in sample})
    assert len(sample) ** 2 / (2 * max(repeated, 1)) > 30_000


# class: prefixes, subject markers, negative ones, object markers, then the concords of possessive, adjective, relative
AGREEMENT = {
    1: ("mu mw", "u w", "ka k", "mu mw", "wa wo we", "omu", "o ow"),
    2: ("ba b", "ba b", "ba b", "ba b", "ba bo be", "aba", "aba ab"),
    3: ("mu mw", "u w", "wu w", "wu w", "wa wo we", "omu", "o ow"),
    4: ("mi m", "i y", "yi y", "yi y", "ya yo ye", "emi", "e ey"),
    5: ("li", "li l", "li l", "li l", "la lo le", "eli", "eli el"),
    6: ("ma", "ma m", "ma m", "ma m", "ma mo me", "ama", "ama am"),
    7: ("si s", "si s", "si s", "si s", "sa so se", "esi", "esi es"),
    8: ("zi z", "zi z", "zi z", "zi z", "za zo ze", "ezi", "ezi ez"),
    9: ("n m", "i y", "yi y", "yi y", "ya yo ye", "en em e", "e ey"),
    10: ("zin zim zi", "zi z", "zi z", "zi z", "za zo ze", "ezin ezim ezi", "ezi ez"),
    11: ("lu lw", "lu lw", "lu lw", "lu lw", "lwa lwo lwe", "olu", "olu olw"),
    14: ("bu b", "bu b", "bu b", "bu b", "ba bo be", "obu", "obu ob"),
}
NOUNS = {noun.stem: noun for noun in vocabulary.NOUNS}
ROOTS = {verb.root for verb in VERBS.values()}
QUALITIES = {stem for stem, _ in (*vocabulary.ADJECTIVES, *vocabulary.COLOURS, *vocabulary.NUMBERS)}


def class_of(word: Word) -> int | None:
    """The class of a word that is a noun standing alone, by the tables above."""
    if word[0] == "u" and word[-1] in vocabulary.PERSON_NAMES:
        return 1
    if word[-1] not in NOUNS or word[0] not in ("u", "i", "a"):
        return None
    noun = NOUNS[word[-1]]
    if len(word) == 2:
        return 9
    for noun_class in (noun.noun_class, vocabulary.PLURAL_CLASS.get(noun.noun_class, 0)):
        if noun_class and word[1] in AGREEMENT[noun_class][0].split():
            return noun_class
    raise AssertionError(f"{word} has the prefix of no class of its noun")


def test_concord_always_agrees(sample: list[Sentence]) -> None:
    checked = dict.fromkeys(("subject", "object", "possessive", "adjective", "predicate", "relative"), 0)
    classes = set()
    for sentence in sample:
        words = sentence.words
        subject, topic = class_of(words[0]), "," in sentence.target
        nearest = None
        verb_found = False
        for word in words:
            noun_class = class_of(word)
            if noun_class is not None:
                if topic and nearest is not None and not verb_found:
                    subject = noun_class  # the second noun of "as for the dog, the child ..."
                nearest = noun_class
                classes.add(noun_class)
                continue
            if nearest is None:
                verb_found |= any(morpheme in ROOTS for morpheme in word)
                continue
            prefixes, _, _, _, possessives, adjectives, relatives = map(str.split, AGREEMENT[nearest])
            if word[-1] == "yo":
                assert word[0] in relatives, sentence
                checked["relative"] += 1
            elif word[-1] in QUALITIES and word[0][0] in "aeo":
                assert word[0] in adjectives, sentence
                checked["adjective"] += 1
            elif word[-1] in QUALITIES and word[0] != "ka":
                assert word[0] in (["in", "im", "i"] if nearest == 9 else prefixes), sentence
                checked["predicate"] += 1
            elif len(word) == 2 and word[1] in ("mi", "ko", "ke", "tu", "bo"):
                assert word[0] == possessives[0], sentence
                checked["possessive"] += 1
            elif word[-1] in NOUNS and word[0] not in ("ng", "ku") and word[0][0] != "n":
                assert word[0] in possessives, sentence
                checked["possessive"] += 1
            elif not verb_found and any(morpheme in ROOTS for morpheme in word):
                verb_found = True
                if topic:
                    first = class_of(words[0])
                    assert first is not None
                    root = next(i for i, morpheme in enumerate(word) if morpheme in ROOTS)
                    assert word[root - 1] in AGREEMENT[first][3].split(), sentence
                    checked["object"] += 1
                elif subject is not None:
                    _, subjects, negatives, *_ = map(str.split, AGREEMENT[subject])
                    assert word[1] in negatives if word[0] == "a" else word[0] in subjects, sentence
                    checked["subject"] += 1
    assert classes == set(AGREEMENT)
    assert checked["subject"] > 2000
    assert min(checked.values()) > 50, checked
