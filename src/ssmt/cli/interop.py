"""`ssmt import-fairseq`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.shared import Verb, app, reporter


@app.command("import-fairseq", cls=Verb)
def import_fairseq(
    checkpoint: Annotated[Path, typer.Option(metavar="F.pt", help="The model as fairseq saved it.")],
    source_dict: Annotated[Path, typer.Option(metavar="F", help="fairseq's dictionary of the source (dict.en.txt).")],
    characters: Annotated[Path, typer.Option(metavar="F", help="The target's characters (char_dict.zu.txt).")],
    lexicon: Annotated[Path, typer.Option(metavar="F", help="The target's lexicon (lex_dict.zu.txt).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The new model's directory.")],
    source_codes: Annotated[
        Path | None,
        typer.Option(metavar="F", help="subword-nmt's codes; without them source text must come already split."),
    ] = None,
) -> None:
    """Make a model directory of a model of the original implementation.

    Needs no fairseq, and runs nothing that is in the checkpoint.
    """
    from ssmt.interop.fairseq import import_fairseq as make_directory

    model = make_directory(checkpoint, source_dict, characters, lexicon, source_codes, output)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    vocabulary = model.vocabulary
    reporter.say(
        f"{output}: {parameters:,} parameters, {len(vocabulary.source):,} source subwords, "
        f"{len(vocabulary.alphabet):,} target characters, {len(vocabulary.lexicon):,} lexicon entries, "
        f"segments of up to {model.segments.longest} characters"
    )
