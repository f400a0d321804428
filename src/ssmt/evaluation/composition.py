"""Test subsets that ask for new words made of known morphemes (the paper's section 6 and Appendix C).

Morphemes are *atoms*, words are *compounds*. With relative frequencies p in the training text and q in the test text,

    C_α(p || q) = Σ_k p_k^α q_k^(1-α)                      the Chernoff coefficient
    D_C = 1 - C_0.1 of the words,  D_A = 1 - C_0.5 of the morphemes

and a subset is grown sentence by sentence: of `candidates` sentences drawn at random, add the one that minimises
|D_C - target| + D_A.

    extraction = extract_subsets("train.zu", "test.en", "test.zu", "subsets", morphemes=["words.tsv"])
    print(tables.markdown(as_table(extraction)))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ssmt.errors import UserError
from ssmt.evaluation.morphemes import Sentence, Text, Word, analyse_texts, check_morphemes
from ssmt.evaluation.tables import Cell, Table
from ssmt.files import as_json, name_of, read_json, require_file
from ssmt.outputs import open_in_directory, require_other_file
from ssmt.progress import Reporter
from ssmt.text.lines import read_lines, require_equal_lengths
from ssmt.training.lock import alone

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COMPOUND_ALPHA, ATOM_ALPHA = 0.1, 0.5  # Keysers et al. 2020: do compounds occur at all; do atoms occur equally often
DIVERGENCES = (0.2, 0.3)  # the paper's
ENDINGS = ("source", "target", "lines", "json")  # of a subset's files
_TIE = 1e-12  # objectives that are closer are equal: sums in another order must not decide between sentences


@dataclass(frozen=True)
class Distribution:
    """How often each compound and each atom occurs in a text."""

    compounds: Mapping[str, int]
    atoms: Mapping[str, int]

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Distribution:
        words: Counter[Word] = Counter()
        for sentence in sentences:
            words.update(sentence)
        compounds: Counter[str] = Counter()
        atoms: Counter[str] = Counter()
        for word, count in words.items():
            compounds[word.text] += count
            for morpheme in word.morphemes:
                atoms[morpheme] += count
        return cls(compounds, atoms)


def chernoff_coefficient(p: Mapping[str, int], q: Mapping[str, int], alpha: float) -> float:
    """Similarity of two distributions given as counts: 1 when they are equal, 0 when nothing is common to both."""
    assert 0 < alpha < 1
    if not p or not q:
        return 0.0
    common = [kind for kind in q if kind in p]
    p_common = np.array([p[kind] for kind in common], dtype=np.float64) / sum(p.values())
    q_common = np.array([q[kind] for kind in common], dtype=np.float64) / sum(q.values())
    return float(np.sum(p_common**alpha * q_common ** (1 - alpha)))


def compound_divergence(train: Distribution, test: Distribution) -> float:
    return 1 - chernoff_coefficient(train.compounds, test.compounds, COMPOUND_ALPHA)


def atom_divergence(train: Distribution, test: Distribution) -> float:
    return 1 - chernoff_coefficient(train.atoms, test.atoms, ATOM_ALPHA)


@dataclass(frozen=True)
class Subset:
    """The chosen sentences in the order of their choice, and the divergences after each choice."""

    chosen: tuple[int, ...]  # line numbers of the test set, from 1
    target_divergence: float
    compound_divergences: tuple[float, ...]
    atom_divergences: tuple[float, ...]
    candidates: int
    seed: int

    @property
    def line_numbers(self) -> tuple[int, ...]:
        """In the order of the test set."""
        return tuple(sorted(self.chosen))

    @property
    def compound_divergence(self) -> float:
        return self.compound_divergences[-1]

    @property
    def atom_divergence(self) -> float:
        return self.atom_divergences[-1]


def extract_subset(
    train: Distribution,
    test: Sequence[Sentence],
    *,
    size: int,
    target_divergence: float,
    candidates: int = 100,
    seed: int = 0,
) -> Subset:
    """Greedy extraction (Appendix C). Equal objectives go to the earlier line; a seed gives the same subset again.

    A sentence is chosen at most once. Sentences without words are never drawn: they would change no divergence, and so
    look better than any that does.
    """
    remaining = np.array([index for index, sentence in enumerate(test) if sentence], dtype=np.int64)
    if not train.compounds or not train.atoms:
        raise UserError("The training text has no words, so nothing can be compared with it")
    if not 0 <= target_divergence <= 1:
        raise UserError(f"The target divergence is {target_divergence}, but divergences lie between 0 and 1")
    if size < 1 or candidates < 1:
        raise UserError(f"The subset's size ({size}) and the number of candidates ({candidates}) must be at least 1")
    if size > len(remaining):
        raise UserError(
            f"A subset of {size:,} sentences cannot be taken from a test set of {len(test):,}, "
            f"of which {len(remaining):,} have words. Ask for a smaller subset"
        )
    rng = np.random.default_rng(seed)
    compounds = _GrowingCoefficient(
        train.compounds, [[word.text for word in sentence] for sentence in test], COMPOUND_ALPHA
    )
    atoms = _GrowingCoefficient(
        train.atoms, [[morpheme for word in sentence for morpheme in word.morphemes] for sentence in test], ATOM_ALPHA
    )
    chosen, trajectory = [], []
    for _ in range(size):
        drawn = np.sort(rng.choice(remaining, size=min(candidates, len(remaining)), replace=False))
        d_c, d_a = 1 - compounds.with_each(drawn), 1 - atoms.with_each(drawn)
        objective = np.abs(d_c - target_divergence) + d_a
        best = int(np.argmax(objective <= objective.min() + _TIE))  # the first of equals
        sentence = int(drawn[best])
        compounds.add(sentence)
        atoms.add(sentence)
        remaining = remaining[remaining != sentence]
        chosen.append(sentence + 1)
        trajectory.append((float(d_c[best]), float(d_a[best])))
    d_cs, d_as = zip(*trajectory, strict=True)
    return Subset(tuple(chosen), target_divergence, d_cs, d_as, candidates, seed)


class _GrowingCoefficient:
    """C_α of the training text and a growing subset, where a further sentence costs only the types that occur in it.

    With counts c_k that add up to n, q_k = c_k / n, and so C_α = n^-(1-α) Σ_k p_k^α c_k^(1-α): the sum changes only in
    the terms of the types whose counts change, and the normaliser stands outside of it.
    """

    def __init__(self, train: Mapping[str, int], sentences: Sequence[Sequence[str]], alpha: float) -> None:
        ids: dict[str, int] = {}
        types: list[int] = []
        counts: list[int] = []
        lengths: list[int] = []
        for sentence in sentences:
            occurring = Counter(sentence)
            types += [ids.setdefault(kind, len(ids)) for kind in occurring]
            counts += occurring.values()
            lengths.append(len(occurring))
        total = sum(train.values())
        self.exponent = 1 - alpha
        self.weight = np.array([train.get(kind, 0) / total for kind in ids], dtype=np.float64) ** alpha  # p_k^α
        self.types, self.counts = np.array(types, dtype=np.int64), np.array(counts, dtype=np.float64)
        self.lengths = np.array(lengths, dtype=np.int64)  # types in each sentence
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.totals = np.array([len(sentence) for sentence in sentences], dtype=np.float64)
        self.subset_counts = np.zeros(len(ids))  # c_k
        self.subset_total = 0.0  # n
        self.sum = 0.0  # Σ_k p_k^α c_k^(1-α)

    def with_each(self, sentences: Ints) -> Floats:
        """The coefficient if the subset had each of the sentences in addition, one at a time."""
        total = self.subset_total + self.totals[sentences]
        coefficients = (self.sum + self._gains(sentences)) / np.maximum(total, 1) ** self.exponent
        return np.minimum(coefficients, 1.0)  # rounding can exceed it by a little

    def add(self, sentence: int) -> None:
        self.sum += float(self._gains(np.array([sentence]))[0])
        self.subset_total += float(self.totals[sentence])
        added = slice(self.starts[sentence], self.starts[sentence] + self.lengths[sentence])
        self.subset_counts[self.types[added]] += self.counts[added]

    def _gains(self, sentences: Ints) -> Floats:
        """What each sentence would add to the sum."""
        lengths = self.lengths[sentences]
        owner = np.repeat(np.arange(len(sentences)), lengths)
        first = np.cumsum(lengths) - lengths
        at = np.arange(len(owner)) + np.repeat(self.starts[sentences] - first, lengths)
        types = self.types[at]
        before = self.subset_counts[types]
        terms = self.weight[types] * ((before + self.counts[at]) ** self.exponent - before**self.exponent)
        return np.bincount(owner, terms, minlength=len(sentences)).astype(np.float64)


@dataclass(frozen=True)
class Extraction:
    """Subsets of a test set, and what they were taken from: its size and its divergences."""

    subsets: tuple[Subset, ...]
    sentences: int
    compound_divergence: float
    atom_divergence: float

    def record(self) -> dict[str, Any]:
        """For JSON."""
        whole = {
            "size": self.sentences,
            "compound_divergence": self.compound_divergence,
            "atom_divergence": self.atom_divergence,
        }
        return {"test_set": whole, "subsets": [as_dict(subset) for subset in self.subsets]}


def extract_subsets(
    train: str | Path,
    test_source: str | Path,
    test_target: str | Path,
    output: str | Path,
    *,
    morphemes: Sequence[str | Path] = (),
    segmenter: str | Path | None = None,
    to: str | None = None,
    target_divergences: Iterable[float] = DIVERGENCES,
    size: int = 300,
    candidates: int = 100,
    seed: int = 0,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Extraction:
    """Take a subset of the test set for each divergence from the training text's target side, and write them all.

    Where morphemes come from is `analyse_texts`' business.
    """
    reporter = reporter or Reporter()
    target_divergences = list({_stem(output, divergence): divergence for divergence in target_divergences}.values())
    check_morphemes(morphemes, segmenter)
    for divergence in target_divergences:
        for ending in ENDINGS:
            require_other_file(f"{_stem(output, divergence)}.{ending}", train, test_source, test_target, *morphemes)
    if len(morphemes) == 2:  # these are read again, line by line with their morphemes
        require_file(train)
        require_file(test_target)
    training, target = Text.read(train), Text.read(test_target)
    source = read_lines(test_source)
    require_equal_lengths(test_source, len(source), test_target, len(target.lines))
    with alone(Path(output)):
        train_sentences, test_sentences = analyse_texts(
            training,
            target,
            morphemes=morphemes,
            segmenter=segmenter,
            to=to,
            seed=seed,
            device=device,
            reporter=reporter,
        )
        seen, whole = Distribution.of(train_sentences), Distribution.of(test_sentences)
        subsets = [
            extract_subset(
                seen, test_sentences, size=size, target_divergence=divergence, candidates=candidates, seed=seed
            )
            for divergence in target_divergences
        ]
        for subset in subsets:
            stem = write_subset(output, subset, source, target.lines)
            reporter.say(f"Written: {stem}.source, .target, .lines, .json")
    return Extraction(tuple(subsets), len(target.lines), compound_divergence(seen, whole), atom_divergence(seen, whole))


def as_dict(subset: Subset) -> dict[str, Any]:
    """For JSON."""
    return {
        "size": len(subset.chosen),
        "target_divergence": subset.target_divergence,
        "compound_divergence": subset.compound_divergence,
        "atom_divergence": subset.atom_divergence,
        "compound_alpha": COMPOUND_ALPHA,
        "atom_alpha": ATOM_ALPHA,
        "candidates": subset.candidates,
        "seed": subset.seed,
        "chosen": list(subset.chosen),
        "trajectory": {
            "compound_divergence": list(subset.compound_divergences),
            "atom_divergence": list(subset.atom_divergences),
        },
    }


def as_table(extraction: Extraction) -> Table:
    """The divergences of the test set and of its subsets."""
    first = extraction.subsets[0]
    rows = [("whole test set", extraction.sentences, "", extraction.compound_divergence, extraction.atom_divergence)]
    for subset in extraction.subsets:
        target = f"{subset.target_divergence:g}"
        rows.append(
            (f"divergence-{target}", len(subset.chosen), target, subset.compound_divergence, subset.atom_divergence)
        )
    cells = tuple(
        (Cell(name), Cell(f"{size:,}"), Cell(target), Cell(f"{d_c:.3f}"), Cell(f"{d_a:.3f}"))
        for name, size, target, d_c, d_a in rows
    )
    notes = (
        f"Chernoff coefficients with alpha {COMPOUND_ALPHA} for words and {ATOM_ALPHA} for morphemes. "
        f"{first.candidates} candidates, seed {first.seed}.",
    )
    columns = ("Subset", "Sentences", "Wanted", "Words", "Morphemes")
    return Table(columns, cells, "Divergence from the training text", notes)


def read_subset(path: str | Path) -> Subset:
    """What `write_subset` wrote, from its `.json`."""
    try:
        record = read_json(Path(path))
        if not record["chosen"]:
            raise ValueError("no sentence")
        return Subset(
            chosen=tuple(map(int, record["chosen"])),
            target_divergence=float(record["target_divergence"]),
            compound_divergences=tuple(map(float, record["trajectory"]["compound_divergence"])),
            atom_divergences=tuple(map(float, record["trajectory"]["atom_divergence"])),
            candidates=int(record["candidates"]),
            seed=int(record["seed"]),
        )
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"{name_of(path)}: is not a subset written by `ssmt compositional`") from None


def write_subset(directory: str | Path, subset: Subset, source: Sequence[str], target: Sequence[str]) -> Path:
    """Write `divergence-0.2.source`, `.target`, `.lines` and `.json` for a target divergence of 0.2, in file order.

    Returns the path that the four have in common, without their endings.
    """
    require_equal_lengths("the test set's source", len(source), "its target", len(target))
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made a directory ({error.strerror})") from None
    stem = _stem(directory, subset.target_divergence)
    contents = (
        [source[number - 1] for number in subset.line_numbers],
        [target[number - 1] for number in subset.line_numbers],
        [str(number) for number in subset.line_numbers],
        [as_json(as_dict(subset), indent=2)],
    )
    for ending, lines in zip(ENDINGS, contents, strict=True):
        with open_in_directory(Path(f"{stem}.{ending}")) as stream:
            stream.writelines(f"{line}\n" for line in lines)
    return stem


def _stem(directory: str | Path, divergence: float) -> Path:
    return Path(directory) / f"divergence-{divergence:g}"
