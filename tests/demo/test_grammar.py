"""The morphology against paradigms worked out by hand."""

from __future__ import annotations

import pytest

from ssmt.demo import grammar, vocabulary
from ssmt.demo.grammar import NOUN_CLASSES, PERSONS, Word


def spell(word: Word) -> str:
    return "-".join(word)


@pytest.mark.parametrize(
    ("morphemes", "expected"),
    [
        (("u", "ya", "hik", "a"), "u-ya-hik-a"),
        (("u", "emol", "a"), "w-emol-a"),  # glides
        (("i", "emol", "a"), "y-emol-a"),
        (("lu", "emol", "a"), "lw-emol-a"),
        (("u", "ku", "emol", "a"), "u-kw-emol-a"),
        (("o", "emol", "a", "yo"), "ow-emol-a-yo"),
        (("bu", "emol", "a"), "b-emol-a"),  # elision
        (("ba", "emol", "a"), "b-emol-a"),
        (("ngi", "zo", "emol", "a"), "ngi-z-emol-a"),
        (("ngi", "ya", "zi", "emol", "a"), "ngi-ya-z-emol-a"),
        (("si", "", "hik", "", "a"), "si-hik-a"),  # empty slots
    ],
)
def test_vowels_that_meet(morphemes: tuple[str, ...], expected: str) -> None:
    assert spell(grammar.join(*morphemes)) == expected


@pytest.mark.parametrize(
    ("stem", "noun_class", "expected"),
    [
        ("pomba", 1, "u-mu-pomba"),
        ("pomba", 2, "a-ba-pomba"),
        ("andahi", 1, "u-mw-andahi"),
        ("andahi", 2, "a-b-andahi"),
        ("lundo", 3, "u-mu-lundo"),
        ("lundo", 4, "i-mi-lundo"),
        ("ombesi", 4, "i-m-ombesi"),
        ("shobu", 5, "i-li-shobu"),
        ("shobu", 6, "a-ma-shobu"),
        ("abuga", 7, "i-s-abuga"),
        ("abuga", 8, "i-z-abuga"),
        ("divi", 9, "i-n-divi"),
        ("divi", 10, "i-zin-divi"),
        ("puso", 9, "i-m-puso"),  # n before lips
        ("fito", 10, "i-zim-fito"),
        ("mezade", 9, "i-mezade"),  # n before a nasal
        ("nusu", 10, "i-zi-nusu"),
        ("hote", 11, "u-lu-hote"),
        ("jindi", 14, "u-bu-jindi"),
    ],
)
def test_nouns(stem: str, noun_class: int, expected: str) -> None:
    assert spell(grammar.noun(stem, noun_class)) == expected


# class: subject, object, negative subject, possessive, adjective, relative
CONCORDS = {
    1: "u mu ka wa omu o",
    2: "ba ba ba ba aba aba",
    3: "u wu wu wa omu o",
    4: "i yi yi ya emi e",
    5: "li li li la eli eli",
    6: "ma ma ma ma ama ama",
    7: "si si si sa esi esi",
    8: "zi zi zi za ezi ezi",
    9: "i yi yi ya en e",
    10: "zi zi zi za ezin ezi",
    11: "lu lu lu lwa olu olu",
    14: "bu bu bu ba obu obu",
}


@pytest.mark.parametrize("noun_class", CONCORDS)
def test_concords(noun_class: int) -> None:
    kind = NOUN_CLASSES[noun_class]
    concords = (*vars(kind.concord).values(), kind.possessive, kind.adjective, kind.relative)
    assert " ".join(concords) == CONCORDS[noun_class]


def test_every_class_has_its_concords_in_the_table() -> None:
    assert list(CONCORDS) == list(NOUN_CLASSES)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (grammar.possessive(9, grammar.noun("pomba", 1)), "yo-mu-pomba"),  # a + u
        (grammar.possessive(7, grammar.noun("kuvi", 9)), "se-n-kuvi"),  # a + i
        (grammar.possessive(11, grammar.noun("pomba", 2)), "lwa-ba-pomba"),  # a + a
        (grammar.possessive(2, grammar.person_name("Tibo")), "bo-Tibo"),
        (grammar.possessive_pronoun(5, "her"), "la-ke"),
        (grammar.instrument(grammar.noun("naki", 7)), "nge-si-naki"),
        (grammar.company(grammar.noun("andahi", 1)), "no-mw-andahi"),
        (grammar.agent(grammar.noun("puso", 9)), "ng-i-m-puso"),
        (grammar.towards(grammar.noun("kuvi", 10)), "ku-zin-kuvi"),
        (grammar.locative(grammar.noun("baga", 9)), "e-m-bag-eni"),
        (grammar.locative(grammar.noun("vupaje", 6)), "e-ma-vupaj-eni"),
        (grammar.locative(grammar.noun("shidi", 10)), "e-zin-shid-ini"),
        (grammar.locative(grammar.noun("nandu", 3)), "e-mu-nand-wini"),
        (grammar.locative(grammar.noun("kifo", 5)), "e-li-kif-weni"),
        (grammar.place_name("Fumbe"), "e-Fumbe"),
        (grammar.adjective("kumbu", 1), "omu-kumbu"),
        (grammar.adjective("bize", 9), "em-bize"),
        (grammar.adjective("nife", 10), "ezi-nife"),
        (grammar.predicate("kumbu", 2), "ba-kumbu"),
        (grammar.predicate("vubu", 9), "im-vubu"),
        (grammar.predicate("tuse", 10), "zin-tuse"),
    ],
)
def test_words_that_go_with_nouns(word: Word, expected: str) -> None:
    assert spell(word) == expected


