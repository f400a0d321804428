"""Documentation that is executed cannot rot: the commands and the Python of the pages, the notebook, the references.

A page's blocks run in their order in one scratch directory; only what `SMALLER` lists is changed, so that minutes of
training become seconds. Commands that install something are taken as done.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.run import get_args_parser

from ssmt.cli import app
from ssmt.config import compose
from ssmt.demo import make_corpus, write_corpus
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from tests.preloaded import preloaded_ssmt

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
EXECUTED = ["README.md", "docs/tutorial.md", "docs/python.md"]

FEWEST = {"sentences": 500, "held_out": 20}  # of the demo corpus
TINY = (
    "--set text.source_vocabulary=300 --set text.subword_vocabulary=500 --set text.lexicon_size=300 "
    "--set network.width=32 --set network.heads=2 --set network.feedforward=64 "
    "--set network.encoder_layers=1 --set network.decoder_layers=1 --set training.chrf_sentences=4"
)
# What a page says, and what is run instead.
SMALLER = {
    "--preset tiny --max-minutes 15": f"--preset tiny --max-updates 20 {TINY}",
    'preset="tiny", max_minutes=15': f'preset="tiny", max_updates=20, settings={TINY.split()[1::2]}',
    "--write-corpus corpus": f"--write-corpus corpus --sentences {FEWEST['sentences']} --held-out {FEWEST['held_out']}",
    'write_corpus("corpus")': f'write_corpus("corpus", {FEWEST["sentences"]}, held_out={FEWEST["held_out"]})',
    'settings=["training.max_minutes=15"]': f"settings={['training.max_updates=20', *TINY.split()[1::2]]}",
}
# Of all programs, of TensorBoard, of the original implementation, of mypy, of benchmarks.
TORCHRUN_OPTIONS = {option for action in get_args_parser()._actions for option in action.option_strings}
SLURM_OPTIONS = {"--job-name", "--nodes", "--ntasks-per-node", "--gpus-per-node", "--cpus-per-task", "--time"}
SLURM_OPTIONS |= {"--signal", "--requeue"}
FOREIGN_OPTIONS = {
    "--help",
    *TORCHRUN_OPTIONS,
    *SLURM_OPTIONS,
    "--logdir",
    "--presets",  # of benchmarks
    *("--normalize-type", "--average-next-scores", "--min-len", "--max-len-b", "--decoding"),
    "--strict",
    *("--searches", "--beams", "--figure", "--figures", "--cpu-time", "--seeds"),  # of scripts
    *("--models", "--interrupt", "--updates", "--repetitions"),
}
MEASURED_FIGURES = {"growth.svg", "transfer.svg"}  # drawn from what was measured, by benchmarks/
# Functions take precedence over programs and over the shell's own `source`: these do nothing.
TAKEN_AS_DONE = "\n".join(f"{name}() {{ :; }}" for name in ("make", "pip", "source"))


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """The fenced blocks of a page: line number, language, content."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, block.start()) + 1, block[1], block[2]


def made_smaller(text: str) -> str:
    for said, instead in SMALLER.items():
        text = text.replace(said, instead)
    return text


def write_files_of_the_readme(directory: Path) -> None:
    """The files that the README takes for granted, from the demo corpus. One more pair has the letters of its words."""
    corpus = make_corpus(FEWEST["sentences"], held_out=FEWEST["held_out"])
    sets = {
        "train": [*((pair.english, pair.target) for pair in corpus.train), ("I understand.", "Ngiyaqonda.")],
        "dev": [(pair.english, pair.target) for pair in corpus.dev],
        "test": [(pair.english, pair.target) for pair in corpus.test],
    }
    for name, pairs in sets.items():
        for ending, side in zip(("en", "zu"), zip(*pairs, strict=True), strict=True):
            (directory / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    (directory / "other.out").write_text((directory / "test.zu").read_text(encoding="utf-8").lower(), encoding="utf-8")


def run_in_shell(commands: str, program: Path, where: str) -> None:
    environment = os.environ | {"PATH": os.pathsep.join([str(program), str(BIN), os.environ["PATH"]])}
    script = f"set -eu\n{TAKEN_AS_DONE}\n{commands}"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{where} ends with status {done.returncode}:\n{commands}\n{done.stdout}{done.stderr}"


def run_script(name: str, *arguments: str | Path) -> None:
    """A script of docs/."""
    subprocess.run([sys.executable, ROOT / "docs" / name, *arguments], check=True)


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The directory of a `ssmt` that starts at once: the pages call it about twenty times."""
    with preloaded_ssmt() as directory:
        yield directory


@pytest.mark.parametrize("name", EXECUTED)
def test_every_block_of_the_page_runs(
    name: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "README.md":
        write_files_of_the_readme(tmp_path)
    namespace: dict[str, Any] = {"__name__": name}
    for number, language, content in blocks(ROOT / name):
        where = f"{name}, line {number}"
        if language == "sh":
            run_in_shell(made_smaller(content), program, where)
        elif language == "python":
            exec(compile(made_smaller(content), where, "exec"), namespace)


def test_notebook_runs(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(ROOT / "docs" / "quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source = f"MINUTES = 0.03; SENTENCES = {FEWEST['sentences']}"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds, "coloured segments and a plot"


def test_figures_of_the_pages_can_be_drawn(tmp_path: Path) -> None:
    """From any model that knows the letters of their example."""
    write_corpus(tmp_path / "corpus", **FEWEST)
    files = TrainingFiles(*(tmp_path / "corpus" / name for name in ("train.en", "train.art", "dev.en", "dev.art")))
    config = compose("tiny", settings=["training.max_updates=1", *TINY.split()[1::2]])
    run.begin(files, tmp_path / "run", config, Reporter())
    run.train(tmp_path / "run", torch.device("cpu"), Reporter())
    run_script("figures/make.py", tmp_path / "run", "--output", tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.svg")} | MEASURED_FIGURES
    there = {path.name for path in (ROOT / "docs" / "figures").glob("*.svg")}
    assert drawn == {name for name in there if not name.startswith("results-")}, (
        "those are drawn by benchmarks/results.py"
    )


@pytest.mark.parametrize(
    "commands", ["ssmt translat", "ssmt translate nowhere", "ssmt config --preset huge", "nonsense"]
)
def test_wrong_commands_are_noticed(commands: str, program: Path) -> None:
    with pytest.raises(AssertionError, match="the page ends with status"):
        run_in_shell(commands, program, "the page")


def test_nothing_is_made_smaller_that_no_page_says() -> None:
    said = "".join(content for name in EXECUTED for _, _, content in blocks(ROOT / name))
    assert [text for text in SMALLER if text not in said] == []


def options_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


def test_the_readme_lists_every_verb() -> None:
    from typer.main import get_command

    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The verbs")[2].partition("\n## ")[0]
    listed = [verb for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for verb in re.findall("`(.*?)`", row)]
    assert sorted(listed) == sorted(get_command(app).commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_speaks_of_options_and_files_that_exist(page: Path) -> None:
    from typer.main import get_command

    text = page.read_text(encoding="utf-8")
    known = {*options_of(get_command(app)), *FOREIGN_OPTIONS}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)) - known == set()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_configuration_reference_is_up_to_date(tmp_path: Path) -> None:
    run_script("configuration.py", "--output", tmp_path / "configuration.md")
    kept, written = ((folder / "configuration.md").read_text(encoding="utf-8") for folder in (ROOT / "docs", tmp_path))
    assert kept == written, "docs/configuration.md is out of date: run `make docs`"
