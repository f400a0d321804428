"""`ssmt translate`, `ssmt segment` and `ssmt score`: a model's three uses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ssmt.cli.shared import (
    BLOCK,
    AllowUnknownOption,
    BatchOption,
    DeviceOption,
    JsonOption,
    ModelArgument,
    ModelsArgument,
    OutputOption,
    PretokenisedOption,
    SourceOption,
    TargetOption,
    ThreadsOption,
    ToOption,
    Verb,
    app,
    beginning_with,
    load_translator,
    over_lines,
    read_pairs,
    reporter,
    reporter_beside,
    write_json,
)
from ssmt.errors import UserError
from ssmt.files import STANDARD_STREAM, name_of, naming_lines
from ssmt.outputs import open_for_writing, require_other_file
from ssmt.progress import plural
from ssmt.records import (
    Record,
    empty_segmentation_record,
    posteriors_record,
    score_record,
    segmentation_record,
    translation_record,
)
from ssmt.search.options import MOST_HYPOTHESES, Candidates, Normalise, SearchOptions, Stop
from ssmt.search.table import SEARCHES
from ssmt.text.lines import read_lines, read_parallel, require_equal_lengths, stream_blocks, stream_lines

PROMPT = "> "


def usual(option: str) -> str:
    """What an option is where it is not given, for help."""
    takers = (search for search in SEARCHES.values() if option in search.own_options)
    return ", ".join(f"{getattr(search, option):g} for {search.name}" for search in takers)


@app.command(cls=Verb)
def translate(
    model: ModelsArgument,
    input: Annotated[
        str, typer.Option("--input", "-i", metavar="F", help="Source text, one sentence a line; - is standard input.")
    ] = STANDARD_STREAM,
    output: OutputOption = STANDARD_STREAM,
    to: ToOption = None,
    pretokenised: PretokenisedOption = False,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=beginning_with(SEARCHES),
            help="; ".join(f"{search.name}: {search.summary}" for search in SEARCHES.values()) + ".",
            show_default="marginal, or beam for models on subwords",
        ),
    ] = None,
    beam: Annotated[int, typer.Option(min=1, metavar="N", help="Hypotheses a sentence.")] = 5,
    n_best: Annotated[
        int, typer.Option(min=1, metavar="N", help="The N best translations (or N samples), tab-separated.")
    ] = 1,
    segmented: Annotated[bool, typer.Option("--segmented", help="Show the cuts inside words.")] = False,
    separator: Annotated[str, typer.Option(metavar="TEXT", help="What marks a cut with --segmented.")] = "-",
    json_: JsonOption = False,
    prefix: Annotated[
        str | None, typer.Option(metavar="F", help="Text that each translation must begin with, line by line.")
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Rank by score / length ** X: above 0 favours longer translations.",
            show_default=usual("length_penalty"),
        ),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="What each symbol costs in the ranking that goes on with something said before.",
            show_default=usual("repetition_penalty"),
        ),
    ] = None,
    min_length: Annotated[int, typer.Option(min=0, metavar="N", help="Fewest characters of a translation.")] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most characters.", show_default="by the source's length"),
    ] = None,
    normalise: Annotated[
        Normalise,
        typer.Option(
            metavar="NAME", help="Of dynamic decoding: what scores are divided by: segments, characters or none."
        ),
    ] = "segments",
    stop: Annotated[
        Stop,
        typer.Option(
            metavar="NAME", help="Of dynamic decoding: safe stops when nothing open is better, paper after BEAM ends."
        ),
    ] = "safe",
    final_normalise: Annotated[
        Normalise | None,
        typer.Option(
            metavar="NAME", help="With --stop paper: what final scores are divided by.", show_default="as --normalise"
        ),
    ] = None,
    average_next: Annotated[
        bool, typer.Option("--average-next", help="Of dynamic decoding: average a new segment with the one before it.")
    ] = False,
    candidates: Annotated[
        int, typer.Option(min=1, max=MOST_HYPOTHESES, metavar="N", help="Of mbr: translations that it chooses from.")
    ] = 50,
    candidates_from: Annotated[
        Candidates, typer.Option(metavar="NAME", help="Of mbr: samples, or beam, for the best of a beam of that many.")
    ] = "samples",
    temperature: Annotated[
        float, typer.Option(min=1e-3, metavar="X", help="Of samples: below 1 is more careful.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of samples.")] = 0,
    batch_characters: Annotated[int, typer.Option(min=1, metavar="N", help="Source characters of a batch.")] = 6400,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: faster on CPU, scores a little different.")
    ] = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate, line by line, as the lines come.

    With several models of one vocabulary, probabilities are averaged. An empty line gives an empty line. A line longer
    than the model's limit is translated in parts at sentence ends.
    """
    if prefix == STANDARD_STREAM == input:
        raise UserError("Only one of --input and --prefix can be standard input")
    require_other_file(output, input, prefix)
    options = SearchOptions(
        search=search,
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        repetition_penalty=repetition_penalty,
        min_length=min_length,
        max_length=max_length,
        normalise=normalise,
        stop=stop,
        final_normalise=final_normalise,
        average_next=average_next,
        temperature=temperature,
        seed=seed,
        candidates=candidates,
        candidates_from=candidates_from,
    )
    translator = load_translator(model, device, threads, pretokenised, int8, to)
    options = translator.kind.search(search).completed(options)
    score_type = translator.score_type(options.search)
    prefixes = None if prefix is None else read_lines(prefix)
    known_length = None
    if Path(input).is_file():  # a pipe can be read once
        with naming_lines({"source": input}) as lines:
            known_length = translator.require_translatable(stream_lines(input))
    if prefixes is not None and known_length is not None:
        require_equal_lengths(input, known_length, prefix or "", len(prefixes))

    done = 0
    with (
        naming_lines({"source": input, "prefix": prefix}) as lines,
        open_for_writing(output) as stream,
        reporter_beside(stream).bar("translating", known_length, log=False) as bar,
    ):
        is_dialogue = input == STANDARD_STREAM and sys.stdin.isatty() and stream.isatty()
        if is_dialogue:
            reporter.say("One sentence a line, then Enter; Ctrl-D ends")
            typer.echo(PROMPT, err=True, nl=False)
        for block in stream_blocks(input, BLOCK):
            lines.offset = done
            if prefixes is not None and done + len(block) > len(prefixes):
                raise UserError(f"{prefix} has {len(prefixes):,} lines, fewer than {name_of(input)}")
            n_best_of_lines = translator.n_best_translations(
                block,
                options,
                prefixes=None if prefixes is None else prefixes[done : done + len(block)],
                with_segments=segmented or json_,
                batch_characters=batch_characters,
            )
            for source, ranked in zip(block, n_best_of_lines, strict=True):
                if json_:
                    write_json(stream, translation_record(source, ranked, score_type, n_best))
                else:
                    shown = [one.joined(separator) if segmented else one.text for one in ranked]
                    stream.write("\t".join(shown) + "\n")
            stream.flush()
            done += len(block)
            bar.advance(done, plural(done, "line"))
            if is_dialogue:
                typer.echo(PROMPT, err=True, nl=False)
        if is_dialogue:
            typer.echo(err=True)  # the shell's own prompt gets a line of its own
        if prefixes is not None:
            require_equal_lengths(input, done, prefix or "", len(prefixes))


