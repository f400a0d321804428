"""The word stock of the artificial language: invented stems, each with the English word that it means.

The stems were drawn at random from the syllables of the language, and every one that occurs as a word or a morpheme
in our lists of real isiZulu, isiXhosa and Siswati words was thrown away; a likeness that remains is chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["person", "animal", "thing", "tool", "food", "stuff", "place"]

PLURAL_CLASS = {1: 2, 3: 4, 5: 6, 7: 8, 9: 10, 11: 10}
"""Singular noun class -> the class of its plural, numbered as Bantu noun classes are."""


@dataclass(frozen=True)
class Noun:
    stem: str
    noun_class: int
    """Class of the singular, or the only class of a mass noun."""
    singular: str
    plural: str | None
    """None for a mass noun, which neither language counts."""
    kind: Kind


@dataclass(frozen=True)
class Verb:
    root: str
    base: str
    past: str
    participle: str
    subjects: tuple[Kind, ...]
    objects: tuple[Kind, ...] = ()
    preposition: str = ""
    """For verbs of motion: the English word before their place."""

    @property
    def third(self) -> str:
        """Third person singular of the present: sees, watches, carries."""
        if self.base.endswith(("s", "sh", "ch", "x", "o")):
            return self.base + "es"
        if self.base.endswith("y") and self.base[-2] not in "aeiou":
            return self.base[:-1] + "ies"
        return self.base + "s"


@dataclass(frozen=True)
class Adverb:
    word: tuple[str, ...]
    english: str
    tenses: tuple[str, ...]
    """The tenses with which it makes sense."""


def _noun(kind: Kind, noun_class: int, stem: str, singular: str, plural: str | None = None) -> Noun:
    return Noun(stem, noun_class, singular, plural or singular + "s", kind)


def _mass(noun_class: int, stem: str, singular: str) -> Noun:
    return Noun(stem, noun_class, singular, None, "stuff")


NOUNS: tuple[Noun, ...] = (
    _noun("person", 1, "pomba", "child", "children"),
    _noun("person", 1, "nunga", "mother"),
    _noun("person", 1, "bijize", "father"),
    _noun("person", 1, "hlofo", "man", "men"),
    _noun("person", 1, "sute", "woman", "women"),
    _noun("person", 1, "vidu", "girl"),
    _noun("person", 1, "tike", "boy"),
    _noun("person", 1, "sulangu", "teacher"),
    _noun("person", 1, "fulu", "farmer"),
    _noun("person", 1, "jango", "friend"),
    _noun("person", 1, "andahi", "hunter"),
    _noun("person", 1, "elozi", "singer"),
    _noun("person", 1, "zebi", "neighbour"),
    _noun("person", 5, "shika", "soldier"),
    _noun("person", 5, "gesulu", "thief", "thieves"),
    _noun("person", 7, "finozi", "doctor"),
    _noun("person", 7, "tatande", "guest"),
    _noun("person", 9, "kuvi", "chief"),
    _noun("animal", 9, "puso", "dog"),
    _noun("animal", 9, "bungi", "cow"),
    _noun("animal", 9, "fito", "goat"),
    _noun("animal", 9, "tila", "lion"),
    _noun("animal", 9, "mezade", "elephant"),
    _noun("animal", 9, "divi", "snake"),
    _noun("animal", 9, "vuve", "bird"),
    _noun("animal", 5, "jalu", "frog"),
    _noun("animal", 5, "hangiju", "horse"),
    _noun("animal", 7, "duse", "cat"),
    _noun("animal", 7, "koshu", "owl"),
    _noun("animal", 3, "gimbe", "monkey"),
    _noun("thing", 3, "lundo", "letter"),
    _noun("thing", 3, "zase", "rope"),
    _noun("thing", 3, "ombesi", "blanket"),
    _noun("thing", 3, "bofi", "picture"),
    _noun("thing", 5, "shobu", "stone"),
    _noun("thing", 5, "nedelu", "box", "boxes"),
    _noun("thing", 5, "kifo", "bottle"),
    _noun("thing", 5, "vakimbi", "wheel"),
    _noun("thing", 7, "tejani", "chair"),
    _noun("thing", 7, "abuga", "basket"),
    _noun("thing", 7, "guka", "hat"),
    _noun("thing", 7, "lapa", "plate"),
    _noun("thing", 9, "pesido", "book"),
    _noun("thing", 9, "nusu", "drum"),
    _noun("thing", 9, "jibuje", "lamp"),
    _noun("thing", 9, "foko", "key"),
    _noun("thing", 11, "zusha", "feather"),
    _noun("thing", 11, "hote", "shoe"),
    _noun("thing", 11, "viha", "bowl"),
    _noun("tool", 3, "hizu", "axe"),
    _noun("tool", 5, "fozupa", "hammer"),
    _noun("tool", 7, "naki", "knife", "knives"),
    _noun("tool", 9, "shamu", "spear"),
    _noun("tool", 11, "tinga", "stick"),
    _noun("tool", 11, "gimo", "spoon"),
    _mass(14, "jindi", "honey"),
    _mass(14, "heba", "porridge"),
    _mass(14, "songi", "flour"),
    _mass(14, "supu", "salt"),
    _mass(6, "luvihe", "milk"),
    _mass(6, "dapu", "water"),
    _noun("food", 5, "putefu", "orange"),
    _noun("food", 5, "seno", "egg"),
    _noun("food", 3, "bugo", "mango", "mangoes"),
    _noun("food", 9, "voda", "potato", "potatoes"),
    _noun("food", 9, "bimbu", "apple"),
    _noun("food", 7, "hlitu", "onion"),
    _noun("place", 3, "nandu", "river"),
    _noun("place", 3, "josha", "village"),
    _noun("place", 3, "fefi", "garden"),
    _noun("place", 5, "zingita", "mountain"),
    _noun("place", 5, "madi", "field"),
    _noun("place", 5, "vupaje", "shop"),
    _noun("place", 7, "kindulu", "school"),
    _noun("place", 7, "hondu", "forest"),
    _noun("place", 9, "shidi", "house"),
    _noun("place", 9, "baga", "road"),
    _noun("place", 9, "tamba", "market"),
    _noun("place", 11, "lundaja", "island"),
)

PERSON_NAMES = (
    "Bandi",
    "Dofa",
    "Gunela",
    "Haziko",
    "Kelo",
    "Lizamu",
    "Mofane",
    "Nelu",
    "Pazi",
    "Sovela",
    "Tibo",
    "Zondi",
)
PLACE_NAMES = ("Dulaveni", "Fumbe", "Kamoti", "Lobezi", "Nishalu", "Tagama")

_BEINGS: tuple[Kind, ...] = ("person", "animal")
_PERSON: tuple[Kind, ...] = ("person",)
_GOODS: tuple[Kind, ...] = ("thing", "tool", "food", "stuff")
_WARES: tuple[Kind, ...] = ("animal", *_GOODS)
_OBJECTS: tuple[Kind, ...] = ("thing", "tool")
_FOOD: tuple[Kind, ...] = ("food", "stuff")
_SOLID_FOOD: tuple[Kind, ...] = ("food",)

INTRANSITIVE_VERBS: tuple[Verb, ...] = (
    Verb("gush", "run", "ran", "run", _BEINGS),
    Verb("fivet", "sleep", "slept", "slept", _BEINGS),
    Verb("hlamip", "jump", "jumped", "jumped", _BEINGS),
    Verb("bun", "fall", "fell", "fallen", _BEINGS),
    Verb("sandop", "swim", "swam", "swum", _BEINGS),
    Verb("jod", "rest", "rested", "rested", _BEINGS),
    Verb("fegus", "hide", "hid", "hidden", _BEINGS),
    Verb("pub", "wait", "waited", "waited", _BEINGS),
    Verb("ondam", "drink", "drank", "drunk", _BEINGS),
    Verb("julok", "sing", "sang", "sung", _PERSON),
    Verb("vil", "dance", "danced", "danced", _PERSON),
    Verb("hazas", "laugh", "laughed", "laughed", _PERSON),
    Verb("pem", "cry", "cried", "cried", _PERSON),
    Verb("lukon", "work", "worked", "worked", _PERSON),
    Verb("akush", "pray", "prayed", "prayed", _PERSON),
    Verb("mengam", "cough", "coughed", "coughed", _PERSON),
    Verb("soz", "smile", "smiled", "smiled", _PERSON),
)

TRANSITIVE_VERBS: tuple[Verb, ...] = (
    Verb("hik", "see", "saw", "seen", _BEINGS, ("person", "animal", *_GOODS, "place")),
    Verb("zedab", "find", "found", "found", _BEINGS, ("person", *_WARES)),
    Verb("limbak", "forget", "forgot", "forgotten", _PERSON, ("person", "thing", "tool", "place")),
    Verb("zeng", "like", "liked", "liked", _PERSON, ("person", "animal", "thing", "food", "stuff", "place")),
    Verb("gan", "love", "loved", "loved", _PERSON, _BEINGS),
    Verb("munib", "help", "helped", "helped", _PERSON, _BEINGS),
    Verb("hlizop", "follow", "followed", "followed", _BEINGS, _BEINGS),
    Verb("hend", "call", "called", "called", _PERSON, _BEINGS),
    Verb("vuvat", "chase", "chased", "chased", _BEINGS, _BEINGS),
    Verb("komb", "bite", "bit", "bitten", ("animal",), _BEINGS),
    Verb("emol", "fear", "feared", "feared", _BEINGS, _BEINGS),
    Verb("gibis", "greet", "greeted", "greeted", _PERSON, _PERSON),
    Verb("zulamb", "praise", "praised", "praised", _PERSON, _PERSON),
    Verb("dakon", "buy", "bought", "bought", _PERSON, _WARES),
    Verb("shumb", "sell", "sold", "sold", _PERSON, _WARES),
    Verb("puboz", "steal", "stole", "stolen", _PERSON, _WARES),
    Verb("lum", "carry", "carried", "carried", _PERSON, _GOODS),
    Verb("taseb", "bring", "brought", "brought", _PERSON, _GOODS),
    Verb("jaz", "wash", "washed", "washed", _PERSON, ("animal", "thing", "tool", "food")),
    Verb("gujal", "count", "counted", "counted", _PERSON, ("animal", "thing", "tool")),
    Verb("shuz", "hold", "held", "held", _PERSON, _OBJECTS),
    Verb("vabud", "break", "broke", "broken", _PERSON, _OBJECTS),
    Verb("ilek", "mend", "mended", "mended", _PERSON, _OBJECTS),
    Verb("jambes", "draw", "drew", "drawn", _PERSON, ("person", "animal", "place")),
    Verb("samb", "slice", "sliced", "sliced", _PERSON, _SOLID_FOOD),
    Verb("bemb", "cook", "cooked", "cooked", _PERSON, _FOOD),
    Verb("j", "eat", "ate", "eaten", _BEINGS, _SOLID_FOOD),
    Verb("hlond", "taste", "tasted", "tasted", _PERSON, _FOOD),
)

DITRANSITIVE_VERBS: tuple[Verb, ...] = (
    Verb("mesh", "give", "gave", "given", _PERSON, _GOODS),
    Verb("tivak", "show", "showed", "shown", _PERSON, _GOODS),
    Verb("nujam", "send", "sent", "sent", _PERSON, _GOODS),
    Verb("jip", "lend", "lent", "lent", _PERSON, _OBJECTS),
)

MOTION_VERBS: tuple[Verb, ...] = (
    Verb("d", "go", "went", "gone", _BEINGS, preposition="to"),
    Verb("sekud", "come", "came", "come", _BEINGS, preposition="from"),
    Verb("tish", "return", "returned", "returned", _BEINGS, preposition="to"),
    Verb("apet", "live", "lived", "lived", _BEINGS, preposition="in"),
)

INFINITIVE_VERBS: tuple[Verb, ...] = (
    Verb("tujush", "want", "wanted", "wanted", _PERSON),
    Verb("nand", "refuse", "refused", "refused", _PERSON),
    Verb("tatuk", "learn", "learned", "learned", _PERSON),
)

VERBS = INTRANSITIVE_VERBS + TRANSITIVE_VERBS + DITRANSITIVE_VERBS + MOTION_VERBS + INFINITIVE_VERBS

ADJECTIVES: tuple[tuple[str, str], ...] = (
    ("kumbu", "big"),
    ("nife", "small"),
    ("bize", "old"),
    ("shola", "new"),
    ("vubu", "good"),
    ("jeda", "strong"),
    ("pame", "clean"),
)
COLOURS: tuple[tuple[str, str], ...] = (("fabo", "white"), ("hlisa", "green"), ("tuse", "red"))
"""Adjectives too, but never said of people."""

NUMBERS: tuple[tuple[str, str], ...] = (("bapi", "two"), ("hasa", "three"), ("zeka", "four"), ("manu", "five"))

_ANY_TENSE = ("present", "perfect", "recent", "past", "future")

TIME_ADVERBS: tuple[Adverb, ...] = (
    Adverb(("tonde",), "today", _ANY_TENSE),
    Adverb(("veloko",), "yesterday", ("past",)),
    Adverb(("gosha",), "tomorrow", ("future",)),
    Adverb(("zozo",), "again", _ANY_TENSE),
)
MANNER_ADVERBS: tuple[Adverb, ...] = (
    Adverb(("ka", "vubu"), "well", _ANY_TENSE),
    Adverb(("ka", "shindi"), "quickly", _ANY_TENSE),
    Adverb(("ka", "mulo"), "slowly", _ANY_TENSE),
)
