"""`ssmt demo`: the program at its main job, on the embedded corpus."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from ssmt.cli.results import write_results
from ssmt.cli.shared import DeviceOption, TrainingThreadsOption, Verb, app, exit_status, reporter, set_threads
from ssmt.demo.corpus import FEWEST_SENTENCES, HELD_OUT, SEED, SENTENCES, SOURCE, TARGET, ensure_corpus
from ssmt.demo.settings import CORPUS, MODELS
from ssmt.errors import Stopped
from ssmt.progress import print_wrapped

if TYPE_CHECKING:
    from ssmt.demo.comparison import Measured

EXAMPLES = 5


@app.command(cls=Verb)
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the corpus, the models and the report go.")
    ] = Path("demo"),
    write_corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Only write the corpus, as text files, and leave.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=FEWEST_SENTENCES, max=100_000, metavar="N", help="Sentence pairs to train on.")
    ] = SENTENCES,
    held_out: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Sentence pairs to validate on, and of each of two test sets."
        ),
    ] = HELD_OUT,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the corpus and of both trainings.")] = SEED,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="N",
            help="Stop each training after N minutes, for a quick look: its numbers mean nothing yet.",
            show_default="when all updates are made",
        ),
    ] = None,
    threads: TrainingThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """See it work: train SSMT and BPE, translate, compare. Ten minutes on an idle laptop, more on a busy one.

    The corpus is English and an artificial language. Its words are built like those of isiZulu and isiXhosa, its stems
    are invented, nobody speaks it: the numbers say nothing about a real language. Both models have the same size, and
    BPE the longer training. How long they take here is said after the first seconds. Ctrl-C stops; the same command
    goes on, and a model that is trained is not trained again.
    """
    if write_corpus is not None:
        written = ensure_corpus(write_corpus, sentences, seed, held_out=held_out)
        reporter.say(f"{'Written' if written else 'There already'}: {write_corpus}, a corpus of an artificial language")
        return

    from ssmt.demo.comparison import as_table, compare

    set_threads(threads)
    try:
        comparison = compare(
            output,
            sentences=sentences,
            held_out=held_out,
            seed=seed,
            minutes=max_minutes,
            device=device,
            reporter=reporter,
        )
    except Stopped as stop:
        reporter.say(f"{stop}. The same command goes on from here")
        raise typer.Exit(exit_status(stop.signal)) from None
    console = Console(highlight=False, soft_wrap=True)
    _print_examples(console, comparison.measured[0])
    write_results([as_table(comparison.models, comparison.measured)], {}, "terminal")
    if comparison.unfinished:
        reporter.warn("stopped early, so these numbers mean nothing yet; without --max-minutes the demo goes on")
    _print_what_next(console, output / CORPUS, output / "ssmt", comparison.page)


def _print_examples(console: Console, measured: Measured) -> None:
    """A few translations with their segments, beside the reference with its morphemes."""
    examples = measured.examples(EXAMPLES)
    counted = f"{len(examples)} of {len(measured.gold.lines)} unseen sentences ({measured.split}), evenly spaced"
    print_wrapped(console, f"\n{counted}\n", "bold")
    width = max(map(len, (*MODELS, "reference")))
    for example in examples:
        print_wrapped(console, f"  {'English':{width}}  {example.line.source}", "dim")
        print_wrapped(console, f"  {'reference':{width}}  {example.reference}")
        for name, translation in example.translations.items():
            right = translation.text == example.line.text
            written = f"  {name:{width}}  {translation.joined('-')}{'  (right)' if right else ''}"
            print_wrapped(console, written, "green" if right else None)
        console.print()
    cuts = "  - is a cut: in the reference between morphemes, in a translation between segments\n"
    print_wrapped(console, cuts, "dim")


def how_to_call() -> str:
    """How to call this program again, as somebody would type it."""
    if shutil.which("ssmt"):
        return "ssmt"
    called = Path(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m ssmt" if called.name == "__main__.py" else shlex.quote(str(called))


def _print_what_next(console: Console, corpus: Path, model: Path, page: Path | None) -> None:
    """Commands are not broken into lines: they are copied from here."""
    program = how_to_call()
    at, source, target = (
        shlex.quote(str(path)) for path in (model, corpus / f"test.{SOURCE}", corpus / f"test.{TARGET}")
    )
    own = "--source train.en --target train.xx --valid-source dev.en --valid-target dev.xx"
    parts = [
        *(["  Curves, scores and coloured segmentations, for a browser:"] if page else []),
        *([f"    {page.resolve().as_uri()}\n"] if page else []),
        "  Try the model that learned to cut:",
        f'    echo "The chief has seen the small goats." | {program} translate {at} --segmented',
        f"    {program} segment {at} --source {source} --target {target}\n",
        "  With your own files, where line i of one is the translation of line i of",
        "  the other:",
        f"    {program} train {own} \\",
        "        --output runs/mine --max-minutes 60",
        f"    {program} translate runs/mine -i test.en -o test.out",
        f"    {program} evaluate --reference test.xx --hypothesis mine=test.out",
    ]
    console.print("What to type next\n", style="bold")
    for part in parts:
        console.print(Text(part))
