"""`ssmt backtranslate`: text of the target language alone becomes sentence pairs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from ssmt.cli.shared import DeviceOption, ThreadsOption, ToOption, Verb, app, load_translator, reporter
from ssmt.files import name_of
from ssmt.outputs import require_other_file, require_place
from ssmt.progress import plural
from ssmt.search.options import SearchOptions
from ssmt.text.formats import PairWriter
from ssmt.text.lines import stream_lines


@app.command(cls=Verb)
def backtranslate(
    reverse: Annotated[
        Path, typer.Option(metavar="MODEL", help="A model of the other direction: from the target to the source.")
    ],
    target: Annotated[str, typer.Option(metavar="F", help="Text of the target language; - is standard input.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="F", help="The pairs: F.jsonl, with scores and origin, or F.tsv.")
    ],
    by: Annotated[
        Literal["sampling", "beam"],
        typer.Option(metavar="NAME", help="How sources are written: sampling draws them, beam looks for the best."),
    ] = "sampling",
    beam: Annotated[int, typer.Option(min=1, metavar="N", help="Of beam: hypotheses a sentence.")] = 5,
    temperature: Annotated[
        float, typer.Option(min=1e-3, metavar="X", help="Of sampling: below 1 is more careful.")
    ] = 1.0,
    sources: Annotated[int, typer.Option(min=1, metavar="N", help="Different sources for each line.")] = 1,
    min_score: Annotated[
        float | None,
        typer.Option(metavar="NATS", help="Least score of a source, a character (below 0).", show_default="any"),
    ] = None,
    max_ratio: Annotated[
        float, typer.Option(min=1, metavar="R", help="How many times longer than the other a side may be.")
    ] = 3.0,
    to: ToOption = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of samples.")] = 0,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate text of the target language back, so that it can be trained on with what was translated.

    The reverse model is an ordinary `ssmt train` with the files exchanged. List the result in `data:` with a weight,
    and with `tagged: true` if the model shall know it from what people have translated.
    """
    from ssmt.backtranslation import Limits
    from ssmt.backtranslation import backtranslate as backtranslated

    require_other_file(output, target)
    require_place(output)
    translator = load_translator(reverse, device, threads, to=to)
    if by == "beam":
        options = SearchOptions(beam=max(beam, sources), n_best=sources)
    else:
        options = SearchOptions(search="sample", n_best=sources, temperature=temperature, seed=seed)
    limits, left_out, written, lines = Limits(min_score, max_ratio), Counter[str](), 0, 0
    with PairWriter.open([output]) as writer, reporter.bar("translating back", None, log=False) as bar:
        for found in backtranslated(translator, stream_lines(target), options, limits, name_of(target)):
            lines = found.pair.line
            if found.problem is None:
                writer.write(found.pair, score=round(found.score, 4))
                written += 1
            else:
                left_out[found.problem] += 1
            bar.advance(lines, plural(lines, "line"))
    reporter.say(f"{plural(written, 'pair')} of {plural(lines, 'line')} in {output}")
    for problem, count in left_out.most_common():
        reporter.say(f"  {count:>9,}  left out: {problem}")
