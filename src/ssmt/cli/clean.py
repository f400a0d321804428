"""`ssmt clean`: leaves out sentence pairs that are better not trained on, and says which and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

import typer

from ssmt.cli.shared import Verb, app, corpora_of, reporter
from ssmt.errors import UserError
from ssmt.files import as_json, keeping_streams
from ssmt.outputs import open_for_writing, require_other_file
from ssmt.progress import plural
from ssmt.text.cleaning import Cleaner, Limits
from ssmt.text.formats import PairWriter

DEFAULT = Limits()


@app.command(cls=Verb)
def clean(
    source: Annotated[list[str] | None, typer.Option(metavar="F", help="Source side; one file or several.")] = None,
    target: Annotated[list[str] | None, typer.Option(metavar="F", help="Target side; as many files.")] = None,
    pairs: Annotated[list[str] | None, typer.Option(metavar="F", help="Both sides: TSV, JSON lines or TMX.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="F", help="What is kept: F.tsv or F.jsonl.")
    ] = None,
    output_source: Annotated[str | None, typer.Option(metavar="F", help="Or its source side.")] = None,
    output_target: Annotated[str | None, typer.Option(metavar="F", help="And its target side.")] = None,
    rejected: Annotated[
        str | None, typer.Option(metavar="F.jsonl", help="What is left out, with file, line and reason.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="F.json", help="The counts and first places, as JSON.")] = None,
    held_out_source: Annotated[
        list[str] | None,
        typer.Option(metavar="F", help="Source side of dev and test: none of their sentences is kept."),
    ] = None,
    held_out_target: Annotated[list[str] | None, typer.Option(metavar="F", help="And the target side.")] = None,
    max_length: Annotated[int, typer.Option(min=1, metavar="N", help="Most characters of a side.")] = DEFAULT.longest,
    max_ratio: Annotated[
        float, typer.Option(min=1, metavar="R", help="How many times longer or shorter than usual a target may be.")
    ] = DEFAULT.ratio,
    max_odd: Annotated[
        float, typer.Option(min=0, max=1, metavar="X", help="Most letters in foreign scripts, as a share.")
    ] = DEFAULT.odd_characters,
    min_letters: Annotated[
        float, typer.Option(min=0, max=1, metavar="X", help="Fewest letters among a side's characters, as a share.")
    ] = DEFAULT.few_letters,
    other_language: Annotated[
        float, typer.Option(metavar="NATS", help="How much more, a letter, a side may look like the other language.")
    ] = DEFAULT.other_language,
    keep_repeated: Annotated[bool, typer.Option("--keep-repeated", help="Keep pairs that were there before.")] = False,
    keep_equal: Annotated[bool, typer.Option("--keep-equal", help="Keep pairs with equal sides.")] = False,
) -> None:
    """Leave out pairs that are empty, too long, lopsided, repeated, in dev or test, or in the wrong language.

    Says how many were left out for each reason and where the first of them are. What is usual (lengths, scripts, the
    letters of either language) is learnt from the text itself.
    """
    given = list(corpora_of({"--source": source, "--target": target}, pairs))
    if not given:
        raise UserError("Nothing to clean: give --source and --target, or --pairs")
    sides = (output_source is not None, output_target is not None)
    if sides not in ((False, False), (True, True)) or (output is None) != all(sides):
        raise UserError("Give --output, or --output-source and --output-target")
    held_out = list(corpora_of({"--held-out-source": held_out_source, "--held-out-target": held_out_target}, None))
    outputs = [path for path in (output, output_source, output_target, rejected, report) if path]
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise UserError("Two outputs have the same name")
    inputs = [*(source or []), *(target or []), *(pairs or []), *(held_out_source or []), *(held_out_target or [])]
    for path in outputs:
        require_other_file(path, *inputs)
    limits = Limits(max_length, max_ratio, max_odd, min_letters, other_language, keep_repeated, keep_equal)
    with keeping_streams(), ExitStack() as stack:
        cleaner = Cleaner(given, held_out, limits)
        kept = stack.enter_context(PairWriter.open([output] if output else [str(output_source), str(output_target)]))
        left_out = stack.enter_context(open_for_writing(rejected)) if rejected else None
        for raw, reason in cleaner:
            if reason is None:
                kept.write(raw)
            elif left_out is not None:
                place = {"file": raw.file, "line": raw.line, "reason": reason}
                left_out.write(as_json({**place, "source": raw.source, "target": raw.target}) + "\n")
    if report:
        with open_for_writing(report) as stream:
            stream.write(as_json(cleaner.report.record(), indent=2) + "\n")
    for line in _in_words(cleaner):
        reporter.say(line)


def _in_words(cleaner: Cleaner) -> Sequence[str]:
    """The report, a line a reason."""
    found = cleaner.report
    lines = [f"{found.kept:,} of {plural(found.pairs, 'pair')} kept"]
    for reason in cleaner.reasons:
        if count := found.reasons.get(reason):
            more = ", ..." if count > len(found.examples[reason]) else ""
            lines.append(f"  {count:>9,}  {reason}: {'; '.join(found.examples[reason])}{more}")
    return lines
