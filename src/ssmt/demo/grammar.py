"""The morphology of the artificial language: how its words are built, and what happens where morphemes meet.

A word is the tuple of its *surface* morphemes: sound changes are applied before the word is handed out, so the
morphemes always spell the word exactly. The build, the class prefixes and the verb's slots follow the Nguni languages;
where those have exceptions, this language has none. Noun classes keep their Bantu numbers.

The sound changes:
* coalescence: a linking *a* and the first vowel of a noun become one vowel (a+i = e, a+u = o), one morpheme;
* glide formation: before a vowel *u* becomes *w*, and *i* on its own *y* (u-aka-hik-a = w-aka-hik-a, lu-aka = lw-aka);
* elision: any other vowel is dropped before a vowel (zo-emol-a = z-emol-a, ba-aka = b-aka);
* nasal assimilation: *n* is *m* before lips and vanishes before another nasal (i-n-puso = i-m-puso).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Word = tuple[str, ...]
"""The surface morphemes of one word."""

Tense = Literal["present", "perfect", "recent", "past", "future"]
Extension = Literal["causative", "applicative", "reciprocal", "passive"]

VOWELS = "aeiou"

_GLIDED = {"u": "w", "i": "y", "e": "ey", "o": "ow"}
_COALESCED = {"a": "a", "i": "e", "u": "o"}


# ---------------------------------------------------------------------------------------------------- sound changes


def before_vowel(morpheme: str) -> str:
    """The shape of a morpheme that ends in a vowel before one that begins with a vowel."""
    stem, vowel = morpheme[:-1], morpheme[-1]
    if vowel not in VOWELS:
        return morpheme
    if not stem:
        return _GLIDED[vowel]
    # The language has no bw and no ww: bu-emol-a is b-emol-a.
    return stem + "w" if vowel == "u" and stem[-1] not in "bw" else stem


def coalesce(link: str, vowel: str) -> str:
    """A link that ends in *a* grown together with the first vowel of a noun: wa + u = wo."""
    return link[:-1] + _COALESCED[vowel]


def before_consonant(nasal_prefix: str, stem: str) -> str:
    """A prefix that ends in *n* before a stem: m before lips, nothing before a nasal."""
    if not nasal_prefix.endswith("n"):
        return nasal_prefix
    bare = nasal_prefix[:-1]
    if stem[0] in "mn":
        return bare
    return bare + ("m" if stem[0] in "pbfv" else "n")


def join(*morphemes: str) -> Word:
    """Morphemes put together to a word; empty ones are slots that are not filled."""
    word: list[str] = []
    for morpheme in reversed([morpheme for morpheme in morphemes if morpheme]):
        word.append(before_vowel(morpheme) if word and word[-1][0] in VOWELS else morpheme)
    return tuple(reversed(word))


# ---------------------------------------------------------------------------------------------------------- concord


@dataclass(frozen=True)
class Concord:
    """How a verb agrees with a person or a noun class."""

    subject: str
    object: str
    negative: str
    """The subject marker after the negative prefix *a*."""


@dataclass(frozen=True)
class NounClass:
    """A noun class; every concord follows from three morphemes by the sound changes."""

    augment: str
    prefix: str
    concord: Concord

    @property
    def possessive(self) -> str:
        return "".join(join(self.concord.subject, "a"))

    @property
    def adjective(self) -> str:
        return coalesce("a", self.augment) + self.prefix

    @property
    def relative(self) -> str:
        subject = self.concord.subject
        return coalesce("a", self.augment) + ("" if subject in VOWELS else subject)


def _noun_class(augment: str, prefix: str, subject: str) -> NounClass:
    # A marker that is a bare vowel takes a glide where a vowel comes before it.
    inner = {"u": "wu", "i": "yi"}.get(subject, subject)
    return NounClass(augment, prefix, Concord(subject, inner, inner))


NOUN_CLASSES: dict[int, NounClass] = {
    1: NounClass("u", "mu", Concord("u", "mu", "ka")),  # people
    2: _noun_class("a", "ba", "ba"),
    3: _noun_class("u", "mu", "u"),
    4: _noun_class("i", "mi", "i"),
    5: _noun_class("i", "li", "li"),
    6: _noun_class("a", "ma", "ma"),
    7: _noun_class("i", "si", "si"),
    8: _noun_class("i", "zi", "zi"),
    9: _noun_class("i", "n", "i"),
    10: _noun_class("i", "zin", "zi"),
    11: _noun_class("u", "lu", "lu"),
    14: _noun_class("u", "bu", "bu"),  # what is not counted
}

PERSONS: dict[str, Concord] = {
    "I": Concord("ngi", "ngi", "ngi"),
    "you": Concord("u", "ku", "wu"),
    "he": NOUN_CLASSES[1].concord,
    "she": NOUN_CLASSES[1].concord,
    "we": Concord("si", "si", "si"),
    "you all": Concord("ni", "ni", "ni"),
    "they": NOUN_CLASSES[2].concord,
}

POSSESSORS = {"my": "mi", "your": "ko", "his": "ke", "her": "ke", "our": "tu", "their": "bo"}


# ------------------------------------------------------------------------------------------- nouns and what goes along


def noun(stem: str, noun_class: int) -> Word:
    """u-mu-pomba, child; i-m-puso, dog."""
    kind = NOUN_CLASSES[noun_class]
    return join(kind.augment, before_consonant(kind.prefix, stem), stem)


def person_name(name: str) -> Word:
    return ("u", name)


def linked(link: str, word: Word) -> Word:
    """A noun behind a link in *a*: w-a + u-mu-pomba = wo-mu-pomba, of the child."""
    return (coalesce(link, word[0]), *word[1:])


def possessive(owned: int, owner: Word) -> Word:
    """The owner's word, agreeing with the class of what is owned."""
    return linked(NOUN_CLASSES[owned].possessive, owner)


