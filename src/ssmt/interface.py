"""Training from Python in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ssmt.config import Preset, compose, compose_from, preset_of
from ssmt.directory import load_config
from ssmt.errors import Stopped, UserError
from ssmt.files import as_json
from ssmt.progress import Reporter, reporter_here
from ssmt.registry import warn_of_changes_without_effect
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.distributed import together
from ssmt.training.presets import choose_preset
from ssmt.translator import Translator


def train(
    source: str | Path,
    target: str | Path,
    valid_source: str | Path,
    valid_target: str | Path,
    output: str | Path,
    *,
    model: str | None = None,
    preset: Preset | None = None,
    config: str | Path | None = None,
    settings: Sequence[str] = (),
    max_minutes: float | None = None,
    max_updates: int | None = None,
    max_epochs: int | None = None,
    seed: int | None = None,
    start: str | Path | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Translator:
    """Train a model on text files, line i of one being the translation of line i of the other, and load it.

        model = ssmt.train("train.en", "train.zu", "dev.en", "dev.zu", "runs/zulu", max_minutes=15)
        model.translate(["Ministers discussed the report."]).texts

    `model` is the kind of model: ssmt (the default), bpe, ulm or dpe. `start` is a model directory to begin with: its
    weights, its vocabulary and its settings (`docs/data.md`).
    `output` is the new model's directory. Called again with the same arguments, a run that was stopped goes on, and one
    that is over is only loaded. `preset` is tiny, small or base (none: chosen by device and data); `config` is a YAML
    file of settings, `settings` are single ones ("training.learning_rate=0.001"). Progress is shown below a notebook's
    cell or on standard error; `ssmt.progress.Reporter()` shows none. Ctrl-C, or a kernel's interrupt, saves and raises
    `ssmt.errors.Stopped`.
    """
    reporter = reporter or reporter_here()
    limits = {"max_minutes": max_minutes, "max_updates": max_updates, "max_epochs": max_epochs, "seed": seed}
    given = [f"training.{key}={value}" for key, value in limits.items() if value is not None]
    given += [f"model={model}"] if model is not None else []
    files = TrainingFiles(*(Path(path) for path in (source, target, valid_source, valid_target)))

    def begin_or_adopt() -> None:
        if start is not None:
            if preset is not None:
                raise UserError("preset: a run that begins with a model has that model's settings; leave it out")
            old = load_config(Path(start))
            begun = f"start={as_json({'model': str(start)})}"
            before, chosen = compose_from(old), compose_from(old, config, [begun, *settings, *given])
        else:
            base: Preset = preset or "base"
            if preset is None and config is None:
                base, why = choose_preset(processes.device, files.data.train)
                reporter.say(why)
            chosen = compose(base, config, [*settings, *given])
            before = preset_of(base, chosen)
        warn_of_changes_without_effect(before, chosen, reporter)
        run.begin_or_adopt(files, Path(output), chosen, reporter)

    with together(device) as processes:
        processes.first_does(begin_or_adopt)
        if stopped_by := run.train(Path(output), processes.device, reporter, processes):
            raise Stopped(stopped_by)
        return Translator.load(output, str(processes.device))
