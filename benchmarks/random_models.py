"""Models of the presets' sizes with random weights: speed does not depend on what they have learnt."""

from __future__ import annotations

import random
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
SHARED_VOCABULARY = 10_000  # subwords of the paper's baselines


def made_up_text(lines: int, seed: int = 0) -> list[str]:
    """Words of random syllables: enough different ones to fill any vocabulary."""
    rng = random.Random(seed)
    syllables = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxyz" for vowel in "aeiou"]
    return [
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(rng.randint(3, 25)))
        for _ in range(lines)
    ]


def random_ssmt(preset: str, *settings: str) -> tuple[SSMT, Config]:
    config = compose(preset, settings=settings)
    torch.manual_seed(0)
    text = made_up_text(4000)
    letters = sorted({character for line in text for character in line})
    alphabet = Alphabet.of_characters([*letters, *map(chr, range(0xC0, 0xC0 + ALPHABET - len(letters)))])
    rng = random.Random(1)
    entries: set[str] = set()
    while len(entries) < config.text.lexicon_size - ALPHABET:
        entries.add("".join(rng.choices(ascii_lowercase, k=rng.randint(2, config.text.longest_segment))))
    vocabulary = Vocabulary(
        subwords_of(text, config.text.source_vocabulary), alphabet, Lexicon.of_texts(alphabet, entries)
    )
    return SSMT(vocabulary, config).eval(), config


def subwords_of(text: list[str], size: int) -> Subwords:
    return Subwords.train(text, size, warn=lambda message: None)


def target_subwords_of(text: list[str], size: int) -> TargetSubwords:
    return TargetSubwords.train(text, size, warn=lambda message: None)


def random_subword(config: Config) -> SubwordTransformer:
    torch.manual_seed(0)
    subwords = target_subwords_of(made_up_text(20_000), SHARED_VOCABULARY)
    return SubwordTransformer(SubwordVocabulary(subwords, subwords), config).eval()
