"""The cases: each spoils a copy of some part of the world and calls the command line on it.

A case is a function of the world and of a random generator, so that its number and a seed name it for good.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import zstandard

from tests.fuzz.calls import ODD_ARGUMENTS, TRAIN, Case, calls, options_of
from tests.fuzz.mutations import (
    ODD_NUMBERS,
    ODD_VALUES,
    mutate,
    odd_lines,
    spoil_bytes,
    spoil_json,
    spoil_lines,
)
from tests.fuzz.world import INTERRUPTED, KINDS, LANGUAGES, SUBSETS, TINY, UPDATES
from tests.interop.original import Shape, checkpoint_of, random_tensors, write_files

SEGMENTAL_SEARCHES = ("marginal", "dynamic", "mixture", "sample", "mbr")


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


def text_call(world: Path, model: str, place: Path, rng: random.Random, source: bytes, target: bytes) -> Case:
    """One of the verbs that answer line by line."""
    (place / "intact").symlink_to(world / model)
    (place / "in.source").write_bytes(source)
    (place / "in.target").write_bytes(target)
    as_json = rng.random() < 0.5
    options = ["--json"] if as_json else []
    pre = ["--pretokenised"] if model == "imported" and rng.random() < 0.5 else []
    pre += ["--to", rng.choice(["xh", "zu", "zu", "ss"])] if model == LANGUAGES and rng.random() < 0.9 else []
    match rng.choice(["translate", "segment", "score"]):
        case "translate":
            if rng.random() < 0.5:
                names = SEGMENTAL_SEARCHES if model in ("ssmt", "imported", LANGUAGES) else ("beam", "sample", "mbr")
                options += ["--search", rng.choice(names)]
            options += rng.choice([[], ["--beam", "1"], ["--n-best", "3"], ["--max-length", "12"], ["--int8"]])
            options += rng.choice([[], ["--segmented"]])
            models = rng.choice([[model], [model], [model], [model, model], [model, "intact"]])
            arguments = ["translate", *models, "-i", "in.source", *options]
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


SERVING = b"Serving "
_SWEPT = ("--source", "files/test.source", "--reference", "files/test.target")
_COMPOSITIONAL = next(call[1 : call.index("--morphemes")] for call in calls() if call[0] == "compositional")
SOME_SOURCES, SOME_TARGETS = (
    b"we see a bird.\nI carry 2 cows now.\n",
    b"tibona inyoni.\nnithw\xc3\xa1lako izinkomo ezi-2.\n",
)


def spoilt_model(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice([*KINDS, "imported", "ssmt", LANGUAGES])
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
    if rng.random() < 0.2:
        _copy(world, place, "files")
        one = ["--set", "training.max_updates=1"]
        return Case(
            rng.choice(
                [
                    ["backtranslate", "--reverse", model, "--target", "files/test.source", "--output", "new.jsonl"],
                    ["train", "--from", model, *TRAIN[1:3], *TRAIN[5:], *one],
                    ["serve", f"en-zu={model}", "--port", "0"],
                    ["evaluate", "--model", model, "--source", "files/test.source", "--reference", "files/test.target"],
                    ["morphology", "--model", model, "--gold", "files/gold.tsv", "--json", "--threshold", "0.5"],
                    ["report", model, "--sentences", "2", "--samples", "5"],
                    ["compositional", *_COMPOSITIONAL, "--segmenter", model, "--size", "5"],
                    ["sweep", "decode", "--output", "sweep", "--model", model, "--beam", "1", *_SWEPT],
                ]
            ),
            ends_after=SERVING,
        )
    return text_call(world, model, place, rng, SOME_SOURCES, SOME_TARGETS)


def spoilt_run(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice([*KINDS, LANGUAGES])
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


def spoilt_preparation(world: Path, place: Path, rng: random.Random) -> Case:
    """A preparation that goes on after an interruption, and after something else."""
    _copy(world, place, INTERRUPTED)
    (place / "files").symlink_to(world / "files")
    outside = place / "outside.txt"
    outside.write_bytes(b"nothing of the program's\n" * 1000)
    chosen = rng.choice(_files(place / INTERRUPTED))
    if rng.random() < 0.2:
        chosen.unlink()
        chosen.symlink_to(outside)
    else:
        mutate(chosen, rng)
    settings = [part for setting in TINY for part in ("--set", setting)]
    call = ["train", "--output", INTERRUPTED, *TRAIN[3:], *settings]
    return Case(call, untouched={outside: outside.read_bytes()})


def odd_text(world: Path, place: Path, rng: random.Random) -> Case:
    model = rng.choice([*KINDS, "imported", LANGUAGES])
    (place / model).symlink_to(world / model)
    source, target = odd_lines(rng), odd_lines(rng)
    if rng.random() < 0.7:  # as many lines on either side
        count = min(_count(source), _count(target))
        source, target = (b"".join(text.splitlines(keepends=True)[:count]) for text in (source, target))
    return text_call(world, model, place, rng, source, target)


def odd_corpus(world: Path, place: Path, rng: random.Random) -> Case:
    """Odd text in the verbs that read more than a model's lines."""
    _copy(world, place, "files")
    for name in ("ssmt", LANGUAGES):
        (place / name).symlink_to(world / name)
    for path in rng.sample(_files(place / "files"), 2):
        if rng.random() < 0.5:
            path.write_bytes(odd_lines(rng, 30))
        else:
            mutate(path, rng)
    if rng.random() < 0.3:
        call = list(rng.choice([call for call in calls() if SUBSETS in call]))
        _copy(world, place, SUBSETS)
        mutate(rng.choice(_files(place / SUBSETS)), rng)
    else:
        call = list(rng.choice(calls()))
        for name in (SUBSETS, "fairseq"):
            (place / name).symlink_to(world / name)
    for path in (place / "files").iterdir():  # a user's stream is waited for: that is no hang
        if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 30:
            path.unlink() if not path.is_dir() else path.rmdir()
    return Case(call, ends_after=SERVING)


