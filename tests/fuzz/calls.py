"""Every verb as somebody would call it, and what else a person might write there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from tests.fuzz.mutations import ODD_TEXTS
from tests.fuzz.world import LANGUAGES, SUBSETS, TINY


@dataclass
class Case:
    """A call of `ssmt` in a directory of its own."""

    arguments: list[str]
    stdin: bytes = b""
    lines: int | None = None  # of standard output, where the call succeeds
    json: str = ""  # "lines" or "whole", where standard output must be JSON
    untouched: dict[Path, bytes] = field(default_factory=dict)  # files outside of the call's business
    ends_after: bytes = b""  # what it says when it is to be ended, where it would not end itself
    full: tuple[int, ...] = ()  # its streams that nothing can be written to


TRAIN = ["train", "--output", "new", "--preset", "tiny"]
for _part in ("", "valid-"):
    for _side in ("source", "target"):
        TRAIN += [f"--{_part}{_side}", f"files/{'valid' if _part else 'train'}.{_side}"]


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
def calls() -> list[tuple[str, ...]]:
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
    subset = ["--subset", SUBSETS, "--samples", 5]
    of_report = ["--source", "files/valid.source", "--reference", "files/valid.target"]
    names = {"checkpoint": "model.pt", "source-dict": "dict.en.txt", "characters": "char.txt", "lexicon": "lex.txt"}
    original = [part for key, name in names.items() for part in (f"--{key}", f"fairseq/{name}")]
    return [
        tuple(map(str, call))
        for call in (
            ["translate", "ssmt", "-i", "files/test.source"],
            ["translate", "ssmt", "-i", "files/test.source", "--search", "sample", "--prefix", "files/test.target"],
            ["segment", "ssmt", *test, "--method", "posterior"],
            ["segment", "ssmt", "--target", "files/test.target"],
            ["score", "ssmt", *test],
            [*TRAIN, *tiny, *one],
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
            ["sweep", "train", *TRAIN[5:], *grid, "--preset", "tiny", *tiny, *one, "--sentences", 2],
            ["report", "ssmt", "--sentences", 2, "--samples", 5, "--gold", "files/gold.tsv"],
            ["demo", "--write-corpus", "corpus", "--sentences", 500, "--held-out", 5],
            ["clean", *TRAIN[5:9], "--output", "new.tsv", "--report", "report.json", "--rejected", "no.jsonl"],
            ["clean", "--pairs", "files/train.tsv", "--output-source", "new.a", "--output-target", "new.b"],
            ["backtranslate", "--reverse", "ssmt", "--target", "files/test.source", "--output", "new.jsonl"],
            ["translate", "ssmt", "ssmt", "-i", "files/test.source"],
            ["translate", LANGUAGES, "--to", "xh", "-i", "files/test.source"],
            ["evaluate", "--model", LANGUAGES, "--pairs", "files/test.tsv", "--samples", 10],
            ["train", "--from", "ssmt", *TRAIN[1:3], *TRAIN[5:], *one],
            ["train", *TRAIN[1:5], "--pairs", "files/train.tsv", "--valid-pairs", "files/valid.tsv", *tiny, *one],
            ["evaluate", "--reference", "files/valid.target", "--hypothesis", "files/valid.source", *subset],
            ["report", "ssmt", *of_report, "--compositional", SUBSETS, "--sentences", 2, "--samples", 5],
            ["serve", "en-zu=ssmt", LANGUAGES, "--port", 0, "--api-keys", "files/keys"],
            ["api-key", "keys", "weblate"],
            ["import-fairseq", *original, "--output", "new"],
            ["config"],
            ["doctor"],
        )
    ]


@cache
def options_of(verbs: tuple[str, ...]) -> list[tuple[str, bool]]:
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
