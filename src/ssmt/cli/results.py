"""How the verbs of evaluation take their systems and give their results: tables, JSON, Markdown, LaTeX, plots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from ssmt.cli.shared import Verb, beginning_with
from ssmt.errors import UserError
from ssmt.evaluation import tables
from ssmt.evaluation.tables import Table
from ssmt.files import STANDARD_STREAM, as_json
from ssmt.outputs import open_for_writing
from ssmt.progress import print_wrapped
from ssmt.search.table import SEARCHES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["terminal", "json", "markdown", "latex"]
_FORMAT_OF = {".json": "json", ".md": "markdown", ".tex": "latex"}
_WIDTH_OF_FILES = 120  # columns of a table that no terminal folds

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, with everything there is to know.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
LatexOption = Annotated[bool, typer.Option("--latex", help="Print LaTeX (needs booktabs).")]
OutputOption = Annotated[
    str,
    typer.Option("--output", "-o", metavar="F", help="Where to write; F.json, F.md and F.tex choose their format."),
]
PlotOption = Annotated[
    Path | None, typer.Option(metavar="F", help="Also draw it: F.png, F.svg or F.pdf (needs the extra plots).")
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="[NAME=]DIR", help="A model directory; several are compared.", show_default=False),
]
SamplesOption = Annotated[int, typer.Option(min=0, max=100_000, metavar="N", help="Bootstrap samples; 0 draws none.")]
BEAM_SEARCHES = [search.name for search in SEARCHES.values() if search.has_beam]
SearchOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=beginning_with(BEAM_SEARCHES),
        help=f"How the models search for translations: {', '.join(BEAM_SEARCHES)}.",
        show_default="each model's own",
    ),
]
BeamOption = Annotated[int, typer.Option(min=1, metavar="N", help="Hypotheses kept by the search.")]


class ManyValues(Verb):
    """Options that can be given many times also take many values at once: `--beam 1 3` is `--beam 1 --beam 3`.

    Only for verbs without arguments of their own: those would be taken for further values.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        many = {name for parameter in self.params if getattr(parameter, "multiple", False) for name in parameter.opts}
        expanded: list[str] = []
        option: str | None = None
        values = 0  # of the option under way
        for argument in args:
            name, equals, _ = argument.partition("=")
            if re.fullmatch(r"--?[a-z].*", name):
                option, values = (name if name in many else None), int(bool(equals))
                expanded.append(argument)
                continue
            if option is not None and values:
                expanded.append(option)
            values += 1
            expanded.append(argument)
        return super().parse_args(ctx, expanded)


def named(values: Sequence[str] | None, option: str) -> dict[str, Path]:
    """`NAME=PATH` as a mapping; a path alone is called by its last part."""
    paths: dict[str, Path] = {}
    for value in values or []:
        name, equals, path = value.partition("=")
        if not equals or Path(value).exists():
            name, path = Path(value).stem if Path(value).is_file() else Path(value).resolve().name, value
        if not name or not path:
            raise UserError(f"{option} {value}: expected NAME=PATH, for example {option} mine=some/path")
        if name in paths:
            raise UserError(f"{option} {value}: another system is called {name!r} already. Give each NAME=PATH a name")
        paths[name] = Path(path)
    return paths


def chosen_format(json_: bool, markdown: bool, latex: bool, output: str = STANDARD_STREAM) -> Format:
    """What the flags say, else what the output's ending says."""
    flags: dict[Format, bool] = {"json": json_, "markdown": markdown, "latex": latex}
    chosen = [name for name, given in flags.items() if given]
    if len(chosen) > 1:
        raise UserError(f"--{' and --'.join(chosen)} exclude each other: choose one")
    if chosen:
        return chosen[0]
    return _FORMAT_OF.get(Path(output).suffix.lower(), "terminal")  # type: ignore[return-value]


def write_results(
    results: Sequence[Table], record: dict[str, Any], form: Format, output: str = STANDARD_STREAM
) -> None:
    with open_for_writing(output) as stream:
        if form == "json":
            stream.write(as_json(record, indent=2) + "\n")
        elif form == "terminal":
            console = Console(file=stream, highlight=False)
            if not console.is_terminal:
                console = Console(file=stream, highlight=False, width=_WIDTH_OF_FILES)
            for table in results:  # title and notes are not folded to the table's width
                print_wrapped(console, table.title, "italic")
                console.print(tables.terminal(replace(table, title="", notes=())))
                for note in table.notes:
                    print_wrapped(console, note)
                console.print()
        else:
            write = tables.markdown if form == "markdown" else tables.latex
            stream.write("\n".join(write(table) for table in results))


def require_plot(path: Path | None) -> None:
    """Whatever would keep a plot from being written is said before the work begins, not after it."""
    if path is not None:
        from ssmt.evaluation import plots

        plots.require(path)


def write_plot(figure: Figure, path: Path) -> None:
    from ssmt.evaluation import plots

    plots.save(figure, path)