@app.command(cls=Verb)
def segment(
    model: ModelArgument,
    target: TargetOption,
    source: Annotated[
        str | None,
        typer.Option(metavar="F", help="Source text, line by line; without it targets are segmented on their own."),
    ] = None,
    output: OutputOption = STANDARD_STREAM,
    to: ToOption = None,
    method: Annotated[
        Literal["viterbi", "posterior"],
        typer.Option(
            metavar="NAME", help="viterbi: the most probable cuts together; posterior: each cut that is probable."
        ),
    ] = "viterbi",
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="P",
            help="With --method posterior: cut where it is at least this.",
            show_default="0.5",
        ),
    ] = None,
    n_best: Annotated[
        int, typer.Option(min=1, max=MOST_HYPOTHESES, metavar="N", help="The N best segmentations, tab-separated.")
    ] = 1,
    posteriors: Annotated[
        bool, typer.Option("--posteriors", help="Also the probability of a cut after each character, after a tab.")
    ] = False,
    separator: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="What marks a cut inside a word (of bpe and ulm, any cut but those at blanks)."
        ),
    ] = "-",
    json_: JsonOption = False,
    allow_unknown: AllowUnknownOption = False,
    pretokenised: PretokenisedOption = False,
    batch_characters: BatchOption = 8000,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Cut target sentences into the segments that the model finds most probable given the source."""
    if method == "posterior" and n_best > 1:
        raise UserError("--n-best goes with --method viterbi: the posterior gives one segmentation")
    if method == "viterbi" and threshold is not None:
        raise UserError("--threshold goes with --method posterior: the most probable path has none")
    require_other_file(output, source, target)
    translator = load_translator(model, device, threads, pretokenised, to=to)
    segmenter = translator.segmenter
    sources, targets = read_pairs(source, target)
    options: dict[str, Any] = {"allow_unknown": allow_unknown, "batch_characters": batch_characters}
    cut_from = 0.5 if threshold is None else threshold

    def records_of(rows: list[int]) -> list[Record]:
        texts = [targets[row] for row in rows]
        given = None if sources is None else [sources[row] for row in rows]
        if method == "posterior":
            best = translator.posterior_segmentations(given, texts, cut_from, **options)
            n_bests = [[segmentation] for segmentation in best]
        else:
            n_bests = translator.n_best_segmentations(given, texts, n_best, **options)
        records = [
            segmentation_record(text, candidates, segmenter.score_type, n_best)
            for text, candidates in zip(texts, n_bests, strict=True)
        ]
        if posteriors:
            for record, row in zip(records, translator.boundary_posteriors(given, texts, **options), strict=True):
                record["posteriors"] = posteriors_record(row)
        return records

    with naming_lines({"source": source, "target": target}), open_for_writing(output) as stream:
        for row, record in over_lines(sources, targets, records_of, "segmenting", stream):
            if json_:
                written = record or empty_segmentation_record(targets[row], segmenter.score_type)
                write_json(stream, ({} if sources is None else {"source": sources[row]}) | written)
            else:
                stream.write((_segmentation_line(record, separator, segmenter.cuts_anywhere) if record else "") + "\n")


def _segmentation_line(record: Record, separator: str, cuts_anywhere: bool) -> str:
    """The candidates of a record, and its posteriors if it has them, between tabs."""
    from ssmt.translator import join_segments

    candidates = record.get("n_best", [record])
    columns = [join_segments(candidate["segments"], separator, cuts_anywhere) for candidate in candidates]
    if "posteriors" in record:
        columns.append(" ".join(f"{probability:.4f}" for probability in record["posteriors"]))
    return "\t".join(columns)


@app.command(cls=Verb)
def score(
    model: ModelArgument,
    source: SourceOption,
    target: TargetOption,
    output: OutputOption = STANDARD_STREAM,
    to: ToOption = None,
    best_path: Annotated[bool, typer.Option("--best-path", help="Of the best segmentation instead of all.")] = False,
    json_: JsonOption = False,
    allow_unknown: AllowUnknownOption = False,
    pretokenised: PretokenisedOption = False,
    batch_characters: BatchOption = 8000,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """The natural logarithm of each translation's probability, summed over all its segmentations.

    Of a model on subwords, the probability of the translation as it is cut into them. --json says which.
    """
    require_other_file(output, source, target)
    translator = load_translator(model, device, threads, pretokenised, to=to)
    sources, targets = read_parallel(source, target)
    score_type = translator.score_type(best_path=best_path)

    def records_of(rows: list[int]) -> list[Record]:
        scores = translator.score(
            [sources[row] for row in rows],
            [targets[row] for row in rows],
            best_path=best_path,
            allow_unknown=allow_unknown,
            batch_characters=batch_characters,
        )
        return [
            score_record(sources[row], targets[row], value, score_type) for row, value in zip(rows, scores, strict=True)
        ]

    with naming_lines({"source": source, "target": target}), open_for_writing(output) as stream:
        for row, record in over_lines(sources, targets, records_of, "scoring", stream, empty_targets=True):
            if json_:
                write_json(stream, record or score_record(sources[row], targets[row], None, score_type))
            else:
                stream.write((f"{record['score']:.6f}" if record else "") + "\n")
