"""Decoding speed: every search of SSMT against beam search of a subword Transformer of the same size, in one run.

    python benchmarks/decoding.py [--model DIR] [--preset small] [--length 100] [--beams 1 5] [--batches 1 64]

All translate the same sentences, and every output is forced to the same length in characters, so that a ratio
compares the cost of a translation and nothing else. The subword model is one of this package with random weights, a
shared vocabulary of 10,000 and the characters a subword stands for in Zulu (4.4). Without --model, the SSMT model
has random weights too. Repetitions alternate between the systems, so that noise of the machine hits all of them; the
fastest counts.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from random_models import random_ssmt, random_subword
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.search.beam import Limits, SearchOptions, beam_search
from ssmt.search.decode import decode
from ssmt.search.subword import SubwordScorer
from ssmt.text.corpus import padded
from ssmt.text.lines import read_lines
from ssmt.translator import Translator

CHARACTERS_PER_SUBWORD = 4.4


def forced(sentences: int, length: int) -> Limits:
    """Outputs of exactly this length."""
    exactly = torch.full((sentences,), length)
    return Limits(exactly, length, torch.zeros(sentences, 0, dtype=torch.int64), torch.zeros_like(exactly))


@torch.inference_mode()
def decode_ssmt(model: SSMT, sources: list[str], search: str, beam: int, batch: int, length: int) -> None:
    options = SearchOptions(beam=beam, min_length=length)
    for start in range(0, len(sources), batch):
        block = sources[start : start + batch]
        source = padded(model.vocabulary.encode_sources(block), model.vocabulary.source_pad)
        decode(model, source, forced(len(block), length), search, options, [1] * len(block))  # type: ignore[arg-type]


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


def measure(systems: dict[str, Callable[[], None]], repetitions: int) -> dict[str, float]:
    """Seconds of each, the fastest of alternating repetitions."""
    best = dict.fromkeys(systems, float("inf"))
    for _ in range(repetitions):
        for name, work in systems.items():
            begun = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a trained SSMT model directory")
    parser.add_argument("--preset", default="small", help="size of both models, where there is no --model")
    parser.add_argument("--sources", type=Path, help="text to translate, one sentence a line")
    parser.add_argument("--searches", nargs="+", default=["marginal", "dynamic", "mixture"])
    parser.add_argument("--length", type=int, default=100, help="characters of every output")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    if arguments.model:
        translator = Translator.load(arguments.model, "cpu")
        model, config = translator.model, translator.config
    else:
        model, config = random_ssmt(arguments.preset)
    baseline = random_subword(config)
    texts = read_lines(arguments.sources) if arguments.sources else made_up_sources()
    texts = [text for text in texts if 70 <= len(text) <= 130] or texts

    rows: list[dict[str, Any]] = []
    print(f"{'search':10} {'beam':>4} {'batch':>5} {'s/sentence':>11} {'chars/s':>9} {'x subword':>9}", flush=True)
    for beam in arguments.beams:
        for batch in arguments.batches:
            sources = (texts * batch)[: max(batch, 4)]
            systems: dict[str, Callable[[], None]] = {
                "subword": lambda s=sources, b=beam, n=batch: decode_subwords(baseline, s, b, n, arguments.length)
            }
            for search in arguments.searches:
                systems[search] = lambda s=sources, b=beam, n=batch, kind=search: decode_ssmt(
                    model, s, kind, b, n, arguments.length
                )
            seconds = measure(systems, arguments.repetitions)
            for name, time_taken in seconds.items():
                row = {
                    "search": name,
                    "beam": beam,
                    "batch": batch,
                    "seconds_per_sentence": time_taken / len(sources),
                    "characters_per_second": arguments.length * len(sources) / time_taken,
                    "ratio_to_subword": time_taken / seconds["subword"],
                }
                rows.append(row)
                print(
                    f"{name:10} {beam:4} {batch:5} {row['seconds_per_sentence']:11.4f} "
                    f"{row['characters_per_second']:9.0f} {row['ratio_to_subword']:9.2f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def made_up_sources() -> list[str]:
    rng = random.Random(0)
    words = [
        "the",
        "a",
        "committee",
        "river",
        "teachers",
        "report",
        "has",
        "been",
        "seen",
        "by",
        "many",
        "people",
        "in",
        "town",
        "every",
        "year",
        "of",
        "new",
        "work",
    ]
    return [" ".join(rng.choices(words, k=17)) for _ in range(64)]


if __name__ == "__main__":
    main()
