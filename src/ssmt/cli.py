"""The command line: each verb is one thin function. Only here is anything printed, and only here do errors of users
become exit status 2. Torch is imported inside the verbs, so that help and bad options answer at once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from ssmt import __version__
from ssmt.config import Preset, commented_yaml, compose, with_settings
from ssmt.errors import UserError
from ssmt.progress import TerminalReporter, tracked
from ssmt.text.lines import STANDARD_STREAM, name_of, open_for_writing, read_lines, read_parallel

app = typer.Typer(
    name="ssmt",
    help="Subword Segmental Machine Translation: one model that learns to translate and where to cut words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reporter = TerminalReporter()

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)]
SourceOption = Annotated[str, typer.Option(metavar="F", help="Source text, one sentence a line; - is standard input.")]
TargetOption = Annotated[str, typer.Option(metavar="F", help="Target text, line i belongs to source line i.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", metavar="F", help="Where to write; - is standard output.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
AllowUnknownOption = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept characters that the model has never seen, as <unk>.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda (or cuda:1), mps.")]
BatchOption = Annotated[int, typer.Option(min=1, metavar="N", help="Target characters of a batch.")]

BLOCK = 2000  # lines that are read, computed and written together


@app.command()
def train(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The new model's directory.")],
    source: Annotated[Path | None, typer.Option(metavar="F", help="Training text, source side.")] = None,
    target: Annotated[Path | None, typer.Option(metavar="F", help="Training text, target side.")] = None,
    valid_source: Annotated[Path | None, typer.Option(metavar="F", help="Validation text, source side.")] = None,
    valid_target: Annotated[Path | None, typer.Option(metavar="F", help="Validation text, target side.")] = None,
    preset: Annotated[Preset | None, typer.Option(help="Settings to start from.", show_default="base")] = None,
    config: Annotated[Path | None, typer.Option(metavar="F.yaml", help="Settings that replace the preset's.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; can be given many times.")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N updates.")] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N epochs.")] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, metavar="N", help="Stop after N minutes.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --output; needs no files.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Seed of everything random.")] = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a model on two text files.

    The result is a model directory, beside the run's checkpoints and log. Ctrl-C stops it; --resume goes on exactly
    where it stopped.
    """
    from ssmt.model.directory import choose_device
    from ssmt.text.preparation import TrainingFiles
    from ssmt.training import run

    chosen_device = choose_device(device)
    set_threads(threads)
    flags = {"max_updates": max_updates, "max_epochs": max_epochs, "max_minutes": max_minutes, "seed": seed}
    changes = [f"training.{key}={value}" for key, value in flags.items() if value is not None]
    settings = [*(set_ or []), *changes]

    if resume and run.can_resume(output):
        given = preset is not None or config is not None
        base = compose(preset or "base", config) if given else None
        run.adopt(output, lambda saved: with_settings(base or saved, settings))
    else:
        files = {
            "--source": source,
            "--target": target,
            "--valid-source": valid_source,
            "--valid-target": valid_target,
        }
        missing = [name for name, path in files.items() if path is None]
        if missing:
            nothing = f" ({output} holds no run to resume)" if resume else ""
            raise UserError(f"A new run needs {', '.join(missing)}{nothing}")
        composed = compose(preset or "base", config, settings)
        run.begin(TrainingFiles(*(path for path in files.values() if path)), output, composed, reporter)

    stopped_by = run.train(output, chosen_device, reporter)
    if stopped_by:
        reporter.say(f"Stopped by {stopped_by}; everything is saved. Go on with: ssmt train --output {output} --resume")
        raise typer.Exit(130 if stopped_by == "SIGINT" else 143)


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
        options = {"allow_unknown": allow_unknown, "batch_characters": batch_characters}
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


@app.command("config")
def show_config(
    preset: Annotated[Preset, typer.Option(help="Which preset's values.")] = "base",
) -> None:
    """Print a complete, commented configuration as YAML."""
    typer.echo(commented_yaml(compose(preset)), nl=False)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"ssmt {__version__}")
        raise typer.Exit


# What the verbs share


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def load_translator(model: Path, device: str, threads: int | None) -> Any:
    from ssmt.translator import Translator

    set_threads(threads)
    return Translator.load(model, device)


def read_pairs(source: str | None, target: str) -> tuple[list[str] | None, list[str]]:
    if source is None:
        return None, read_lines(target)
    return read_parallel(source, target)


def over_lines(
    sources: Sequence[str] | None, targets: Sequence[str], of_block: Any, title: str, skip_empty_targets: bool = True
) -> Iterator[tuple[int, Any]]:
    """Every line with its record, in order; an empty source (or target) has none and gives an empty line."""

    def has_content(row: int) -> bool:
        if sources is not None and not sources[row].strip():
            return False
        return bool(targets[row].strip()) or not skip_empty_targets

    for first in tracked(reporter, range(0, len(targets), BLOCK), title, -(-len(targets) // BLOCK)):
        block = range(first, min(first + BLOCK, len(targets)))
        rows = [row for row in block if has_content(row)]
        try:
            records = dict(zip(rows, of_block(rows) if rows else [], strict=True))
        except UserError as error:
            if (number := getattr(error, "number", None)) is not None:
                error.number = rows[number - 1] + 1  # type: ignore[attr-defined]
            raise
        for row in block:
            yield row, records.get(row)


@contextmanager
def naming_lines(files: dict[str, str | None]) -> Iterator[None]:
    """Errors about the i-th source or target become errors about line i of a file."""
    from ssmt.translator import LineError

    try:
        yield
    except LineError as error:
        raise UserError(f"{name_of(files[error.kind] or '')}, line {error.number}: {error.problem}") from None


def write_json(stream: Any, record: dict[str, Any]) -> None:
    stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def main() -> NoReturn:
    try:
        app(standalone_mode=True)
    except UserError as error:
        reporter.console.print(f"error: {error}", style="red", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: no complaint at exit
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reporter.console.print(f"error: {where}{error.strerror}", style="red", markup=False)
        sys.exit(2)
    sys.exit(0)
