"""Decoding speed: every search of SSMT against beam search of a subword Transformer of the same size, in one run.

    python benchmarks/decoding.py [--model DIR] [--presets small base] [--length 100] [--beams 1 5] [--batches 1 64]

All translate the same sentences, and every output is forced to the same length in characters, so that a ratio
compares the cost of a translation and nothing else. The subword model is one of this package with random weights, a
shared vocabulary of 10,000 and the characters a subword stands for in Zulu (4.4). Without --model, the SSMT model
has random weights too, and writes words of ten characters (not in `mixture`, whose symbols write several characters
each). Repetitions alternate between the systems, so that noise of the machine hits all of them; seconds are those of
the fastest repetition, and a ratio is the median over all.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from random_models import random_ssmt, random_subword
from ssmt.model.int8 import use_int8_weights
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.search.job import Request
from ssmt.search.options import SearchOptions
from ssmt.search.beam import beam_search
from ssmt.search.decode import decode
from ssmt.search.open_segments import generable
from ssmt.search.subword import SubwordScorer
from ssmt.text.batch import padded
from ssmt.text.lines import read_lines
from ssmt.translator import Translator

CHARACTERS_PER_SUBWORD = 4.4
CHARACTERS_PER_WORD = 10  # with the blank


@dataclass(frozen=True)
class WithBlanks(Limits):
    """Words of a usual length: random weights would write none, or nothing else."""

    inside_or_blank: Tensor  # (2, C) what may come inside a word, and where a blank is due
    place: Tensor  # (B,) of its first blank, for each sentence

    def select(self, sentences: Tensor) -> WithBlanks:
        few = vars(super().select(sentences))
        return WithBlanks(**few, inside_or_blank=self.inside_or_blank, place=self.place[sentences])

    def allowed(self, position: int, possible: Tensor, eos: int, rows: int) -> Tensor:
        if position >= self.first_end:
            return super().allowed(position, possible, eos, rows)
        blank_is_due = (self.place == position % CHARACTERS_PER_WORD).long()
        return self.inside_or_blank[blank_is_due].repeat_interleave(rows, dim=0)


def forced(sentences: int, length: int) -> Limits:
    """Outputs of exactly this length."""
    exactly = torch.full((sentences,), length)
    return Limits(exactly, length, torch.zeros(sentences, 0, dtype=torch.int64), torch.zeros_like(exactly))


def forced_words(model: SSMT, sentences: int, length: int) -> Limits:
    place = 2 + torch.arange(sentences) * 7 % (CHARACTERS_PER_WORD - 2)
    alphabet = model.vocabulary.alphabet
    is_blank = torch.from_numpy(alphabet.is_blank)
    inside = generable(alphabet) & ~is_blank
    inside[alphabet.eos] = False  # no output ends before its length
    return WithBlanks(**vars(forced(sentences, length)), inside_or_blank=torch.stack([inside, is_blank]), place=place)


@torch.inference_mode()
def decode_ssmt(model: SSMT, sources: list[str], search: str, beam: int, batch: int, length: int) -> None:
    options = SearchOptions(beam=beam, min_length=length)
    for start in range(0, len(sources), batch):
        block = sources[start : start + batch]
        source = padded(model.vocabulary.encode_sources(block), model.vocabulary.source_pad)
        decode(model, source, forced_words(model, len(block), length), search, options, [1] * len(block))  # type: ignore[arg-type]


@torch.inference_mode()
def decode_subwords(model: SubwordTransformer, sources: list[str], beam: int, batch: int, length: int) -> None:
    tokens = round(length / CHARACTERS_PER_SUBWORD)
    for start in range(0, len(sources), batch):
        block = sources[start : start + batch]
        source = padded(model.vocabulary.encode_sources(block), model.vocabulary.source_pad)
        # Every subword counts as one character, and the first brings the mark in front of the text.
        scorer = SubwordScorer(model, model.encode(source), beam, forced(len(block), tokens - 1))
        scorer.written_length.fill_(1)
        beam_search(scorer, len(block), SearchOptions(beam=beam))


def measure(systems: dict[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each, in repetitions that alternate between them."""
    taken: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repetitions):
        for name, work in systems.items():
            begun = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - begun)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a trained SSMT model directory")
    parser.add_argument("--presets", nargs="+", default=["small", "base"], help="sizes, where there is no --model")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both models")
    parser.add_argument("--sources", type=Path, help="text to translate, one sentence a line")
    parser.add_argument("--searches", nargs="+", default=["marginal", "dynamic", "mixture"])
    parser.add_argument("--int8", action="store_true", help="also both models with weights of 8 bits")
    parser.add_argument("--length", type=int, default=100, help="characters of every output")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    if arguments.model and arguments.set:
        parser.error("--set is for random models; a --model has its settings")
    torch.set_num_threads(arguments.threads)
    texts = read_lines(arguments.sources) if arguments.sources else made_up_sources()
    texts = [text for text in texts if 70 <= len(text) <= 130] or texts

    rows: list[dict[str, Any]] = []
    for preset in [arguments.model] if arguments.model else arguments.presets:
        if arguments.model:
            translator = Translator.load(arguments.model, "cpu")
            model, config = translator.model, translator.config
        else:
            model, config = random_ssmt(preset, *arguments.set)
        baseline = random_subword(config)
        name = "model" if arguments.model else preset
        print(f"| {name} | beam | batch | ms a sentence | characters/s | times subwords |")
        print("|:--|--:|--:|--:|--:|--:|", flush=True)
        for beam, batch in product(arguments.beams, arguments.batches):
            sources = (texts * batch)[: max(batch, 4)]
            systems = systems_for(model, baseline, sources, arguments, beam, batch)
            seconds = measure(systems, arguments.repetitions)
            for system, repetitions in seconds.items():
                time_taken = min(repetitions)
                row = {
                    "size": str(preset),
                    "system": system,
                    "beam": beam,
                    "batch": batch,
                    "seconds_per_sentence": time_taken / len(sources),
                    "characters_per_second": arguments.length * len(sources) / time_taken,
                    "ratio_to_subwords": statistics.median(
                        one / other for one, other in zip(repetitions, seconds["subwords"], strict=True)
                    ),
                }
                rows.append(row)
                print(
                    f"| {system} | {beam} | {batch} | {row['seconds_per_sentence'] * 1e3:.0f} "
                    f"| {row['characters_per_second']:.0f} | {row['ratio_to_subwords']:.2f} |",
                    flush=True,
                )
        print()
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def systems_for(
    model: SSMT,
    baseline: SubwordTransformer,
    sources: list[str],
    arguments: argparse.Namespace,
    beam: int,
    batch: int,
) -> dict[str, Callable[[], None]]:
    """What is timed, by name."""
    systems: dict[str, Callable[[], None]] = {}
    for suffix in ["", " (int8)"] if arguments.int8 else [""]:
        if suffix:
            model, baseline = copy.deepcopy(model), copy.deepcopy(baseline)
            use_int8_weights(model)
            use_int8_weights(baseline)
        systems["subwords" + suffix] = partial(decode_subwords, baseline, sources, beam, batch, arguments.length)
        for search in arguments.searches:
            systems[search + suffix] = partial(decode_ssmt, model, sources, search, beam, batch, arguments.length)
    return systems


def made_up_sources() -> list[str]:
    rng = random.Random(0)
    words = [
        "the",
        "a",
        "committee",
        "river",
        "teachers",
        "has",
        "seen",
        "many",
        "people",
        "in",
        "town",
        "every",
        "year",
    ]
    return [" ".join(rng.choices(words, k=17)) for _ in range(64)]


if __name__ == "__main__":
    main()
