"""How fast text becomes numbers, on one thread: lexicon ids of every segment, n-gram counting, corpus preparation.

    python benchmarks/text.py                                generated text
    python benchmarks/text.py --source F --target F          your own
    python benchmarks/text.py --json                         for machines

Seconds are those of the processor, so that other work on the machine does not count. The aim for `ids_of_segments`,
which runs for every batch of every epoch, is a million characters a second.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ssmt.config import TextConfig
from ssmt.progress import Reporter
from ssmt.text.corpus import Corpus
from ssmt.text.lexicon import legal_lengths, most_frequent_ngrams
from ssmt.text.preparation import TrainingFiles, prepare
from ssmt.text.vocabulary import Vocabulary

BATCH_CHARACTERS = 8000
REPEATS = 5  # the fastest counts: the others were disturbed


@dataclass(frozen=True)
class Result:
    measure: str
    characters: int
    seconds: float
    characters_per_second: float


def measured(measure: str, characters: int, work: Callable[[], object], repeats: int = REPEATS) -> Result:
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return Result(measure, characters, round(min(seconds), 4), round(characters / min(seconds)))


def generate(directory: Path, characters: int, seed: int = 1) -> tuple[Path, Path]:
    """Sentence pairs with words of few syllables whose frequencies fall as in real text."""
    rng = random.Random(seed)
    consonants = ("b", "d", "g", "hl", "k", "l", "m", "n", "ng", "nd", "s", "th", "w", "z")
    syllables = [consonant + vowel for consonant in consonants for vowel in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 6))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    paths = directory / "source.txt", directory / "target.txt"
    with open(paths[0], "w", encoding="utf-8") as source, open(paths[1], "w", encoding="utf-8") as target:
        written = 0
        while written < characters:
            chosen = rng.choices(words, weights, k=rng.randint(3, 20))
            line = " ".join(chosen).capitalize() + rng.choice(".?!")
            source.write(" ".join(word[::-1] for word in chosen) + "\n")
            target.write(line + "\n")
            written += len(line) + 1
    return paths


def benchmark(source: Path, target: Path, config: TextConfig) -> list[Result]:
    results = []
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        files = TrainingFiles(source, target, source, target)
        begun = time.process_time()
        vocabulary, _ = prepare(files, config, data, Reporter())
        seconds = time.process_time() - begun
        assert isinstance(vocabulary, Vocabulary)
        corpus = Corpus(data / "train", vocabulary.batch_symbols)
        characters = int(corpus.characters.sum())
        # The same files serve for validation too, so the text is encoded twice.
        results.append(Result("prepare", 2 * characters, round(seconds, 4), round(2 * characters / seconds)))

        alphabet, trie, longest = vocabulary.alphabet, vocabulary.lexicon.trie, config.longest_segment
        results.append(
            measured(
                "count n-grams",
                characters,
                lambda: most_frequent_ngrams(corpus.target.chunks, alphabet, config.lexicon_size, longest),
                repeats=2,
            )
        )
        is_word = torch.from_numpy(alphabet.is_word)
        batches = [corpus.batch(indices) for indices in corpus.batches(BATCH_CHARACTERS)][:100]

        def ids_of_batches() -> None:
            for batch in batches:
                legal = legal_lengths(batch.target, is_word, longest, batch.target_lengths)
                trie.ids_of_segments(batch.target, legal, longest)

        results.append(measured("ids_of_segments", sum(batch.characters for batch in batches), ids_of_batches))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="source text; with --target")
    parser.add_argument("--target", type=Path, help="target text")
    parser.add_argument("--characters", type=int, default=1_000_000, help="of generated text (default: %(default)s)")
    parser.add_argument("--lexicon-size", type=int, default=5000)
    parser.add_argument("--longest-segment", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    if (arguments.source is None) != (arguments.target is None):
        parser.error("--source and --target go together")

    torch.set_num_threads(1)
    config = TextConfig(
        lexicon_size=arguments.lexicon_size, longest_segment=arguments.longest_segment, skip_bad_lines=True
    )
    with tempfile.TemporaryDirectory() as directory:
        given = (arguments.source, arguments.target)
        source, target = given if arguments.source else generate(Path(directory), arguments.characters)
        results = benchmark(source, target, config)
    if arguments.json:
        settings = {"lexicon_size": config.lexicon_size, "longest_segment": config.longest_segment, "threads": 1}
        print(json.dumps({**settings, "results": [asdict(result) for result in results]}))
        return
    print(f"{'':16} {'characters':>12} {'seconds':>9} {'characters/s':>14}")
    for result in results:
        rate = f"{result.characters_per_second:,}"
        print(f"{result.measure:16} {result.characters:12,} {result.seconds:9.3f} {rate:>14}")


if __name__ == "__main__":
    main()
