"""One table of results, written as Markdown, LaTeX or for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table as TerminalTable
from rich.text import Text

LONGEST_NAME = 24  # of a system, that a terminal does not break

# What LaTeX would read as a command, and the one arrow that our headings use.
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "↓": r"$\downarrow$"}
    | {"±": r"$\pm$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A score as the paper's Table 3 prints it: the best underlined, what is not significantly worse bold."""

    text: str
    underlined: bool = False
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names the systems, the others hold numbers; notes say how the numbers were made."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "every row has one cell a column"


def markdown(table: Table) -> str:
    """A GitHub table. `<ins>` is the underline that GitHub lets through; `<u>` is not."""

    def cell(value: Cell) -> str:
        text = value.text.replace("\\", "\\\\").replace("|", "\\|")
        text = f"**{text}**" if value.bold and text else text
        return f"<ins>{text}</ins>" if value.underlined and text else text

    def row(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [f"**{table.title}**", ""] if table.title else []
    lines += [row(cell(Cell(column)) for column in table.columns), row(["---"] + ["---:"] * (len(table.columns) - 1))]
    lines += [row(map(cell, cells)) for cells in table.rows]
    lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A `table` environment with booktabs' rules; the document needs `\\usepackage{booktabs}`."""

    def cell(value: Cell) -> str:
        text = value.text.translate(_LATEX)
        text = rf"\textbf{{{text}}}" if value.bold and text else text
        return rf"\underline{{{text}}}" if value.underlined and text else text

    head = " & ".join(rf"\textbf{{{column.translate(_LATEX)}}}" for column in table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
    lines += [head + r" \\", r"\midrule"]
    lines += [" & ".join(map(cell, cells)) + r" \\" for cells in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\caption{{{table.title.translate(_LATEX)}}}"] if table.title else []
    lines += [r"\end{table}", *(f"% {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def terminal(table: Table) -> TerminalTable:
    """For a rich console. Texts are not markup: a system may be called `[bold]`."""
    result = TerminalTable(
        title=Text(table.title) if table.title else None,
        caption=Text("\n".join(table.notes)) if table.notes else None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        collapse_padding=True,  # room for words: 80 columns are few
        pad_edge=False,
    )
    widest_name = max((len(row[0].text) for row in table.rows), default=0)
    for number, column in enumerate(table.columns):
        if number == 0:  # a narrow terminal folds numbers before it swallows names
            result.add_column(Text(column), no_wrap=widest_name <= LONGEST_NAME, overflow="fold")
        else:
            result.add_column(Text(column), justify="right", overflow="fold")
    for row in table.rows:
        result.add_row(*(Text(cell.text, style=_style(cell)) for cell in row))
    return result


def _style(cell: Cell) -> str:
    return " ".join(style for style, on in (("bold", cell.bold), ("underline", cell.underlined)) if on)
