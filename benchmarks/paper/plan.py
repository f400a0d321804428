"""What each table and figure takes: runs, and the jobs that train, translate and segment with them, in their order.

Everything is kept below one directory:

    MINUTES-minutes/LANGUAGE/SYSTEM-SEED/            a run, as `ssmt train` leaves it
    MINUTES-minutes/LANGUAGE/SYSTEM-SEED/measured/   what was measured with its model, a JSON file a job
    subsets/LANGUAGE.SPLIT.SIZE.DIVERGENCES/         the subsets of Figure 3
    texts/                                           what was measured on
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from paper import systems
from paper.systems import System
from ssmt.config import Config
from ssmt.registry import KINDS
from ssmt.search.table import SEARCHES

TABLES = ("headline", "3", "4", "5+6", "7", "figure3", "figure4")


@dataclass(frozen=True)
class Options:
    """What was asked for besides the tables."""

    seeds: tuple[int, ...] = (1, 2, 3)
    minutes: float = 60.0
    short_minutes: float = 20.0  # of Table 4 and Figure 4, whose runs are compared only with one another
    split: str = "test"
    settings: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        """Of everything but the headline."""
        return self.seeds[0]


@dataclass(frozen=True)
class Run:
    """A training run: a system on a language's text, for so many minutes of CPU time, by a seed."""

    language: str
    system: str
    seed: int
    minutes: float
    config: Config

    @property
    def name(self) -> str:
        return f"{self.language} {self.system}, seed {self.seed}, {self.minutes:g} minutes"

    def directory(self, output: Path) -> Path:
        return output / f"{self.minutes:g}-minutes" / self.language / f"{self.system}-{self.seed}"

    def measured(self, output: Path, what: str) -> Path:
        return self.directory(output) / "measured" / f"{what}.json"


class Job(ABC):
    """Something that is done once: it is over when its file is there, which appears when it is complete."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def language(self) -> str: ...

    @abstractmethod
    def result(self, output: Path) -> Path: ...

    @property
    def needs(self) -> tuple[Job, ...]:
        return ()


@dataclass(frozen=True)
class OfRun(Job):
    """A job of a run."""

    run: Run

    @property
    def language(self) -> str:
        return self.run.language


@dataclass(frozen=True)
class Train(OfRun):
    @property
    def name(self) -> str:
        return f"{self.run.name}, trained"

    def result(self, output: Path) -> Path:
        return self.run.measured(output, "run")


@dataclass(frozen=True)
class Translate(OfRun):
    """`sentences`: the first of the text; none: all. `tuned`: by the length penalty with which the run's model comes
    nearest to as many words as the references of the validation text have; `tuned_as`: by the penalty that was found
    for that job."""

    split: str
    search: str | None
    beam: int
    length_penalty: float | None
    repetition_penalty: float | None = None
    sentences: int | None = None
    tuned: bool = False
    tuned_as: Translate | None = None

    @property
    def name(self) -> str:
        return f"{self.run.name}, {self.split} by {self.how}"

    @property
    def search_name(self) -> str:
        return self.search or KINDS[self.run.config.model].searches[0]

    @property
    def how(self) -> str:
        beam = f" {self.beam}" if SEARCHES[self.search_name].has_beam else ""
        said = "".join(f", {name} penalty {value}" for name, value in self.penalties.items())
        return f"{self.search_name}{beam}{said}"

    @property
    def penalties(self) -> dict[str, str]:
        """Those of the search, also where they are its own: a result must not change its meaning with a default."""
        search = SEARCHES[self.search_name]
        given = {"length": self.length_penalty, "repetition": self.repetition_penalty}
        values = {
            name: f"{getattr(search, f'{name}_penalty') if value is None else value:g}"
            for name, value in given.items()
            if f"{name}_penalty" in search.own_options
        }
        return values | ({"length": "tuned"} if self.tuned or self.tuned_as else {})

    def result(self, output: Path) -> Path:
        parts = [self.split, self.search_name]
        parts += [f"beam-{self.beam}"] if SEARCHES[self.search_name].has_beam else []
        parts += [f"{name}-{value}" for name, value in self.penalties.items()]
        parts += [f"first-{self.sentences}"] if self.sentences is not None else []
        return self.run.measured(output, ".".join(parts))

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Train(self.run), *([self.tuned_as] if self.tuned_as else []))


@dataclass(frozen=True)
class Segment(OfRun):
    """Gold sentences are cut and compared with their morphemes."""

    @property
    def name(self) -> str:
        return f"{self.run.name}, morphemes"

    def result(self, output: Path) -> Path:
        return self.run.measured(output, "morphemes")

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Train(self.run),)


@dataclass(frozen=True)
class Extract(Job):
    """Subsets of a test set that ask for new words of known morphemes."""

    target: str
    split: str
    size: int
    divergences: tuple[float, ...]

    @property
    def language(self) -> str:
        return self.target

    @property
    def name(self) -> str:
        return f"{self.language}, subsets of {self.split}"

    def result(self, output: Path) -> Path:
        wanted = "-".join(f"{divergence:g}" for divergence in self.divergences)
        return output / "subsets" / f"{self.language}.{self.split}.{self.size}.{wanted}" / "extraction.json"


# Each table is a mapping from what its cells are called to the jobs that fill them. The document reads the same
# mappings, so that what is trained is what is shown.


def run_of(
    system: System, language: str, options: Options, seed: int | None = None, minutes: float | None = None
) -> Run:
    seed, minutes = options.seed if seed is None else seed, options.minutes if minutes is None else minutes
    return Run(language, system.name, seed, minutes, system.config(minutes, seed, options.settings))


def translation(system: System, run: Run, split: str, tuned: bool = False) -> Translate:
    penalties = system.length_penalty, system.repetition_penalty
    return Translate(run, split, system.search, system.beam, *penalties, tuned=tuned)


def headline(options: Options) -> dict[tuple[str, int, str], Translate]:
    """By language, seed and system: the comparison that matters most."""
    return {
        (language, seed, system.name): translation(system, run_of(system, language, options, seed), options.split, True)
        for seed, language, system in product(options.seeds, systems.HEADLINE, (systems.BPE, systems.SSMT))
    }


def aside(options: Options) -> dict[tuple[str, int, str], Translate]:
    """The same models on text of other kinds, by language, seed and system."""
    return {
        (language, seed, system): replace(job, split=systems.ASIDE[language], tuned=False, tuned_as=job)
        for (language, seed, system), job in headline(options).items()
        if language in systems.ASIDE
    }


def table3(options: Options) -> dict[tuple[str, str], Translate]:
    """By language and system."""
    return {
        (language, system.name): translation(system, run_of(system, language, options), options.split, True)
        for pair in ((systems.BPE, systems.SSMT), (systems.ULM, systems.DPE))
        for language, system in product(systems.LANGUAGES, pair)
    }


def table4(options: Options) -> dict[str, Translate]:
    """By the row's name; on the validation text, as in the paper."""
    runs = {
        row: run_of(system, systems.ABLATION_LANGUAGE, options, minutes=options.short_minutes)
        for row, system in systems.ABLATION.items()
    }
    return {row: translation(system, runs[row], "dev") for row, system in systems.ABLATION.items()}


