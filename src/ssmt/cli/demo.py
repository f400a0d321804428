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
from ssmt.cli.shared import DeviceOption, ThreadsOption, app, exit_status, reporter, set_threads
from ssmt.demo.corpus import FEWEST_SENTENCES, HELD_OUT, SEED, SENTENCES, SOURCE, TARGET, ensure_corpus
from ssmt.demo.settings import MINUTES, MODELS, config_of

if TYPE_CHECKING:
    from ssmt.demo.comparison import Measured

EXAMPLES = 5


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the corpus, the models and the report go.")
    ] = Path("demo"),
    write_corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Only write the corpus, as text files, and leave.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=FEWEST_SENTENCES, metavar="N", help="Sentence pairs to train on.")
    ] = SENTENCES,
    held_out: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sentence pairs to validate on, and of each of two test sets.")
    ] = HELD_OUT,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the corpus and of both trainings.")] = SEED,
    minutes: Annotated[float, typer.Option(min=0.001, metavar="N", help="Training time of each model.")] = MINUTES,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """See it work, in about five minutes: train SSMT and BPE, translate, compare.

    The corpus is English and an artificial language. Its words are built like those of isiZulu and isiXhosa, its stems
    are invented, nobody speaks it: the numbers say nothing about a real language. Both models have the same size and
    the same time. Ctrl-C stops; the same command goes on, and a model that is trained is not trained again.
    """
    if write_corpus is not None:
        written = ensure_corpus(write_corpus, sentences, seed, held_out=held_out)
        reporter.say(f"{'Written' if written else 'There already'}: {write_corpus}, a corpus of an artificial language")
        return

    from ssmt.demo import comparison
    from ssmt.devices import choose_device

    chosen_device = choose_device(device)
    set_threads(threads)
    corpus = output / "corpus"
    ensure_corpus(corpus, sentences, seed, held_out=held_out)
    reporter.say(f"{corpus}: {sentences:,} pairs of English and an artificial language that nobody speaks")
    for number, model in enumerate(MODELS, start=1):
        reporter.say(f"\nModel {number} of {len(MODELS)}, {model}: {minutes:g} minutes, in {output / model}")
        stopped_by = comparison.train(corpus, output / model, config_of(model, minutes, seed), chosen_device, reporter)
        if stopped_by:
            reporter.say(f"Stopped by {stopped_by}; everything is saved. The same command goes on from here")
            raise typer.Exit(exit_status(stopped_by))

    reporter.say("\nTranslating and measuring")
    models = {str(name): comparison.Model.load(output / name, device) for name in MODELS}
    measured = [comparison.measure(models, corpus, split, reporter) for split in comparison.SPLITS]
    page = _write_report(output, corpus, device)
    console = Console(highlight=False, soft_wrap=True)
    _print_examples(console, measured[0])
    write_results([comparison.as_table(models, measured)], {}, "terminal")
    _print_what_next(console, corpus, output / "ssmt", page)


def _write_report(output: Path, corpus: Path, device: str) -> Path | None:
    """The page of `ssmt report`, if what draws its plots is installed."""
    from ssmt.cli.report import report
    from ssmt.errors import UserError
    from ssmt.evaluation import plots

    try:
        plots.require()
    except UserError as error:
        reporter.warn(f"no report: {error}")
        return None
    page = output / "report.html"
    report(
        [output / model for model in MODELS],
        output=page,
        source=str(corpus / f"test.hard.{SOURCE}"),
        reference=str(corpus / f"test.hard.{TARGET}"),
        gold=str(corpus / "test.hard.sentences.tsv"),
        title="ssmt demo: an artificial language",
        device=device,
    )
    return page


def _print_examples(console: Console, measured: Measured) -> None:
    """A few translations with their segments, beside the reference with its morphemes."""
    from ssmt.evaluation.examples import evenly_spaced
    from ssmt.evaluation.gold import segments_of
    from ssmt.translator import join_segments

    lines = measured.gold.lines
    rows = evenly_spaced(measured.gold.texts, EXAMPLES)
    console.print(f"\n{len(rows)} of {len(lines)} unseen sentences ({measured.split}), evenly spaced\n", style="bold")
    width = max(map(len, (*MODELS, "reference")))
    for row in rows:
        line = lines[row]
        morphemes = join_segments(segments_of(line.text, line.cuts), "-")
        console.print(Text(f"  {'English':{width}}  {line.source}", style="dim"))
        console.print(Text(f"  {'reference':{width}}  {morphemes}"))
        for name, translations in measured.translations.items():
            found = translations[row]
            right = found.text == line.text
            written = f"  {name:{width}}  {found.joined('-')}{'  (right)' if right else ''}"
            console.print(Text(written, style="green" if right else ""))
        console.print()
    console.print("  - is a cut: in the reference between morphemes, in a translation between segments\n", style="dim")


def _print_what_next(console: Console, corpus: Path, model: Path, page: Path | None) -> None:
    program = "ssmt" if shutil.which("ssmt") else shlex.quote(sys.argv[0])
    at, source, target = (
        shlex.quote(str(path)) for path in (model, corpus / f"test.{SOURCE}", corpus / f"test.{TARGET}")
    )
    parts = [
        *([f"  In a browser: {page.resolve().as_uri()} has curves, scores, coloured segmentations\n"] if page else []),
        "  Try the model that learned to cut:",
        f'    echo "The chief has seen the small goats." | {program} translate {at} --segmented',
        f"    {program} segment {at} --source {source} --target {target}\n",
        "  With your own files, where line i of one is the translation of line i of the other:",
        f"    {program} train --source train.en --target train.xx --valid-source dev.en --valid-target dev.xx \\",
        "        --output runs/mine --preset tiny --max-minutes 60",
        f"    {program} translate runs/mine -i test.en -o test.out",
        f"    {program} evaluate --reference test.xx --hypothesis mine=test.out",
    ]
    console.print("What to type next\n", style="bold")
    for part in parts:
        console.print(Text(part))
