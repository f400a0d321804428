"""The cases: each spoils a copy of some part of the world and calls the command line on it.

A case is a function of the world and of a random generator, so that its number and a seed name it for good.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from typer.main import get_command

from tests.fuzz.mutations import ODD_NUMBERS, ODD_TEXTS, ODD_VALUES, mutate, odd_lines
from tests.fuzz.world import KINDS, TINY, UPDATES
from tests.interop.original import Shape, checkpoint_of, random_tensors, write_files

SEGMENTAL_SEARCHES = ("marginal", "dynamic", "mixture", "sample", "mbr")


@dataclass
class Case:
    """A call of `ssmt` in a directory of its own."""

    arguments: list[str]
    stdin: bytes = b""
    lines: int | None = None  # of standard output, where the call succeeds
    json: str = ""  # "lines" or "whole", where standard output must be JSON
    untouched: dict[Path, bytes] = field(default_factory=dict)  # files outside of the call's business


Make = Callable[[Path, Path, random.Random], Case]


def _copy(world: Path, place: Path, *names: str) -> None:
    for name in names:
        shutil.copytree(world / name, place / name)


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def _own_files(model: Path) -> list[Path]:
    """What a model is, without the text and the checkpoints of its run."""
    kept = [path for path in _files(model) if not {"data", "checkpoints", "segmented"} & {*path.parts}]
    return [path for path in kept if path.name != "log.jsonl"]


def _count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def text_call(model: str, place: Path, rng: random.Random, source: bytes, target: bytes) -> Case:
    """One of the verbs that answer line by line."""
    (place / "in.source").write_bytes(source)
    (place / "in.target").write_bytes(target)
    as_json = rng.random() < 0.5
    options = ["--json"] if as_json else []
    pre = ["--pretokenised"] if model == "imported" and rng.random() < 0.5 else []
    match rng.choice(["translate", "segment", "score"]):
        case "translate":
            if rng.random() < 0.5:
                names = SEGMENTAL_SEARCHES if model in ("ssmt", "imported") else ("beam", "sample", "mbr")
                options += ["--search", rng.choice(names)]
            options += rng.choice([[], ["--beam", "1"], ["--n-best", "3"], ["--max-length", "12"], ["--int8"]])
            options += rng.choice([[], ["--segmented"]])
            arguments = ["translate", model, "-i", "in.source", *options]
            lines = _count(source)
        case "segment":
            options += rng.choice([[], ["--n-best", "4"], ["--method", "posterior"], ["--posteriors"]])
            options += rng.choice([[], ["--source", "in.source"]]) + rng.choice([[], ["--allow-unknown"]])
            arguments = ["segment", model, "--target", "in.target", *options]
            lines = _count(target)
        case _:
            options += rng.choice([[], ["--best-path"]]) + rng.choice([[], ["--allow-unknown"]])
            arguments = ["score", model, "--source", "in.source", "--target", "in.target", *options]
            lines = _count(target)
    return Case([*arguments, *pre], lines=lines, json="lines" if as_json else "")


SOME_SOURCES, SOME_TARGETS = (
    b"we see a bird.\nI carry 2 cows now.\n",
    b"tibona inyoni.\nnithw\xc3\xa1lako izinkomo ezi-2.\n",
)


def spoilt_model(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice([*KINDS, "imported", "ssmt"])
    _copy(world, place, model)
    if rng.random() < 0.1:  # as models are that others made: without what says that file belongs to file
        (place / model / "model.safetensors").write_bytes(
            (place / model / "model.safetensors").read_bytes().replace(b"checksum", b"checkers")
        )
    if rng.random() < 0.05 and model == "dpe":
        shutil.rmtree(place / model / "segmenter")
        (place / model / "segmenter").symlink_to(rng.choice([".", "../dpe", "nowhere"]))
    else:
        mutate(rng.choice(_own_files(place / model)), rng)
    if rng.random() < 0.15:
        _copy(world, place, "files")
        return Case(
            rng.choice(
                [
                    ["evaluate", "--model", model, "--source", "files/test.source", "--reference", "files/test.target"],
                    ["morphology", "--model", model, "--gold", "files/gold.tsv", "--json", "--threshold", "0.5"],
                    ["report", model, "--sentences", "2", "--samples", "5"],
                    ["doctor"],
                ]
            )
        )
    return text_call(model, place, rng, SOME_SOURCES, SOME_TARGETS)


def spoilt_run(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice(KINDS)
    _copy(world, place, model)
    chosen = [path for path in _files(place / model) if path.suffix in (".safetensors", ".jsonl", ".npy", ".ids")]
    newest = sorted((place / model / "checkpoints").glob("update-*"))[-1:]
    outside = place / "outside.txt"
    outside.write_bytes(b"nothing of the program's\n")
    if rng.random() < 0.15:
        link = place / model / rng.choice(["log.jsonl", "config.json", "model.safetensors", "tensorboard"])
        link.unlink(missing_ok=True)
        link.symlink_to(outside)
    else:
        mutate(rng.choice([*newest * len(chosen), *chosen, *_files(place / model)]), rng)
    arguments = ["train", "--output", model, "--resume", "--max-updates", str(UPDATES + rng.choice([0, 1]))]
    return Case(arguments, untouched={outside: outside.read_bytes()})


def odd_text(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice([*KINDS, "imported"])
    (place / model).symlink_to(world / model)
    source, target = odd_lines(rng), odd_lines(rng)
    if rng.random() < 0.7:  # as many lines on either side
        count = min(_count(source), _count(target))
        source, target = (b"".join(text.splitlines(keepends=True)[:count]) for text in (source, target))
    return text_call(model, place, rng, source, target)


def odd_corpus(world: Path, place: Path, rng: random.Random) -> Case:
    """Odd text in the verbs that read more than a model's lines."""
    _copy(world, place, "files")
    (place / "ssmt").symlink_to(world / "ssmt")
    for path in rng.sample(_files(place / "files"), 2):
        if rng.random() < 0.5:
            path.write_bytes(odd_lines(rng, 30))
        else:
            mutate(path, rng)
    for path in (place / "files").iterdir():  # a user's stream is waited for: that is no hang
        if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 30:
            path.unlink() if not path.is_dir() else path.rmdir()
    return Case(list(rng.choice(_calls())))


