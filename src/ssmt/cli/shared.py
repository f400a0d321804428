"""What the verbs share: the application, common options, reading and writing line by line."""

from __future__ import annotations

import inspect
import os
import re
import signal as signals
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
import typer.core

from ssmt.config import OTHER_NAMES, CorpusConfig
from ssmt.errors import UserError, renumbered
from ssmt.files import as_json, count_in
from ssmt.progress import Reporter, TerminalReporter, plural, tracked
from ssmt.records import Record, has_content
from ssmt.text.lines import read_lines, read_parallel

if TYPE_CHECKING:
    import torch

    from ssmt.config import Preset
    from ssmt.translator import Translator

VERBS = (
    "demo",
    "clean",
    "train",
    "backtranslate",
    "translate",
    "segment",
    "score",
    "evaluate",
    "morphology",
    "compositional",
    "report",
    "sweep",
    "serve",
    "api-key",
    "config",
    "doctor",
)
# What people ask for that other programs have.
OTHER_VERBS = {
    **dict.fromkeys(("generate", "interactive", "decode", "predict", "infer"), "`ssmt translate MODEL` translates"),
    **dict.fromkeys(("test", "eval"), "`ssmt evaluate` scores translations"),
    **dict.fromkeys(("tokenize", "tokenise"), "`ssmt segment MODEL` cuts words; nothing need be tokenised"),
    **dict.fromkeys(("preprocess", "binarize", "build-vocab"), "`ssmt train` takes text files as they are"),
}


def without_types(parameters: list[Any]) -> list[Any]:
    """As help shows them: each option names what it takes (`metavar`) in its own words, a switch takes nothing, and no
    Python type is shown."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif isinstance(parameter, typer.core.TyperArgument):
            setattr(parameter, "display_type_rich", lambda ctx: None)  # noqa: B010 (not in every version of typer)
    return parameters


class Verbs(typer.core.TyperGroup):
    """Lists the verbs in the order in which a person meets them."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: VERBS.index(name) if name in VERBS else len(VERBS))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in OTHER_VERBS and args[0] not in self.commands:
            raise UserError(f"There is no verb {args[0]!r}: {OTHER_VERBS[args[0]]}")
        return super().resolve_command(ctx, args)


USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # what an unknown option raises, wherever typer has it from


class Verb(typer.core.TyperCommand):
    """Every verb is one. An option that holds one value is refused when it is given twice: the first would be lost."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # A terminal folds help to its width; line breaks of the docstring would stay.
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(self.help or ""))

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with said_once():
            return self._parsed(ctx, args)

    def _parsed(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # which is how the shell completes
            try:
                _, _, given = self.make_parser(ctx).parse_args(list(args))
            except USAGE_ERROR as error:
                self._answer(error)
                raise
            for option in given:
                holds_one = isinstance(option, typer.core.TyperOption) and not (option.multiple or option.is_flag)
                if holds_one and (times := given.count(option)) > 1:
                    raise UserError(f"{max(option.opts, key=len)} is given {times} times and holds one value")
        return super().parse_args(ctx, args)

    def _answer(self, error: Any) -> None:
        """An option that other toolkits have is answered by ours."""
        asked = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
        if setting := OTHER_NAMES.get(asked):
            option = f"--{setting.rpartition('.')[2].replace('_', '-')}"
            options = {name for parameter in self.params for name in parameter.opts}
            if option in options or "--set" in options:
                error.possibilities = [option if option in options else f"--set {setting}=..."]


@contextmanager
def said_once() -> Iterator[None]:
    """Of several processes with the same arguments (`torchrun`), one says what is wrong with them."""
    try:
        yield
    except (USAGE_ERROR, UserError) as error:
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        from ssmt.training.distributed import together

        def fail(raised: Exception = error) -> NoReturn:
            raise raised

        with together("cpu") as processes:
            processes.first_does(fail)


app = typer.Typer(
    cls=Verbs,
    name="ssmt",
    help="Subword Segmental Machine Translation: one model that learns to translate and where to cut words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
WIDEST = 10_000  # columns of a terminal


def forget_odd_widths() -> None:
    """Of terminals, in the environment: rich and typer fail on what is no number, and show nothing in no columns."""
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        if name in os.environ and not 1 <= (count_in(os.environ[name]) or 0) <= WIDEST:
            del os.environ[name]


forget_odd_widths()  # before the first console reads them
reporter = TerminalReporter()

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)]
ModelsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="MODEL", help="A model directory; several translate together.", show_default=False),
]
SourceOption = Annotated[str, typer.Option(metavar="F", help="Source text, one sentence a line; - is standard input.")]
TargetOption = Annotated[str, typer.Option(metavar="F", help="Target text, line i belongs to source line i.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", metavar="F", help="Where to write; - is standard output.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
AllowUnknownOption = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept characters that the model has never seen, as <unk>.")
]
PretokenisedOption = Annotated[
    bool, typer.Option("--pretokenised", help="The source is already split into the model's subwords, by blanks.")
]
ToOption = Annotated[
    str | None,
    typer.Option(metavar="CODE", help="The target language, of a model that has several.", show_default=False),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads.", show_default="all cores")]
TrainingThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="CPU threads.", show_default="one for a small network, else all cores"),
]
DeviceOption = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda (or cuda:1), mps.")]
BatchOption = Annotated[int, typer.Option(min=1, metavar="N", help="Target characters of a batch.")]

BLOCK = 2000  # lines that are read, computed and written together


def beginning_with(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Completes an option that takes one of these."""

    def complete(incomplete: str) -> list[str]:  # typer goes by the parameter's name
        return [name for name in names if name.startswith(incomplete)]

    return complete


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        from ssmt.devices import THREADS

        if threads > (most := max(64, 4 * (os.cpu_count() or 1))):
            raise UserError(
                f"--threads {threads}: this machine has {os.cpu_count()} cores; at most {most} can be asked for"
            )
        torch.set_num_threads(threads)
        os.environ[THREADS] = str(threads)


