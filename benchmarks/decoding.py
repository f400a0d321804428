"""Decoding speed: every search of SSMT against beam search of a subword Transformer of the same size, in one run.

    python benchmarks/decoding.py [--model DIR] [--presets small base] [--length 100] [--beams 1 5] [--batches 1 64]

All translate the same sentences, and every output is forced to the same length in characters, so that a ratio
compares the cost of a translation and nothing else. The subword model is the preset's of kind bpe with random weights
and the characters a subword stands for in Zulu (4.4). Without --model, the SSMT model has random weights too and writes
words of ten characters (not in `mixture`, whose symbols write several characters each). Repetitions alternate between
the systems, so that noise of the machine hits all of them; seconds are those of the fastest repetition, and a ratio is
the median over all. With --cpu-time, the time is that which the process was given: on a busy machine with one thread,
ratios of that mean something. Memory is that of the tensors which one batch has at one time, beyond the weights.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from operator import truediv
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memory import peak_memory
from random_models import random_bpe, random_ssmt
from ssmt.model.body import Memory
from ssmt.model.int8 import use_int8_weights
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.translation import TranslationModel
from ssmt.registry import KINDS
from ssmt.search.decode import search_batch
from ssmt.search.job import NewScorer, Request
from ssmt.search.marginal import MarginalScorer
from ssmt.search.open_segments import generable
from ssmt.search.options import SearchOptions
from ssmt.search.subword import SubwordScorer
from ssmt.search.table import SEARCHES
from ssmt.text.batch import padded
from ssmt.text.lines import read_lines
from ssmt.translator import Translator

CHARACTERS_PER_SUBWORD = 4.4
CHARACTERS_PER_WORD = 10  # with the blank


@dataclass(frozen=True)
class WithBlanks(Request):
    """Words of a usual length: random weights would write none, or nothing else."""

    inside_or_blank: Tensor  # (2, C) what may come inside a word, and where a blank is due
    place: Tensor  # (B,) of its first blank, for each sentence

    @classmethod
    def of_request(cls, request: Request, inside_or_blank: Tensor, place: Tensor) -> WithBlanks:
        asked_for = {field.name: getattr(request, field.name) for field in fields(Request)}
        return cls(**asked_for, inside_or_blank=inside_or_blank, place=place)

    def select(self, sentences: Tensor) -> WithBlanks:
        return self.of_request(super().select(sentences), self.inside_or_blank, self.place[sentences])

    def allowed(self, position: int, possible: Tensor, eos: int, rows: int) -> Tensor:
        if position >= self.first_end:
            return super().allowed(position, possible, eos, rows)
        blank_is_due = (self.place == position % CHARACTERS_PER_WORD).long()
        return self.inside_or_blank[blank_is_due].repeat_interleave(rows, dim=0)


def forced(model: TranslationModel, sentences: int, length: int) -> Request:
    """Outputs of exactly this length."""
    return Request.of_lengths(model.vocabulary.start, torch.full((sentences,), length), length)


def forced_words(model: SSMT, sentences: int, length: int) -> WithBlanks:
    place = 2 + torch.arange(sentences) * 7 % (CHARACTERS_PER_WORD - 2)
    alphabet = model.vocabulary.alphabet
    is_blank = torch.from_numpy(alphabet.is_blank)
    inside = generable(alphabet) & ~is_blank
    inside[alphabet.eos] = False  # no output ends before its length
    return WithBlanks.of_request(forced(model, sentences, length), torch.stack([inside, is_blank]), place)


def decode_ssmt(model: SSMT, sources: list[str], search: str, beam: int, batch: int, length: int) -> None:
    _decode(model, MarginalScorer, search, sources, beam, batch, lambda count: forced_words(model, count, length))


def decode_subwords(model: SubwordTransformer, sources: list[str], beam: int, batch: int, length: int) -> None:
    tokens = round(length / CHARACTERS_PER_SUBWORD)
    # The first subword brings the mark in front of the text, which is no character of it.
    _decode(model, one_character_each, "beam", sources, beam, batch, lambda count: forced(model, count, tokens - 1))


def one_character_each(
    model: SubwordTransformer, memory: Memory | None, hypotheses: int, request: Request
) -> SubwordScorer:
    """As many subwords as are asked for, whatever they write."""
    scorer = SubwordScorer(model, memory, hypotheses, request)
    scorer.written_length = scorer.request.written_length = torch.ones_like(scorer.written_length)
    scorer.request.written = scorer.request.written[:, :1]
    return scorer


def _decode(
    model: TranslationModel,
    scorer: NewScorer,
    search: str,
    sources: list[str],
    beam: int,
    batch: int,
    request_for: Callable[[int], Request],
) -> None:
    """Translate so many sentences at once; `request_for` says what is asked of a batch, by its size."""
    for start in range(0, len(sources), batch):
        block = sources[start : start + batch]
        source = padded(model.vocabulary.encode_sources(block), model.vocabulary.source_pad)
        search_batch(model, scorer, SEARCHES[search], source, request_for(len(block)), SearchOptions(beam=beam))


def measure(
    systems: dict[str, Callable[[], None]], repetitions: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each, in repetitions that alternate between them."""
    taken: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repetitions):
        for name, work in systems.items():
            begun = clock()
            work()
            taken[name].append(clock() - begun)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a trained SSMT model directory")
    parser.add_argument(
        "--presets", nargs="+", default=["small", "base"], help="sizes; beside a --model, that of the subword model"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both models")
    parser.add_argument("--sources", type=Path, help="text to translate, one sentence a line")
    with_beam = [name for name in KINDS["ssmt"].searches if SEARCHES[name].has_beam]
    parser.add_argument("--searches", nargs="+", choices=with_beam, default=with_beam)
    parser.add_argument("--int8", action="store_true", help="also both models with weights of 8 bits")
    parser.add_argument("--length", type=int, default=100, help="characters of every output")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="of the process, not of the clock on the wall")
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
            if not isinstance(translator.model, SSMT):
                parser.error(f"{arguments.model} is not a model of kind ssmt, whose searches are measured here")
            model = translator.model
        else:
            model, _ = random_ssmt(preset, *arguments.set)
        baseline = random_bpe(arguments.presets[0] if arguments.model else preset, *arguments.set)
        name = "model" if arguments.model else preset
        print(f"| {name} | beam | batch | ms a sentence | characters/s | times subwords | MB | times subwords |")
        print("|:--|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for beam, batch in product(arguments.beams, arguments.batches):
            sources = (texts * batch)[: max(batch, 4)]
            systems = systems_for(model, baseline, sources, arguments, beam, batch)
            seconds = measure(
                systems, arguments.repetitions, time.process_time if arguments.cpu_time else time.perf_counter
            )
            megabytes = {system: peak_memory(work) for system, work in systems.items()}
            for system, taken in seconds.items():
                fastest = min(taken)
                row = {
                    "size": str(preset),
                    "system": system,
                    "beam": beam,
                    "batch": batch,
                    "seconds_per_sentence": fastest / len(sources),
                    "characters_per_second": arguments.length * len(sources) / fastest,
                    "peak_megabytes": megabytes[system],
                    "memory_ratio_to_subwords": megabytes[system] / megabytes["subwords"],
                    "ratio_to_subwords": statistics.median(map(truediv, taken, seconds["subwords"])),
                }
                rows.append(row)
                print(
                    f"| {system} | {beam} | {batch} | {row['seconds_per_sentence'] * 1e3:.0f} "
                    f"| {row['characters_per_second']:.0f} | {row['ratio_to_subwords']:.2f} "
                    f"| {row['peak_megabytes']:.0f} | {row['memory_ratio_to_subwords']:.2f} |",
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
