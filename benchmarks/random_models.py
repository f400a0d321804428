"""Models of the presets' sizes with random weights: speed does not depend on what they have learnt."""

from __future__ import annotations

import random
from functools import cache
from string import ascii_lowercase

import torch

from ssmt.config import Config, compose
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.text.alphabet import Alphabet
from ssmt.text.lexicon import Lexicon
from ssmt.text.subwords import Subwords, TargetSubwords
from ssmt.text.vocabulary import SubwordVocabulary, Vocabulary

ALPHABET = 110  # characters of the Zulu training text
LINES = 4000  # to learn the source's subwords from


@cache
def made_up_text(lines: int, seed: int = 0) -> list[str]:
    """Words of random syllables: enough different ones to fill any vocabulary."""
    rng = random.Random(seed)
    syllables = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxyz" for vowel in "aeiou"]
    return [
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(rng.randint(3, 25)))
        for _ in range(lines)
    ]


def random_ssmt(preset: str, *settings: str) -> tuple[SSMT, Config]:
    config = compose(preset, settings=[*settings, "model=ssmt"])
    torch.manual_seed(0)
    text = made_up_text(LINES)
    letters = sorted({character for line in text for character in line})
    alphabet = Alphabet.of_characters([*letters, *map(chr, range(0xC0, 0xC0 + ALPHABET - len(letters)))])
    rng = random.Random(1)
    entries: set[str] = set()
    while len(entries) < config.text.lexicon_size - ALPHABET:
        entries.add("".join(rng.choices(ascii_lowercase, k=rng.randint(2, config.text.longest_segment))))
    subwords = random_source_subwords(config.text.source_vocabulary)
    return SSMT(Vocabulary(subwords, alphabet, Lexicon.of_texts(alphabet, entries)), config).eval(), config


@cache
def random_source_subwords(size: int) -> Subwords:
    return subwords_of(made_up_text(LINES), size)


def subwords_of(text: list[str], size: int) -> Subwords:
    return Subwords.train(text, size, warn=lambda message: None)


def target_subwords_of(text: list[str], size: int) -> TargetSubwords:
    return TargetSubwords.train(text, size, warn=lambda message: None)


def random_bpe(preset: str, *settings: str) -> SubwordTransformer:
    config = compose(preset, settings=[*settings, "model=bpe"])
    torch.manual_seed(0)
    size = config.text.subword_vocabulary
    subwords = target_subwords_of(made_up_text(2 * size), size)
    shared = config.text.shared_vocabulary
    source = subwords if shared else random_source_subwords(config.text.source_vocabulary)
    return SubwordTransformer(SubwordVocabulary(source, subwords), config).eval()
