"""`ssmt train` and `ssmt config`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ssmt.cli.shared import (
    DeviceOption,
    TrainingThreadsOption,
    Verb,
    app,
    chosen_preset,
    corpora_of,
    exit_status,
    reporter,
    set_threads,
)
from ssmt.config import (
    Config,
    DataConfig,
    Preset,
    commented_yaml,
    compose,
    compose_from,
    preset_of,
    with_settings,
)
from ssmt.errors import UserError
from ssmt.files import as_json, keeping_streams


@app.command(cls=Verb)
def train(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The new model's directory.")],
    source: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Training text, source side; one file or several.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Training text, target side; as many files.")
    ] = None,
    pairs: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Training text, both sides: TSV, JSON lines or TMX.")
    ] = None,
    valid_source: Annotated[list[str] | None, typer.Option(metavar="F", help="Validation text, source side.")] = None,
    valid_target: Annotated[list[str] | None, typer.Option(metavar="F", help="Validation text, target side.")] = None,
    valid_pairs: Annotated[list[str] | None, typer.Option(metavar="F", help="Validation text, both sides.")] = None,
    source_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="The source's language, such as en: for programs that ask.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="The target's language, such as zu.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="KIND", help=f"{Config.model_fields['model'].description}.", show_default="ssmt"),
    ] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            metavar="NAME",
            help="Settings to start from: tiny, small or base.",
            show_default="by device and data; base with --config",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="F.yaml", help="Settings that replace the preset's.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; can be given many times.")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N updates.")] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N epochs.")] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, metavar="N", help="Stop after N minutes.")] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="Begin with this model's weights, vocabulary and settings."),
    ] = None,
    take: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART", help="With --from: take only this part, such as encoder; can be given many times."
        ),
    ] = None,
    freeze: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="With --from: leave this part as it is, such as encoder.embedding."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --output; needs no files.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Seed of everything random.")] = None,
    threads: TrainingThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a model on text files.

    Files can be compressed, and several; --config can list them with languages and weights (`data:`). The result is a
    model directory, beside the run's checkpoints and log. Ctrl-C stops it; --resume goes on exactly where it stopped.
    `dpe` trains two models, one after the other; limits of time and updates are for each of them.
    """
    from ssmt.directory import load_config
    from ssmt.registry import warn_of_changes_without_effect
    from ssmt.training import run
    from ssmt.training.distributed import is_restarted, together

    set_threads(threads)
    flags = {"max_updates": max_updates, "max_epochs": max_epochs, "max_minutes": max_minutes, "seed": seed}
    changes = [f"training.{key}={value}" for key, value in flags.items() if value is not None]
    languages = {"source_language": source_language, "target_language": target_language}
    # In quotes: YAML takes the code of Norwegian for a switch.
    changes += [f"text.{key}={as_json(code)}" for key, code in languages.items() if code is not None]
    settings = [*(set_ or []), *changes, *([f"model={model}"] if model else [])]

    files = {
        "train": ({"--source": source, "--target": target}, pairs),
        "valid": ({"--valid-source": valid_source, "--valid-target": valid_target}, valid_pairs),
    }

    def begin_or_resume() -> None:
        if (resume or is_restarted()) and run.can_resume(output):
            if any(both or any(sides.values()) for sides, both in files.values()):
                reporter.say("A resumed run goes on with the text that it read when it began; no file is read again")
            given = preset is not None or config is not None
            asked = compose(preset or "base", config, settings) if given else None
            run.adopt(output, lambda saved: asked or with_settings(saved, settings))
            return
        if from_ is not None and preset is not None:
            raise UserError("--preset: a run --from a model has that model's settings; change single ones with --set")
        if from_ is None and (take or freeze):
            raise UserError("--take and --freeze go with --from MODEL")
        old = None if from_ is None else load_config(from_)
        begun = {"model": str(from_), "take": list(take or []), "freeze": list(freeze or [])}
        changed = settings if from_ is None else [f"start={as_json(begun)}", *settings]
        listed = (compose_from(old, config, changed) if old else compose(preset or "base", config, changed)).data
        missing = [
            option
            for part, (sides, both) in files.items()
            for option, paths in sides.items()
            if not paths and (any(sides.values()) or not (both or getattr(listed, part)))
        ]
        if missing:
            nothing = f" ({output} holds no run to resume)" if resume else ""
            raise UserError(f"A new run needs {', '.join(missing)}{nothing}")
        data = DataConfig(**{part: (*getattr(listed, part), *corpora_of(*of_part)) for part, of_part in files.items()})
        if old is not None:
            before, composed = compose_from(old), compose_from(old, config, changed)
        else:
            start = preset or ("base" if config else chosen_preset(processes.device, data.train))
            composed = compose(start, config, changed)
            before = preset_of(start, composed)
        warn_of_changes_without_effect(before, composed, reporter)
        run.begin(data, output, composed, reporter)

    with (
        together(device) as processes,
        processes.first_has(run.alone, output),  # from the first byte that is written to the last
        keeping_streams(),
    ):
        processes.first_does(begin_or_resume)
        stopped_by = run.train(output, processes.device, reporter, processes)
    if stopped_by:
        if processes.is_first:
            command = f"ssmt train --output {shlex.quote(str(output))} --resume"
            reporter.say(f"Stopped by {stopped_by}; everything is saved. Go on with:\n  {command}")
        raise typer.Exit(exit_status(stopped_by))


@app.command("config", cls=Verb)
def show_config(
    preset: Annotated[Preset, typer.Option(metavar="NAME", help="Whose values: tiny, small or base.")] = "base",
    model: Annotated[
        str, typer.Option(metavar="KIND", help=f"Of which model: {Config.model_fields['model'].description}.")
    ] = "ssmt",
) -> None:
    """Print a complete, commented configuration as YAML."""
    from ssmt.registry import kind_of

    config = compose(preset, settings=[f"model={model}"])
    kind_of(config)
    typer.echo(commented_yaml(config), nl=False)