def odd_setting(world: Path, place: Path, rng: random.Random) -> Case:
    (place / "files").symlink_to(world / "files")
    settings = list(TINY)
    for _ in range(rng.choice([1, 1, 2])):
        key = rng.choice(_settings())
        value: Any = rng.choice([*ODD_VALUES, *ODD_NUMBERS, *ODD_NUMBERS])
        written = rng.choice([str(value), repr(value), f"[{value}]", "{a: " * 2000, "&a [*a]", "2001-13-01", "1_0"])
        settings.append(f"{key}={str(value) if rng.random() < 0.8 else written}")
    settings += ["training.max_updates=1", f"model={rng.choice(KINDS)}"] if rng.random() < 0.8 else []
    settings = [
        setting for setting in settings if not setting.startswith(("training.max_minutes", "training.patience"))
    ]
    given = [
        part
        for setting in settings
        for part in ("--set", setting.replace("\x00", "").encode("utf-8", "replace").decode())
    ]
    return Case([*_TRAIN, *given])


@cache
def _settings() -> list[str]:
    from ssmt.config import Config, Section

    known = ["model", "text", "nothing", "text.nothing", "a" + ".a" * 3000]
    for name, section in Config.model_fields.items():
        if isinstance(section.default, Section):
            known += [f"{name}.{key}" for key in type(section.default).model_fields]
    return known


_TRAIN = ["train", "--output", "new", "--preset", "tiny"]
for _part in ("", "valid-"):
    for _side in ("source", "target"):
        _TRAIN += [f"--{_part}{_side}", f"files/{'valid' if _part else 'train'}.{_side}"]


ODD_ARGUMENTS = [
    *ODD_TEXTS,
    *(
        "ssmt",
        "bpe",
        "files",
        "files/test.source",
        "nowhere/at/all",
        ".",
        "/",
        "/dev/null",
        "/dev/full",
        "-",
        "x" * 300,
    ),
    *("cpu:00", "cpu:0", "cuda:99", "mps", "cpu:٠", "a=b=c", "=", "{", "1", "-1", "\udcff", "a.png", "out.html"),
    *("paper", "characters", "posterior", "small", "text.lexicon_size=10,20", "network.width=x", "no.such=1,2"),
]


