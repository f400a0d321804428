"""Training cost: SSMT against a subword Transformer of the same size, on the same sentences, in one run.

    python benchmarks/training.py [--presets small base] [--source F --target F] [--sentences 32] [--repetitions 5]

One repetition trains both models on one batch of the same sentence pairs (forward, backward, update), one after the
other, so that noise of the machine hits both; the ratio is the median of theirs. Batches are of like length, as in
training, and from short to long. Peak memory is that of the tensors which one update has at one time, beyond those that
last, on the longest batch. The parts of SSMT's forward and backward pass are timed separately. Without files, the text
is made up. Each model has what the preset has for its kind; --set changes both (--set text.lexicon_size=8000).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memory import peak_memory
from random_models import made_up_text, subwords_of, target_subwords_of
from ssmt.config import compose
from ssmt.lattice import marginal
from ssmt.model.body import Memory
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.model.translation import TranslationModel
from ssmt.text.alignment import Alignment
from ssmt.text.alphabet import Alphabet
from ssmt.text.batch import Batch, make_batch
from ssmt.text.lexicon import legal_lengths, most_frequent_ngrams, of_entries
from ssmt.text.lines import read_lines
from ssmt.text.subwords import MARK
from ssmt.text.vocabulary import SubwordVocabulary, Vocabulary, encode_targets


def models(preset: str, settings: list[str], sources: list[str], targets: list[str]) -> tuple[SSMT, SubwordTransformer]:
    """Both models with vocabularies learnt from the text, and sizes of the preset."""
    config, of_subwords = (compose(preset, settings=[*settings, f"model={kind}"]) for kind in ("ssmt", "bpe"))
    alphabet = Alphabet.of_characters({character for line in targets for character in line})
    text = np.concatenate(encode_targets(alphabet, targets))
    size, longest = config.text.lexicon_size, config.text.longest_segment
    if config.text.lexicon == "bpe":
        entries = (piece.removeprefix(MARK) for piece in target_subwords_of(targets, size).pieces)
        lexicon = of_entries(entries, lambda: [text], alphabet, longest)
    else:
        lexicon = most_frequent_ngrams(lambda: [text], alphabet, size, longest)
    torch.manual_seed(0)
    source = subwords_of(sources, config.text.source_vocabulary)
    ssmt = SSMT(Vocabulary(source, alphabet, lexicon), config)
    is_shared = of_subwords.text.shared_vocabulary
    subwords = target_subwords_of([*sources, *targets] if is_shared else targets, of_subwords.text.subword_vocabulary)
    return ssmt, SubwordTransformer(SubwordVocabulary(subwords if is_shared else source, subwords), of_subwords)


def batch_for(model: TranslationModel, sources: list[str], targets: list[str]) -> Batch:
    vocabulary = model.vocabulary
    return make_batch(
        vocabulary.encode_sources(sources),
        vocabulary.encode_targets(targets),
        vocabulary.batch_symbols,
        characters=sum(len(target) + 1 for target in targets),
    )


def trainer_of(model: TranslationModel) -> Callable[[Batch], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()
    alignment = Alignment(model.vocabulary) if model.alignment_weight else None  # what it has learnt costs nothing

    def update(batch: Batch) -> None:
        if alignment is not None:
            assert batch.source is not None
            batch = replace(batch, alignment=alignment.of(batch.source, batch.target))
        optimiser.zero_grad(set_to_none=True)
        (model(batch).minimised / batch.characters).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return update


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def parts(model: SSMT, batch: Batch) -> dict[str, float]:
    """Seconds of each part, forward and backward, each on inputs that do not lead back into another part."""
    taken: dict[str, float] = {}

    def both_ways(name: str, forward: Callable[[], Tensor]) -> Tensor:
        output: list[Tensor] = []

        def work() -> None:
            result = forward()
            if result.requires_grad:
                torch.autograd.backward(result, torch.ones_like(result))
            output.append(result.detach())

        taken[name] = seconds(work)
        return output[0]

    def encoded() -> Memory:
        memory = model.encode(batch.source)
        assert memory is not None
        return memory

    segments, target, lengths, previous = model.segments, batch.target, batch.target_lengths, batch.previous
    memory_states = both_ways("encoder", lambda: encoded().states).requires_grad_(True)
    memory = encoded()._replace(states=memory_states)
    states = both_ways("decoder body", lambda: model.decoder.states(previous, memory)).requires_grad_(True)

    def scores(characters: bool, lexicon: bool) -> Tensor:
        kept = segments.characters, segments.entries, segments.gate
        segments.characters = kept[0] if characters else None
        segments.entries = kept[1] if lexicon else None
        segments.gate = kept[2] if characters and lexicon else None
        try:
            return segments.forward(target, lengths, previous, states, model.character_embedding)
        finally:
            segments.characters, segments.entries, segments.gate = kept

    def copies() -> Tensor:
        assert segments.copies is not None
        legal = legal_lengths(target, segments.get_buffer("is_word"), segments.longest, lengths)
        log_copied, log_rest = segments.copies(target, legal, previous, states, segments.copies.units(memory))
        return torch.logaddexp(log_copied, log_rest.unsqueeze(-1))

    if segments.characters is not None:
        both_ways("character model", lambda: scores(True, False))
    if segments.entries is not None:
        both_ways("lexicon", lambda: scores(False, True))
    if segments.copies is not None:
        both_ways("copies", copies)
    lattice = scores(True, True).detach().requires_grad_(True)
    both_ways("lattice", lambda: marginal(lattice, lengths))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    optimiser.step()
    taken["optimiser"] = seconds(optimiser.step)
    return taken


def compare(preset: str, settings: list[str], text: tuple[list[str], list[str]], n: int, repetitions: int) -> Result:
    """Both models of a preset on the same batches of n sentences."""
    ssmt, subword = models(preset, settings, *text)
    networks: dict[str, TranslationModel] = {"ssmt": ssmt, "subword": subword}
    updates = {name: trainer_of(model) for name, model in networks.items()}
    by_length = sorted(range(len(text[1])), key=lambda row: len(text[1][row]))
    taken: dict[str, list[float]] = {name: [] for name in networks}
    broken_down: list[dict[str, float]] = []
    characters = 0
    for repetition in range(repetitions + 1):
        start = (len(by_length) - n) * max(repetition, 1) // (repetitions + 1)
        rows = by_length[start : start + n]
        chosen = [text[0][row] for row in rows], [text[1][row] for row in rows]
        for name, update in updates.items():
            batch = batch_for(networks[name], *chosen)
            spent = seconds(partial(update, batch))
            if repetition:  # the first warms up
                taken[name].append(spent / n)
        if repetition:
            characters += batch.characters
            broken_down.append(parts(ssmt, batch_for(ssmt, *chosen)))
    peak = {name: peak_memory(partial(update, batch_for(networks[name], *chosen))) for name, update in updates.items()}
    return Result(
        preset,
        {name: sum(parameter.numel() for parameter in model.parameters()) for name, model in networks.items()},
        characters / (n * repetitions),
        {name: statistics.median(values) for name, values in taken.items()},
        list(map(truediv, taken["ssmt"], taken["subword"])),
        {name: statistics.median(of_parts[name] for of_parts in broken_down) / n for name in broken_down[0]},
        peak,
    )


@dataclass(frozen=True)
class Result:
    preset: str
    parameters: dict[str, int]
    characters_per_sentence: float
    seconds_per_sentence: dict[str, float]
    time_ratios: list[float]  # of each batch, from short sentences to long ones
    seconds_of_parts: dict[str, float]  # of SSMT, per sentence
    peak_megabytes: dict[str, float]

    @property
    def time_ratio(self) -> float:
        return statistics.median(self.time_ratios)

    @property
    def memory_ratio(self) -> float:
        return self.peak_megabytes["ssmt"] / self.peak_megabytes["subword"]

    def markdown(self) -> str:
        seconds, peak = self.seconds_per_sentence, self.peak_megabytes
        lines = [
            f"| {self.preset} | SSMT | subwords | ratio |",
            "|:--|--:|--:|--:|",
            "| parameters, millions | {ssmt:.1f} | {subword:.1f} | |".format(
                **{name: count / 1e6 for name, count in self.parameters.items()}
            ),
            f"| update, ms a sentence | {seconds['ssmt'] * 1e3:.1f} | {seconds['subword'] * 1e3:.1f} "
            f"| **{self.time_ratio:.2f}** ({min(self.time_ratios):.2f} to {max(self.time_ratios):.2f}) |",
            f"| peak memory, MB | {peak['ssmt']:.0f} | {peak['subword']:.0f} | **{self.memory_ratio:.2f}** |",
        ]
        for name, spent in self.seconds_of_parts.items():
            share = spent / seconds["subword"]
            lines.append(f"| {name}, ms a sentence | {spent * 1e3:.1f} | | {share:.2f} of subwords' update |")
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["small", "base"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both models")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--lines", type=int, default=8000, help="of made-up text, where there are no files")
    parser.add_argument("--sentences", type=int, default=32, help="of a batch")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    if (arguments.source is None) != (arguments.target is None):
        parser.error("--source and --target go together")
    torch.set_num_threads(arguments.threads)
    if arguments.source and arguments.target:
        text = read_lines(arguments.source), read_lines(arguments.target)
    else:
        text = made_up_text(arguments.lines, seed=1), made_up_text(arguments.lines, seed=2)
    results = []
    for preset in arguments.presets:
        result = compare(preset, arguments.set, text, arguments.sentences, arguments.repetitions)
        print(result.markdown(), flush=True)
        print()
        results.append({**asdict(result), "time_ratio": result.time_ratio, "memory_ratio": result.memory_ratio})
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