def possessive_pronoun(owned: int, possessor: str) -> Word:
    return (NOUN_CLASSES[owned].possessive, POSSESSORS[possessor])


def instrument(word: Word) -> Word:
    return linked("nga", word)


def company(word: Word) -> Word:
    return linked("na", word)


def agent(word: Word) -> Word:
    """By whom a passive is done: ng-u-mu-pomba, by the child."""
    return ("ng", *word)


def locative(word: Word) -> Word:
    """In, at, to or from a noun: i-m-baga = e-m-bag-eni; the last vowel of the stem gives way to the ending."""
    *prefix, stem = word[1:]
    ending = {"a": "eni", "e": "eni", "i": "ini", "o": "weni", "u": "wini"}[stem[-1]]
    return ("e", *prefix, stem[:-1], ending)


def towards(word: Word) -> Word:
    """To a person: ku takes the place of the augment."""
    return ("ku", *word[1:])


def place_name(name: str) -> Word:
    return ("e", name)


def adjective(stem: str, noun_class: int) -> Word:
    """Beside its noun: o-mu-kumbu, big. The concord counts as one morpheme, its parts never occur alone."""
    return join(before_consonant(NOUN_CLASSES[noun_class].adjective, stem), stem)


def predicate(stem: str, noun_class: int) -> Word:
    """As the whole predicate: u-mu-pomba mu-kumbu, the child is big."""
    kind = NOUN_CLASSES[noun_class]
    prefix = kind.prefix if kind.prefix[0] != "n" else kind.augment + kind.prefix
    return join(before_consonant(prefix, stem), stem)


# ------------------------------------------------------------------------------------------------------------- verbs

_AFFIRMATIVE: dict[Tense, tuple[str, str]] = {
    "present": ("", "a"),
    "perfect": ("", "ile"),
    "recent": ("sa", "e"),
    "past": ("aka", "a"),
    "future": ("zo", "a"),
}
_NEGATIVE: dict[Tense, tuple[str, str]] = {"present": ("", "i"), "past": ("", "anga"), "future": ("zu", "i")}

NEGATIVE_TENSES: tuple[Tense, ...] = ("present", "past", "future")
TENSES: tuple[Tense, ...] = ("present", "perfect", "recent", "past", "future")


def extended(root: str, extension: Extension | None) -> Word:
    """A root with its extension. A root without a vowel takes the longer passive: j-iw-a, be eaten."""
    if extension is None:
        return (root,)
    passive = "w" if any(letter in VOWELS for letter in root) else "iw"
    return root, {"causative": "is", "applicative": "el", "reciprocal": "an", "passive": passive}[extension]


def verb(
    root: str,
    subject: Concord,
    tense: Tense,
    *,
    object: Concord | None = None,
    extension: Extension | None = None,
    negative: bool = False,
    last: bool = False,
    suffix: str = "",
) -> Word:
    """A finite verb: (negative) subject (tense) (object) root (extension) final (suffix).

    The present has *ya* when the verb has an object marker or nothing after it (`last`); other tenses, the negative
    and a verb with a suffix never have it.
    """
    marker, final = (_NEGATIVE if negative else _AFFIRMATIVE)[tense]
    if tense == "present" and not negative and not suffix and (last or object is not None):
        marker = "ya"
    if negative and extension == "passive" and tense == "present":
        final = "a"
    head = ("a", subject.negative) if negative else (subject.subject,)
    return join(*head, marker, object.object if object else "", *extended(root, extension), final, suffix)


def infinitive(root: str, *, object: Concord | None = None) -> Word:
    """u-ku-hik-a, to see; u-ku-yi-hik-a, to see it."""
    return join("u", "ku", object.object if object else "", root, "a")


def imperative(root: str, *, object: Concord | None = None, plural: bool = False, negative: bool = False) -> Word:
    """hik-a, see; yi-hik-e, see it; hik-a-ni, to several; u-nga-hik-i, do not see."""
    addressee = "ni" if plural else ""
    marker = object.object if object else ""
    if negative:
        return join(PERSONS["you all" if plural else "you"].subject, "nga", marker, root, "i")
    if not marker and not any(letter in VOWELS for letter in root):
        marker = "yi"  # a word of one syllable is too short for a command
    return join(marker, root, "e" if object else "a", addressee)


def relative(root: str, noun_class: int) -> Word:
    """o-hik-a-yo, who sees."""
    return join(NOUN_CLASSES[noun_class].relative, root, "a", "yo")