@cache
def _calls() -> list[tuple[str, ...]]:
    """Every verb, as somebody would call it."""
    tiny = [part for setting in TINY for part in ("--set", setting)]
    one = ["--set", "training.max_updates=1"]
    sweep = ["--output", "sweep", "--model", "ssmt", "--beam", 1, 2, "--search", "marginal"]
    grid = ["--output", "sweep", "--grid", "network.feedforward=8,16"]
    test = ["--source", "files/test.source", "--target", "files/test.target"]
    text = [
        "--train",
        "files/train.target",
        "--test-source",
        "files/valid.source",
        "--test-target",
        "files/valid.target",
    ]
    return [
        tuple(map(str, call))
        for call in (
            ["translate", "ssmt", "-i", "files/test.source"],
            ["translate", "ssmt", "-i", "files/test.source", "--search", "sample", "--prefix", "files/test.target"],
            ["segment", "ssmt", *test, "--method", "posterior"],
            ["segment", "ssmt", "--target", "files/test.target"],
            ["score", "ssmt", *test],
            [*_TRAIN, *tiny, *one],
            ["evaluate", "--reference", "files/test.target", "--hypothesis", "a=files/test.source", "--samples", 10],
            ["evaluate", "--reference", "files/test.target", "--model", "ssmt", "--source", "files/test.source"],
            ["evaluate", "--reference", "files/test.target", "--hypothesis", "files/test.source", "files/test.target"],
            [
                "evaluate",
                "--reference",
                "files/test.target",
                "--hypothesis",
                "files/test.source",
                "--subset",
                "files/subset.lines",
            ],
            [
                "morphology",
                "--gold",
                "files/gold.tsv",
                "--model",
                "ssmt",
                "--samples",
                10,
                "--tune-on",
                "files/gold.tsv",
            ],
            ["morphology", "--gold", "files/gold.tsv", "--segmented", "files/segmented.txt"],
            ["compositional", *text, "--output", "subsets", "--morphemes", "files/words.tsv", "--size", 5],
            ["compositional", *text, "--output", "subsets", "--segmenter", "ssmt", "--size", 5],
            ["sweep", "decode", *sweep, "--source", "files/test.source", "--reference", "files/test.target"],
            ["sweep", "train", *_TRAIN[5:], *grid, "--preset", "tiny", *tiny, *one, "--sentences", 2],
            ["report", "ssmt", "--sentences", 2, "--samples", 5, "--gold", "files/gold.tsv"],
            ["demo", "--write-corpus", "corpus", "--sentences", 200, "--held-out", 5],
            ["config"],
            ["doctor"],
        )
    ]


@cache
def _options(verbs: tuple[str, ...]) -> list[tuple[str, bool]]:
    """The options of a verb, and whether each is a switch."""
    from ssmt.cli import app

    command: Any = get_command(app)
    for verb in verbs:
        command = command.commands[verb]
    return [
        (option.opts[0], bool(getattr(option, "is_flag", False)))
        for option in command.params
        if option.opts[0].startswith("--") and option.opts[0] != "--help"
    ]


def odd_option(world: Path, place: Path, rng: random.Random) -> Case:
    for name in ("files", "ssmt", "bpe"):
        (place / name).symlink_to(world / name)
    call = list(rng.choice(_calls()))
    verbs = tuple(call[: 2 if call[0] == "sweep" else 1])
    for _ in range(rng.choice([1, 1, 2])):
        option, is_switch = rng.choice(_options(verbs) or [("--preset", False)])
        if is_switch:
            call.append(option)
            continue
        value = str(rng.choice(ODD_NUMBERS)) if rng.random() < 0.5 else rng.choice(ODD_ARGUMENTS)
        if option in call:
            place_of = call.index(option)
            del call[place_of : place_of + 2]
        call += [option, value.replace("\x00", "")]
    json = "--json" in call and "-o" not in call and "--output" not in call
    return Case(
        call,
        stdin=b"we see.\n",
        json=("lines" if verbs[0] in ("translate", "segment", "score") else "whole") if json else "",
    )