def odd_pairs(world: Path, place: Path, rng: random.Random) -> Case:
    """Files of sentence pairs in every format, compressed or not, spoilt before that, after it, or both."""
    (place / "ssmt").symlink_to(world / "ssmt")
    pairs = [
        line.split("\t")[:2] for line in (world / "files" / "train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    ]
    ending, content = _written(pairs, rng)
    if rng.random() < 0.7:
        content = rng.choice([spoil_lines, spoil_bytes])(content, rng)
    pack, packed = rng.choice([*COMPRESSED.items(), ("", bytes)])
    content = packed(content) if rng.random() < 0.95 else _bomb(pack)
    if rng.random() < 0.3:
        content = spoil_bytes(content, rng)
    name = f"text{rng.choice([ending, ending, ''])}{rng.choice([pack, pack, ''])}"
    (place / name).write_bytes(content)
    settings = [part for setting in [*TINY, "training.max_updates=1"] for part in ("--set", setting)]
    settings += rng.choice([[], ["--set", "text.skip_bad_lines=true"]])
    corpora = {part: [{"pairs": name, "source_language": "en", "weight": 2}] for part in ("train", "valid")}
    described = json.dumps({"data": corpora}).encode()
    (place / "corpora.yaml").write_bytes(spoil_json(described, rng) if rng.random() < 0.5 else described)
    return Case(
        rng.choice(
            [
                ["clean", "--pairs", name, "--output", rng.choice(["new.tsv", "new.jsonl"]), "--report", "report.json"],
                ["train", "--output", "new", "--preset", "tiny", "--pairs", name, "--valid-pairs", name, *settings],
                ["train", "--output", "new", "--preset", "tiny", "--config", "corpora.yaml", *settings],
                ["evaluate", "--model", "ssmt", "--pairs", name, "--samples", "0"],
            ]
        )
    )


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@cache
def _bomb(pack: str) -> bytes:
    """Very much in few bytes."""
    zeros = bytes(1 << 28 if pack == ".zst" else 1 << 26)
    return COMPRESSED[pack](zeros) * 8 if pack else zeros


def _written(pairs: list[list[str]], rng: random.Random) -> tuple[str, bytes]:
    """Pairs in some format, by its ending."""
    ending = rng.choice([".tsv", ".jsonl", ".tmx"])
    if ending == ".tsv":
        lines = ["\t".join(pair) for pair in pairs]
    elif ending == ".jsonl":
        records = [{"source": source, "target": target} for source, target in pairs]
        lines = [json.dumps(record) for record in records]
        if rng.random() < 0.5:
            lines[rng.randrange(len(lines))] = spoil_json(json.dumps(rng.choice(records)).encode(), rng).decode()
    else:
        units = [
            f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="zu"><seg>{target}</seg></tuv></tu>'
            for source, target in pairs
        ]
        lines = ['<?xml version="1.0"?>', '<tmx><header srclang="en"/><body>', *units, "</body></tmx>"]
    return ending, "".join(f"{line}\n" for line in lines).encode()


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
    return Case([*TRAIN, *given])


@cache
def _settings() -> list[str]:
    from ssmt.config import Config, Section

    known = ["model", "text", "nothing", "text.nothing", "a" + ".a" * 3000]
    for name, section in Config.model_fields.items():
        if isinstance(section.default, Section):
            known += [f"{name}.{key}" for key in type(section.default).model_fields]
    return known


def odd_option(world: Path, place: Path, rng: random.Random) -> Case:
    for name in ("files", "ssmt", "bpe", LANGUAGES, SUBSETS, "fairseq"):
        (place / name).symlink_to(world / name)
    call = list(rng.choice(calls()))
    verbs = tuple(call[: 2 if call[0] == "sweep" else 1])
    for _ in range(rng.choice([1, 1, 2])):
        option, is_switch = rng.choice(options_of(verbs) or [("--preset", False)])
        if is_switch:
            call.append(option)
            continue
        value = str(rng.choice(ODD_NUMBERS)) if rng.random() < 0.5 else rng.choice(ODD_ARGUMENTS)
        if option in call:
            place_of = call.index(option)
            del call[place_of : place_of + 2]
        call += [option, value.replace("\x00", "")]
    as_json = "--json" in call and "-o" not in call and "--output" not in call
    return Case(
        call,
        stdin=b"we see.\n",
        json=("lines" if verbs[0] in ("translate", "segment", "score") else "whole") if as_json else "",
        ends_after=SERVING,
        full=rng.choice([(1,), (2,), (1, 2)]) if rng.random() < 0.05 else (),
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
    call = next(list(call) for call in calls() if call[:2] == ("sweep", "decode"))
    folder = place / "sweep"
    for inner in ("results", "decoded"):
        (folder / inner).mkdir(parents=True)
    (folder / "sweep.json").write_text("{}")
    finished = {"model": "other", "search": "marginal", "beam": 1, "weights": "x", "seconds": 1.5}
    finished |= {"BLEU": 2.5, "chrF": 3, "signatures": {"BLEU": "a", "chrF": "b"}}
    (folder / "results" / "other.marginal.beam-1.json").write_text(json.dumps(finished))
    (folder / "decoded" / "ssmt.marginal.beam-2.jsonl").write_text(
        '{"seconds": 1, "translations": ["a"], "weights": "x"}\n'
    )
    if rng.random() < 0.7:
        (folder / "sweep.json").unlink()
    mutate(rng.choice(_files(folder)), rng)
    return Case(call)


SORTS: list[tuple[Make, int]] = [
    (spoilt_model, 30),
    (spoilt_run, 14),
    (spoilt_preparation, 4),
    (odd_text, 18),
    (odd_corpus, 6),
    (odd_pairs, 8),
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
