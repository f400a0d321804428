"""Training cost: SSMT against a subword Transformer of the same size, on the same sentences, in one run.

    python benchmarks/training.py [--presets small base] [--source F --target F] [--sentences 64] [--repetitions 5]

One repetition trains both models on one batch of the same sentence pairs (forward, backward, update), one after the
other, so that noise of the machine hits both; the ratio is the median of theirs. Peak memory is what an update needs
beyond what lasts. The parts of SSMT's forward and backward pass are timed separately. Without files, the text is
made up.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from random_models import made_up_text, subwords_of, target_subwords_of
from ssmt.config import Config, compose
from ssmt.lattice import marginal
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.text.alphabet import Alphabet
from ssmt.text.corpus import Batch, make_batch
from ssmt.text.lexicon import most_frequent_ngrams
from ssmt.text.lines import read_lines
from ssmt.text.vocabulary import SubwordVocabulary, Vocabulary, encode_targets


def models(preset: str, sources: list[str], targets: list[str]) -> tuple[SSMT, SubwordTransformer, Config]:
    """Both models with vocabularies learnt from the text, and sizes of the preset."""
    config = compose(preset)
    alphabet = Alphabet.of_characters({character for line in targets for character in line})
    text = np.concatenate(encode_targets(alphabet, targets))
    lexicon = most_frequent_ngrams(lambda: [text], alphabet, config.text.lexicon_size, config.text.longest_segment)
    torch.manual_seed(0)
    ssmt = SSMT(Vocabulary(subwords_of(sources, config.text.source_vocabulary), alphabet, lexicon), config)
    shared = target_subwords_of([*sources, *targets], 10_000)
    return ssmt, SubwordTransformer(SubwordVocabulary(shared, shared), config), config


def batch_for(model: SSMT | SubwordTransformer, sources: list[str], targets: list[str]) -> Batch:
    vocabulary = model.vocabulary
    return make_batch(
        vocabulary.encode_sources(sources),
        vocabulary.encode_targets(targets),
        vocabulary.source_pad,
        vocabulary.target_pad,
        characters=sum(len(target) + 1 for target in targets),
    )


def trainer_of(model: nn.Module) -> Callable[[Batch], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def update(batch: Batch) -> None:
        optimiser.zero_grad(set_to_none=True)
        loss = model.training_loss(batch) / batch.characters  # type: ignore[operator]
        loss.backward()
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
                result.backward(torch.ones_like(result))
            output.append(result.detach())

        taken[name] = seconds(work)
        return output[0]

    segments, target, lengths = model.segments, batch.target, batch.target_lengths
    previous = model.decoder.previous(target)
    memory_states = both_ways("encoder", lambda: model.encode(batch.source).states).requires_grad_(True)
    memory = model.encode(batch.source)._replace(states=memory_states)
    states = both_ways("decoder body", lambda: model.decoder.states(target, memory)).requires_grad_(True)

    def scores(characters: bool, lexicon: bool) -> Tensor:
        kept = segments.characters, segments.entries, segments.gate
        segments.characters = kept[0] if characters else None
        segments.entries = kept[1] if lexicon else None
        segments.gate = kept[2] if characters and lexicon else None
        try:
            return segments(target, lengths, previous, states, model.character_embedding)
        finally:
            segments.characters, segments.entries, segments.gate = kept

    both_ways("character model", lambda: scores(True, False))
    both_ways("lexicon", lambda: scores(False, True))
    lattice = scores(True, True).detach().requires_grad_(True)
    both_ways("lattice", lambda: marginal(lattice, lengths))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    optimiser.step()
    taken["optimiser"] = seconds(optimiser.step)
    return taken


def peak_memory(update: Callable[[Batch], None], batch: Batch) -> float | None:
    """Megabytes that one update needs beyond what lasts (weights, optimiser, vocabulary). Linux only."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None

    def kilobytes(key: str) -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith(key))
        return int(line.split()[1])

    gc.collect()
    reset.write_text("5")  # the high-water mark starts anew
    before = kilobytes("VmRSS")
    update(batch)
    return (kilobytes("VmHWM") - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["small", "base"])
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--sentences", type=int, default=64, help="of a batch")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.source and arguments.target:
        text = read_lines(arguments.source), read_lines(arguments.target)
    else:
        text = made_up_text(8000, seed=1), made_up_text(8000, seed=2)
    results = []
    for preset in arguments.presets:
        ssmt, subword, _ = models(preset, *text)
        updates = {"ssmt": trainer_of(ssmt), "subword": trainer_of(subword)}
        network = {"ssmt": ssmt, "subword": subword}
        n = arguments.sentences
        taken: dict[str, list[float]] = {"ssmt": [], "subword": []}
        broken_down: list[dict[str, float]] = []
        by_length = sorted(
            range(len(text[1])), key=lambda row: len(text[1][row])
        )  # batches of like length, as in training
        for repetition in range(arguments.repetitions + 1):
            start = (len(by_length) - n) * (repetition + 1) // (arguments.repetitions + 2)
            rows = by_length[start : start + n]
            chosen = [text[0][row] for row in rows], [text[1][row] for row in rows]
            for name, update in updates.items():
                batch = batch_for(network[name], *chosen)
                spent = seconds(lambda update=update, batch=batch: update(batch))
                if repetition:  # the first warms up
                    taken[name].append(spent / n)
            if repetition:
                broken_down.append(parts(ssmt, batch_for(ssmt, *chosen)))
        ratio = statistics.median(a / b for a, b in zip(taken["ssmt"], taken["subword"], strict=True))
        medians = {name: statistics.median(values) for name, values in taken.items()}
        shares = {name: statistics.median(one[name] for one in broken_down) / n for name in broken_down[0]}
        row: dict[str, Any] = {"preset": preset, "seconds_per_sentence": medians, "time_ratio": ratio, "parts": shares}
        peak = {name: peak_memory(update, batch_for(network[name], *chosen)) for name, update in updates.items()}
        if peak["ssmt"] and peak["subword"]:
            row["peak_megabytes"], row["memory_ratio"] = peak, peak["ssmt"] / peak["subword"]
        results.append(row)
        print(
            f"{preset}: {medians['ssmt'] * 1e3:.1f} ms a sentence against {medians['subword'] * 1e3:.1f}: x{ratio:.2f}"
        )
        for name, spent in shares.items():
            print(f"    {name:16} {spent * 1e3:7.2f} ms  {spent / medians['subword']:5.2f} x subword's whole update")
        if "memory_ratio" in row:
            print(
                f"    peak memory {peak['ssmt']:.0f} MB against {peak['subword']:.0f} MB: x{row['memory_ratio']:.2f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