def spoilt_import(world: Path, place: Path, rng: random.Random) -> Case:
    _copy(world, place, "fairseq")
    if rng.random() < 0.5:
        mutate(rng.choice(_files(place / "fairseq")), rng)
    else:
        tensors, options = random_tensors(Shape(), 1), Shape().options()
        if rng.random() < 0.5:
            key = rng.choice(sorted(options))
            options[key] = rng.choice([*ODD_VALUES, torch.zeros(2), torch.tensor(3), {"x": options}])
        if rng.random() < 0.4:
            name = rng.choice(sorted(tensors))
            tensor = tensors[name]
            tensors[name] = rng.choice(
                [
                    *(tensor.to(kind) for kind in (torch.int8, torch.bool, torch.complex64, torch.float64)),
                    *(tensor * float("nan"), tensor[:1], tensor.to_sparse(), tensor.expand(3, *tensor.shape)),
                ]
            )
        content: Any = checkpoint_of(tensors, options, rng.choice(["cfg", "args", "nested"]))
        match rng.randrange(6):
            case 0:
                content["cfg"] = {"model": {}, "task": {}}
                content["cfg"]["model"]["again"] = content["cfg"]["model"]
            case 1:
                content[rng.choice(["cfg", "args", "model"])] = rng.choice(ODD_VALUES)
            case 2:
                content["model"][rng.choice([1, None, ("a",)])] = torch.zeros(1)
            case _:
                pass
        write_files(place / "fairseq", content)
    for path in _files(place / "fairseq"):
        if path.stat().st_size > 1 << 30:
            path.unlink()
    for name in ("model.pt", "dict.en.txt", "char.txt", "lex.txt", "codes"):  # a user's stream is waited for
        path = place / "fairseq" / name
        if path.exists() and not path.is_file() and not path.is_dir():
            path.unlink()
    names = {"checkpoint": "model.pt", "source-dict": "dict.en.txt", "characters": "char.txt", "lexicon": "lex.txt"}
    names |= {"source-codes": "codes"} if rng.random() < 0.5 else {}
    options_given = [part for key, name in names.items() for part in (f"--{key}", f"fairseq/{name}")]
    return Case(["import-fairseq", *options_given, "--output", "new"])


def spoilt_sweep(world: Path, place: Path, rng: random.Random) -> Case:
    """A sweep that goes on in a directory that something has happened to."""
    for name in ("files", "ssmt"):
        (place / name).symlink_to(world / name)
    call = next(list(call) for call in _calls() if call[:2] == ("sweep", "decode"))
    folder = place / "sweep"
    for inner in ("results", "decoded"):
        (folder / inner).mkdir(parents=True)
    (folder / "sweep.json").write_text("{}")
    (folder / "results" / "ssmt.marginal.beam-1.json").write_text('{"model": "ssmt", "beam": 1, "weights": "x"}')
    (folder / "decoded" / "ssmt.marginal.beam-2.jsonl").write_text(
        '{"seconds": 1, "translations": ["a"], "weights": "x"}\n'
    )
    mutate(rng.choice(_files(folder)), rng)
    if rng.random() < 0.7:
        (folder / "sweep.json").unlink(missing_ok=True)
    return Case(call)


SORTS: list[tuple[Make, int]] = [
    (spoilt_model, 30),
    (spoilt_run, 14),
    (odd_text, 18),
    (odd_corpus, 6),
    (odd_setting, 12),
    (odd_option, 16),
    (spoilt_import, 8),
    (spoilt_sweep, 3),
]


def case(number: int, seed: int, world: Path, place: Path, only: str = "") -> tuple[str, Case]:
    """Case `number` of a seed, made in the directory `place`, and of which sort it is."""
    rng = random.Random(f"{seed}/{number}")
    sorts = [(make, weight) for make, weight in SORTS if only in make.__name__]
    make = rng.choices([make for make, _ in sorts], [weight for _, weight in sorts])[0]
    os.makedirs(place, exist_ok=True)
    return make.__name__, make(world, place, rng)