def tables5and6(options: Options) -> dict[tuple[str, str], Segment]:
    """By language and system."""
    return {
        (language, system.name): Segment(run_of(system, language, options))
        for language, system in product(systems.MORPHOLOGY, systems.SYSTEMS.values())
    }


def table7(options: Options) -> dict[tuple[str, int], Translate]:
    """By search and beam; on the validation text, as in the paper."""
    run = run_of(systems.SSMT, systems.BEAM_LANGUAGE, options)
    return {
        (search, beam): Translate(run, "dev", search, beam, None, sentences=systems.BEAM_SENTENCES)
        for search, beam in product(systems.BEAM_SEARCHES, systems.BEAMS)
    }


def minimum_risk(options: Options) -> Translate:
    """Ours beside Table 7."""
    run = run_of(systems.SSMT, systems.BEAM_LANGUAGE, options)
    return Translate(run, "dev", systems.MINIMUM_RISK, systems.SSMT.beam, None, sentences=systems.BEAM_SENTENCES)


def figure3(options: Options) -> tuple[Extract, dict[str, Translate]]:
    """The subsets, and the systems that translate them."""
    language = systems.SUBSET_LANGUAGE
    translations = {system: job for (of, system), job in table3(options).items() if of == language}
    return Extract(language, options.split, systems.SUBSET_SIZE, systems.DIVERGENCES), translations


def figure4(options: Options) -> dict[tuple[int, int, str], Translate]:
    """By layers, vocabulary and system; on the validation text."""
    return {
        (layers, vocabulary, system.name): translation(
            system,
            run_of(
                systems.of_grid(system, layers, vocabulary),
                systems.GRID_LANGUAGE,
                options,
                minutes=options.short_minutes,
            ),
            "dev",
        )
        for layers, vocabulary, system in product(systems.GRID_LAYERS, systems.GRID_VOCABULARIES, systems.GRID_SYSTEMS)
    }


@dataclass(frozen=True)
class Plan:
    """Jobs in the order in which they are worth doing, each after what it needs; and the trainings that run side by
    side, because they are to be compared."""

    jobs: tuple[Job, ...]
    partners: dict[Train, Train]


def plan_of(
    options: Options,
    tables: Sequence[str] = TABLES,
    languages: Collection[str] = tuple(systems.LANGUAGES),
    with_aside: Collection[str] = tuple(systems.ASIDE),
) -> Plan:
    """`with_aside`: the languages that have text of other kinds."""
    chosen: dict[Job, None] = {}
    partners: dict[Train, Train] = {}

    def add(jobs: Iterable[Job]) -> None:
        """Those that are not there yet; of their trainings, each two that follow each other are partners."""
        wanted = [one for job in jobs if job.language in languages for one in (*job.needs, job)]
        new = [job for job in dict.fromkeys(wanted) if job not in chosen]
        trainings = [job for job in new if isinstance(job, Train)]
        for one, other in zip(trainings[::2], trainings[1::2], strict=False):
            partners.update({one: other, other: one})
        chosen.update(dict.fromkeys(new))

    compared = (systems.BPE.name, systems.SSMT.name)
    morphemes = tables5and6(options) if "5+6" in tables else {}
    others = {key: job for key, job in aside(options).items() if "headline" in tables and job.language in with_aside}
    for language in systems.HEADLINE:
        if "headline" in tables or "3" in tables:
            add(job for (of, seed, _), job in headline(options).items() if (of, seed) == (language, options.seed))
        add(job for (of, seed, _), job in others.items() if (of, seed) == (language, options.seed))
        add(job for (of, system), job in morphemes.items() if of == language and system in compared)
    if "headline" in tables:
        add(headline(options).values())
        add(others.values())
    if "3" in tables:
        add(table3(options).values())
    add(morphemes.values())
    if "4" in tables:
        add(table4(options).values())
    if "figure3" in tables:
        subsets, translations = figure3(options)
        add([subsets, *translations.values()])
    if "7" in tables:
        add([*table7(options).values(), minimum_risk(options)])
    if "figure4" in tables:
        add(figure4(options).values())
    return Plan(tuple(chosen), partners)