CHILD, CHILDREN, DOG = NOUN_CLASSES[1].concord, NOUN_CLASSES[2].concord, NOUN_CLASSES[9].concord


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # The five tenses and the three negatives of "the child sees".
        (grammar.verb("hik", CHILD, "present"), "u-hik-a"),
        (grammar.verb("hik", CHILD, "present", last=True), "u-ya-hik-a"),
        (grammar.verb("hik", CHILD, "perfect"), "u-hik-ile"),
        (grammar.verb("hik", CHILD, "recent"), "u-sa-hik-e"),
        (grammar.verb("hik", CHILD, "past"), "w-aka-hik-a"),
        (grammar.verb("hik", CHILD, "future"), "u-zo-hik-a"),
        (grammar.verb("hik", CHILD, "present", negative=True), "a-ka-hik-i"),
        (grammar.verb("hik", CHILD, "past", negative=True), "a-ka-hik-anga"),
        (grammar.verb("hik", CHILD, "future", negative=True), "a-ka-zu-hik-i"),
        # Persons and classes.
        (grammar.verb("hik", PERSONS["I"], "past"), "ng-aka-hik-a"),
        (grammar.verb("hik", PERSONS["you"], "present", negative=True), "a-wu-hik-i"),
        (grammar.verb("hik", CHILDREN, "past"), "b-aka-hik-a"),
        (grammar.verb("hik", DOG, "past"), "y-aka-hik-a"),
        (grammar.verb("hik", DOG, "future", negative=True), "a-yi-zu-hik-i"),
        (grammar.verb("hik", NOUN_CLASSES[11].concord, "past"), "lw-aka-hik-a"),
        # Objects.
        (grammar.verb("hik", CHILD, "present", object=DOG), "u-ya-yi-hik-a"),
        (grammar.verb("hik", DOG, "perfect", object=CHILD), "i-mu-hik-ile"),
        (grammar.verb("emol", DOG, "present", object=CHILD), "i-ya-mw-emol-a"),
        (grammar.verb("hik", PERSONS["they"], "future", object=PERSONS["you"]), "ba-zo-ku-hik-a"),
        (grammar.verb("hik", CHILD, "past", object=DOG, negative=True), "a-ka-yi-hik-anga"),
        # Extensions.
        (grammar.verb("gush", CHILD, "present", object=DOG, extension="causative"), "u-ya-yi-gush-is-a"),
        (grammar.verb("bemb", CHILD, "past", object=CHILDREN, extension="applicative"), "w-aka-ba-bemb-el-a"),
        (grammar.verb("gan", CHILDREN, "present", extension="reciprocal", last=True), "ba-ya-gan-an-a"),
        (grammar.verb("hik", DOG, "perfect", extension="passive"), "i-hik-w-ile"),
        (grammar.verb("hik", DOG, "present", extension="passive", negative=True), "a-yi-hik-w-a"),
        (grammar.verb("j", NOUN_CLASSES[14].concord, "past", extension="passive"), "b-aka-j-iw-a"),
        # Roots that begin with a vowel.
        (grammar.verb("emol", CHILD, "present"), "w-emol-a"),
        (grammar.verb("emol", CHILD, "present", last=True), "u-y-emol-a"),
        (grammar.verb("emol", CHILD, "past"), "w-ak-emol-a"),
        (grammar.verb("emol", CHILD, "future"), "u-z-emol-a"),
        (grammar.verb("emol", CHILD, "future", negative=True), "a-ka-zw-emol-i"),
        # Questions, infinitives, commands, relatives.
        (grammar.verb("hik", CHILDREN, "present", suffix="ni"), "ba-hik-a-ni"),
        (grammar.infinitive("ilek"), "u-kw-ilek-a"),
        (grammar.infinitive("hik", object=DOG), "u-ku-yi-hik-a"),
        (grammar.imperative("hik"), "hik-a"),
        (grammar.imperative("j"), "yi-j-a"),
        (grammar.imperative("hik", plural=True), "hik-a-ni"),
        (grammar.imperative("hik", object=DOG, plural=True), "yi-hik-e-ni"),
        (grammar.imperative("hik", object=DOG, negative=True), "u-nga-yi-hik-i"),
        (grammar.imperative("hik", plural=True, negative=True), "ni-nga-hik-i"),
        (grammar.relative("julok", 1), "o-julok-a-yo"),
        (grammar.relative("akush", 2), "ab-akush-a-yo"),
        (grammar.relative("jod", 7), "esi-jod-a-yo"),
    ],
)
def test_verbs(word: Word, expected: str) -> None:
    assert spell(word) == expected


def test_stems_are_distinct_so_that_a_morpheme_has_one_meaning() -> None:
    qualities = (*vocabulary.ADJECTIVES, *vocabulary.COLOURS, *vocabulary.NUMBERS)
    stems = (
        [noun.stem for noun in vocabulary.NOUNS]
        + [verb.root for verb in vocabulary.VERBS]
        + [stem for stem, _ in qualities]
    )
    meanings = (
        [noun.singular for noun in vocabulary.NOUNS]
        + [verb.base for verb in vocabulary.VERBS]
        + [e for _, e in qualities]
    )
    assert len(stems) == len(set(stems))
    assert len(meanings) == len(set(meanings))
    assert 60 <= len(vocabulary.NOUNS) <= 100
    assert 50 <= len(vocabulary.VERBS) <= 80


def test_present_and_past_of_an_english_verb_differ() -> None:
    """Else "I cut" would not say which tense the language needs."""
    for verb in vocabulary.VERBS:
        assert verb.base != verb.past


@pytest.mark.parametrize(
    ("base", "third"), [("wash", "washes"), ("carry", "carries"), ("pray", "prays"), ("go", "goes"), ("see", "sees")]
)
def test_english_third_person(base: str, third: str) -> None:
    assert vocabulary.Verb("", base, "", "", ()).third == third
