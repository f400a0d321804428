"""What the paper's six corpora ask for, by arithmetic: updates, memory, and days of one and of eight GPUs.

    python benchmarks/corpora.py                       the preset `base`, ssmt and bpe
    python benchmarks/corpora.py --scale 2             a network twice as wide and twice as deep
    python benchmarks/corpora.py --utilisation 0.1     another share of the GPU's peak

Operations are counted by torch while a batch is trained: forward and backward, matrix products and attention, on text
with the lengths of each corpus's sentences. Numbers of pairs and epochs are the paper's; the lengths are averages of
14,000 to 32,000 pairs of other text in these languages; a GPU is an A100 (312 bf16 TFLOP/s), of which a share is used.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from random_models import random_bpe, random_ssmt
from ssmt.config import compose
from ssmt.model.translation import TranslationModel
from ssmt.text.batch import make_batch

EPOCHS = 25
PEAK = 312e12  # operations a second of an A100, in bf16
LINK = 25e9  # bytes a second between GPUs: PCIe 4 with 16 lanes, or a network of 200 Gbit/s
BYTES = 16  # of a parameter in training: the weight, its gradient, two moments, in float32
SENTENCES = 4  # of the batch that is counted
UPDATE = 64_000  # target characters of an update: eight batches of 8,000


@dataclass(frozen=True)
class Language:
    name: str
    pairs: float
    characters: float  # of a target, its end included
    words: float
    source: float  # characters of a source


LANGUAGES = (
    Language("Xhosa", 8.7e6, 108, 11.4, 91),
    Language("Tswana", 5.9e6, 125, 21.6, 103),
    Language("Zulu", 3.9e6, 114, 11.6, 93),
    Language("Finnish", 1.6e6, 150, 17.0, 145),  # Europarl's sentences are long: assumed, not counted
    Language("Afrikaans", 1.6e6, 79, 11.5, 73),
    Language("Swati", 165e3, 116, 11.7, 99),
)


def text_of(characters: float, words: float, seed: int) -> list[str]:
    """Sentences with so many characters and words on average, of random syllables."""
    rng = random.Random(seed)
    sentences = []
    for _ in range(SENTENCES):
        share = rng.uniform(0.8, 1.2)  # of like length, as the sentences of a batch are
        letters = max(2, round((characters - words) / words))
        word = ["".join(rng.choice("bdghklmnpstwz") + rng.choice("aeiou") for _ in range(letters))[:letters]]
        sentences.append(" ".join(word * max(1, round(words * share))))
    return sentences


def operations_of_character(model: TranslationModel, language: Language) -> float:
    """Of training, for each character of the target."""
    sources = text_of(language.source, language.source / 5.7, 1)
    targets = text_of(language.characters, language.words, 2)
    vocabulary = model.vocabulary
    characters = sum(len(target) + 1 for target in targets)
    batch = make_batch(
        vocabulary.encode_sources(sources),
        vocabulary.encode_targets(targets),
        vocabulary.batch_symbols,
        characters=characters,
    )
    with FlopCounterMode(display=False) as counter:
        model.train()(batch).minimised.backward()
    model.zero_grad()
    return float(counter.get_total_flops()) / characters


def network(model: str, scale: int) -> TranslationModel:
    base = compose("base").network
    layers = {"encoder_layers": base.encoder_layers * scale, "decoder_layers": base.decoder_layers * scale}
    sizes = {"width": base.width * scale, "feedforward": base.feedforward * scale, **(layers if scale > 1 else {})}
    settings = [f"network.{key}={value}" for key, value in sizes.items()]
    if model == "ssmt":
        return random_ssmt("base", *settings)[0]
    return random_bpe("base", *settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["ssmt", "bpe"], choices=["ssmt", "bpe"])
    parser.add_argument("--scale", type=int, default=1, help="how much wider and deeper than `base`")
    parser.add_argument("--utilisation", type=float, default=0.05, help="share of a GPU's peak that training reaches")
    parser.add_argument("--languages", nargs="+", default=[language.name for language in LANGUAGES])
    options = parser.parse_args()
    torch.set_num_threads(1)
    languages = [language for language in LANGUAGES if language.name in options.languages]
    for name in options.models:
        model = network(name, options.scale)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        exchange = 2 * 7 / 8 * 4 * parameters / LINK  # seconds of an all-reduce of the gradient among eight
        print(
            f"{name}: {parameters / 1e6:.1f} million parameters; with gradients and moments "
            f"{BYTES * parameters / 1e9:.2f} GB; eight GPUs add up gradients in {1000 * exchange:.0f} ms an update\n"
        )
        print("| corpus | pairs | characters | updates | GFLOP a character | days on 1 GPU | days on 8 | GB on disk |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for language in languages:
            operations = operations_of_character(model, language)
            characters = language.pairs * language.characters
            updates = EPOCHS * characters / UPDATE
            days = EPOCHS * characters * operations / (PEAK * options.utilisation) / 86400
            on_disk = language.pairs * (2 * language.characters + 2 * language.source / 4 + 4 * 8) / 1e9
            print(
                f"| {language.name} | {language.pairs / 1e6:.2f} M | {characters / 1e6:,.0f} M | {updates:,.0f} | "
                f"{operations / 1e9:.3f} | {days:.2f} | {days / 8 + updates * exchange / 86400:.2f} | {on_disk:.1f} |"
            )
        print()


if __name__ == "__main__":
    main()
