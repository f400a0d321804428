"""Small random models for tests: every part of the real thing, sizes that can be enumerated."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import torch
from torch import nn

from ssmt.config import Config, TextConfig, changed
from ssmt.model.coverage import Coverage
from ssmt.model.ssmt import SSMT
from ssmt.text.alphabet import Alphabet
from ssmt.text.batch import Batch, make_batch
from ssmt.text.lexicon import Lexicon
from ssmt.text.subwords import Subwords
from ssmt.text.vocabulary import Vocabulary
from ssmt.translator import Translator

SOURCES = ["the cat sees a dog", "a dog runs", "the dog sees the cat", "cats run", "a cat", "dogs see cats", "run dog"]
SMALL = {"width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
_SUBWORDS: list[Subwords] = []


def source_subwords() -> Subwords:
    if not _SUBWORDS:
        _SUBWORDS.append(Subwords.train(SOURCES * 5, 30, warn=lambda message: None))
    return _SUBWORDS[0]


def random_model(
    letters: str = "ab ",
    longest: int = 3,
    entries: Iterable[str] = ("ab", "ba", "aab"),
    seed: int = 0,
    sharpness: float = 3.0,
    **network: Any,
) -> SSMT:
    """A model with random weights; `sharpness` makes its distributions less even."""
    torch.manual_seed(seed)
    alphabet = Alphabet.of_characters(letters)
    vocabulary = Vocabulary(source_subwords(), alphabet, Lexicon.of_texts(alphabet, entries))
    settings = {"text": {"longest_segment": longest}, "network": {**SMALL, **network}}
    model = SSMT(vocabulary, changed(Config(), settings, "test"))
    with torch.no_grad():
        for name, parameter in model.segments.named_parameters():
            if "weight" in name:
                parameter.mul_(sharpness)
        if model.segments.copies is not None:
            stir_copies(model.segments.copies)
    stir_coverage(model)
    return model.eval()


def stir_copies(copies: nn.Module) -> None:
    """What begins as zero or as seldom in a part that copies becomes random."""
    stir(copies)
    with torch.no_grad():
        copies.get_parameter("pointer.gate.bias").zero_()


def stir_coverage(model: nn.Module) -> None:
    for part in model.modules():
        if isinstance(part, Coverage):
            stir(part)


def stir(part: nn.Module) -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.5)


def translator(model: SSMT, **text: Any) -> Translator:
    config = Config(text=TextConfig(longest_segment=model.segments.longest, length_ratio=1.0, **text))
    return Translator(model, config)


def batch_of(model: SSMT, pairs: Iterable[tuple[str, str]]) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    vocabulary = model.vocabulary
    return make_batch(
        vocabulary.encode_sources(sources),
        vocabulary.encode_targets(targets),
        vocabulary.batch_symbols,
    )


def legal_segments(alphabet: Alphabet, longest: int) -> list[tuple[int, ...]]:
    """Every legal segment: one symbol of any kind, or 2..L word characters."""
    ids = range(len(alphabet))
    singles = [(id,) for id in ids if id not in (alphabet.pad, alphabet.eom)]
    words = [id for id in ids if alphabet.is_word[id]]
    return singles + [gram for n in range(2, longest + 1) for gram in product(words, repeat=n)]
