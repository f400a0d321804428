"""What `torch.compile` costs and brings in training: encoder and decoder body compiled, against the same as they are.

    python benchmarks/compilation.py --source train.en --target train.zu [--models tiny-ssmt small-bpe] [--updates 8]

Two networks with the same weights make the same updates on the same batches, one after the other, each batch of another
shape; the ratio is the median of theirs, by the processor's clock. What compilation costs is the time of the updates
before, that of the C++ compiler included, until some in a row have compiled nothing. Without files, text is made up.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from random_models import made_up_text
from ssmt.directory import load_description
from ssmt.model.transformer import DecoderLayer, EncoderLayer
from ssmt.model.translation import TranslationModel
from ssmt.registry import build
from ssmt.text.corpus import Corpus
from threads import MODELS, prepare
from training import trainer_of

WARM = 3  # updates in a row that have compiled nothing
MOST_WARMING = 12  # updates; whatever still compiles after them counts as time of training


def processor_seconds(work: Callable[[], object]) -> float:
    """Of this process, and of those that it has waited for: compilers."""
    before = os.times()
    work()
    return sum(os.times()[:4]) - sum(before[:4])


def compiled(model: TranslationModel, backend: str, only_layers: bool) -> TranslationModel:
    """With code of its own for the encoder and the decoder over whole targets, for batches of any shape."""
    torch._dynamo.reset()
    if only_layers:
        for layer in model.modules():
            if isinstance(layer, EncoderLayer | DecoderLayer):
                layer.compile(dynamic=True, backend=backend)
        return model
    model.encoder.compile(dynamic=True, backend=backend)
    model.decoder.states = torch.compile(model.decoder.states, dynamic=True, backend=backend)  # type: ignore[method-assign]
    return model


def graphs() -> int:
    """Compiled so far."""
    return int(counters["stats"]["unique_graphs"])


def compare(directory: Path, backend: str, only_layers: bool, updates: int, characters: int | None) -> str:
    """A row of the table."""
    vocabulary, config = load_description(directory)
    corpus = Corpus(directory / "data" / "train", vocabulary.batch_symbols)
    order = corpus.batches(characters or config.training.batch_characters, seed=1, epoch=0)
    plain, other = build(vocabulary, config), build(vocabulary, config)
    other.load_state_dict(plain.state_dict())
    update, update_compiled = trainer_of(plain), trainer_of(compiled(other, backend, only_layers))
    remaining = (corpus.batch(rows, 0) for epoch in range(1000) for rows in order)

    counters.clear()
    warm, warming, cost = 0, 0, 0.0
    while warm < WARM and warming < MOST_WARMING:
        batch, known = next(remaining), graphs()
        plainly = processor_seconds(partial(update, batch))
        cost += processor_seconds(partial(update_compiled, batch)) - plainly
        warm, warming = (warm + 1 if graphs() == known else 0), warming + 1
    known, seconds, ratios = graphs(), list[float](), list[float]()
    for number in range(updates):
        batch = next(remaining)
        both = [partial(update, batch), partial(update_compiled, batch)]
        order_of_both = (0, 1) if number % 2 == 0 else (1, 0)
        taken = {which: processor_seconds(both[which]) for which in order_of_both}
        seconds.append(taken[0])
        ratios.append(taken[1] / taken[0])
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (
        f"| {directory.name} | {known} | {cost:,.0f} | {statistics.median(seconds):.2f} | "
        f"{statistics.median(ratios):.2f} | {spread} | {graphs() - known} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS[2:], choices=MODELS, metavar="SIZE-KIND")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all but the demo")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--lines", type=int, default=4000, help="of the text")
    parser.add_argument("--characters", type=int, help="of a batch, instead of the preset's")
    parser.add_argument("--updates", type=int, default=8, help="that are compared, after those that compile")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", action="store_true", help="compile each layer, and not what is between them")
    parser.add_argument("--backend", default="inductor", help="torch's name of a compiler")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.source and options.target:
        read = [path.read_text(encoding="utf-8").split("\n") for path in (options.source, options.target)]
        text = read[0][: options.lines], read[1][: options.lines]
    else:
        text = made_up_text(options.lines, seed=1), made_up_text(options.lines, seed=2)
    print("| | graphs | compilation, s | an update, s | compiled / not | from, to | graphs compiled later |")
    print("|:--|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        prepare(options.models, options.set, text, Path(name))
        for model in options.models:
            row = compare(Path(name) / model, options.backend, options.layers, options.updates, options.characters)
            print(row, flush=True)


if __name__ == "__main__":
    main()