def chosen_preset(device: torch.device, corpora: Sequence[CorpusConfig]) -> Preset:
    """The preset for training corpora, where none is asked for."""
    from ssmt.training.presets import choose_preset

    chosen, why = choose_preset(device, corpora)
    reporter.say(f"{why}; --preset takes another")
    return chosen


def corpora_of(sides: dict[str, list[str] | None], both: Sequence[str] | None) -> Iterator[CorpusConfig]:
    """The corpora that options name: one of files for each side, one of files with both."""
    counts = {option: len(paths or ()) for option, paths in sides.items()}
    if len({*counts.values()}) > 1:
        listed = " and ".join(f"{option} {plural(count, 'time')}" for option, count in counts.items())
        raise UserError(f"There must be as many files of one side as of the other: {listed}")
    source, target = sides.values()
    if source and target:
        yield CorpusConfig(source=tuple(source), target=tuple(target))
    if both:
        yield CorpusConfig(pairs=tuple(both))


def reporter_beside(stream: TextIO) -> Reporter:
    """Of progress while answers are written: none where they go to a terminal, whose lines a bar would touch, or into a
    pipe (`| head`), at whose end there may be one."""
    return Reporter() if stream.isatty() or _is_pipe(stream) else reporter


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # text in memory, which has no number
        return False


def exit_status(signal: str) -> int:
    """The status of a program that a signal ended, as shells have it."""
    return 128 + signals.Signals[signal].value


def load_translator(
    model: Path | list[Path],
    device: str,
    threads: int | None,
    pretokenised: bool = False,
    int8: bool = False,
    to: str | None = None,
) -> Translator:
    from ssmt.ensemble import EnsembleTranslator
    from ssmt.translator import Translator

    set_threads(threads)
    models = [model] if isinstance(model, Path) else model
    if len(models) > 1:
        translator: Translator = EnsembleTranslator.of(models, device, pretokenised, int8)
    else:
        translator = Translator.load(models[0], device, pretokenised, int8)
    if to is None and translator.languages:
        raise UserError(f"{models[0]}: translates into {', '.join(translator.languages)}; --to says into which")
    return translator if to is None else translator.into(to)


def read_pairs(source: str | None, target: str) -> tuple[list[str] | None, list[str]]:
    if source is None:
        return None, read_lines(target)
    return read_parallel(source, target)


def over_lines(
    sources: Sequence[str] | None,
    targets: Sequence[str],
    of_block: Callable[[list[int]], list[Record]],
    title: str,
    stream: TextIO,
    empty_targets: bool = False,
) -> Iterator[tuple[int, Record | None]]:
    """Every line with its record, in order; an empty source (or target, unless it may be empty) has none and gives an
    empty line. `stream` is where they will be written."""

    for first in tracked(reporter_beside(stream), range(0, len(targets), BLOCK), title, -(-len(targets) // BLOCK)):
        block = range(first, min(first + BLOCK, len(targets)))
        rows = [
            row for row in block if has_content(None if sources is None else sources[row], targets[row], empty_targets)
        ]
        with renumbered([row + 1 for row in rows]):
            records = dict(zip(rows, of_block(rows) if rows else [], strict=True))
        for row in block:
            yield row, records.get(row)


def write_json(stream: TextIO, record: dict[str, Any]) -> None:
    stream.write(as_json(record) + "\n")
