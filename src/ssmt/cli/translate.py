"""`ssmt translate`, `ssmt segment` and `ssmt score`: a model's three uses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ssmt.cli.shared import (
    AllowUnknownOption,
    BatchOption,
    DeviceOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    SourceOption,
    TargetOption,
    ThreadsOption,
    app,
    load_translator,
    naming_lines,
    over_lines,
    read_pairs,
    write_json,
)
from ssmt.errors import UserError
from ssmt.text.lines import STANDARD_STREAM, open_for_writing, read_parallel


@app.command()
def segment(
    model: ModelArgument,
    target: TargetOption,
    source: Annotated[
        str | None,
        typer.Option(metavar="F", help="Source text, line by line; without it targets are segmented on their own."),
    ] = None,
    output: OutputOption = STANDARD_STREAM,
    method: Annotated[
        Literal["viterbi", "posterior"], typer.Option(help="Most probable path, or cut by boundary posterior.")
    ] = "viterbi",
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Posterior above which a boundary is cut.")] = 0.5,
    n_best: Annotated[int, typer.Option(min=1, metavar="N", help="The N best segmentations, tab-separated.")] = 1,
    posteriors: Annotated[
        bool, typer.Option("--posteriors", help="Also the probability of a cut after each character, after a tab.")
    ] = False,
    separator: Annotated[str, typer.Option(help="What marks a cut inside a word.")] = "-",
    json_: JsonOption = False,
    allow_unknown: AllowUnknownOption = False,
    batch_characters: BatchOption = 8000,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Cut target sentences into the segments that the model finds most probable given the source."""
    if method == "posterior" and n_best > 1:
        raise UserError("--n-best goes with --method viterbi: the posterior gives one segmentation")
    translator = load_translator(model, device, threads)
    sources, targets = read_pairs(source, target)

    def of_block(rows: list[int]) -> list[dict[str, Any]]:
        texts = [targets[row] for row in rows]
        given = None if sources is None else [sources[row] for row in rows]
        options: dict[str, Any] = {"allow_unknown": allow_unknown, "batch_characters": batch_characters}
        if method == "posterior":
            found = [[one] for one in translator.posterior_segmentations(given, texts, threshold, **options)]
        else:
            found = translator.n_best_segmentations(given, texts, n_best, **options)
        records = []
        for text, candidates in zip(texts, found, strict=True):
            record = {"translation": text, **describe(candidates[0])}
            if n_best > 1:
                record["n_best"] = [describe(candidate) for candidate in candidates]
            records.append(record)
        if posteriors:
            for record, row in zip(records, translator.boundary_posteriors(given, texts, **options), strict=True):
                record["posteriors"] = [round(probability, 4) for probability in row]
        return records

    def describe(found: Any) -> dict[str, Any]:
        return {"segments": found.segments, "score": round(found.score, 6), "score_type": "path"}

    def as_text(record: dict[str, Any]) -> str:
        from ssmt.translator import join_segments

        candidates = record.get("n_best", [record])
        columns = [join_segments(candidate["segments"], separator) for candidate in candidates]
        if posteriors:
            columns.append(" ".join(f"{probability:.4f}" for probability in record["posteriors"]))
        return "\t".join(columns)

    with naming_lines({"source": source, "target": target}), open_for_writing(output) as stream:
        for row, record in over_lines(sources, targets, of_block, "segmenting"):
            empty: dict[str, Any] = {"translation": targets[row], "segments": [], "score": None, "score_type": "path"}
            if json_:
                write_json(stream, ({} if sources is None else {"source": sources[row]}) | (record or empty))
            else:
                stream.write((as_text(record) if record else "") + "\n")


@app.command()
def score(
    model: ModelArgument,
    source: SourceOption,
    target: TargetOption,
    output: OutputOption = STANDARD_STREAM,
    best_path: Annotated[bool, typer.Option("--best-path", help="Of the best segmentation instead of all.")] = False,
    json_: JsonOption = False,
    allow_unknown: AllowUnknownOption = False,
    batch_characters: BatchOption = 8000,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """The natural logarithm of each translation's probability, summed over all its segmentations."""
    translator = load_translator(model, device, threads)
    sources, targets = read_parallel(source, target)
    kind = "path" if best_path else "marginal"

    def of_block(rows: list[int]) -> list[dict[str, Any]]:
        found = translator.score(
            [sources[row] for row in rows],
            [targets[row] for row in rows],
            best_path=best_path,
            allow_unknown=allow_unknown,
            batch_characters=batch_characters,
        )
        return [{"score": round(value, 6)} for value in found]

    with naming_lines({"source": source, "target": target}), open_for_writing(output) as stream:
        for row, record in over_lines(sources, targets, of_block, "scoring", skip_empty_targets=False):
            if json_:
                number = record["score"] if record else None
                pair = {"source": sources[row], "translation": targets[row]}
                write_json(stream, {**pair, "score": number, "score_type": kind})
            else:
                stream.write((f"{record['score']:.6f}" if record else "") + "\n")
