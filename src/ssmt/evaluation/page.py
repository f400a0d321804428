"""One self-contained page of results: no scripts, no fonts, nothing from a network. Its plots also lie beside it.

page = Page("runs/zulu", "Three models of English to Zulu")
with page.section("Translation", "300 sentences of the test set"):
    page.table(table)
    page.plots([Plot("chrf", figure, "chrF", "of each subset")])
page.write("report.html")          # and report_plots/chrf.svg, report_plots/chrf.png
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ssmt.errors import UserError
from ssmt.evaluation import plots
from ssmt.evaluation.tables import Cell, Table
from ssmt.outputs import open_for_writing
from ssmt.progress import Reporter, plural
from ssmt.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A figure, the name of its files, and what stands above and below it."""

    name: str
    figure: Figure
    title: str
    caption: str = ""


class Page:
    """Sections in the order in which they are added; `about` stands below the title."""

    def __init__(self, title: str, about: str) -> None:
        self.title, self.about = title, about
        self.figures: list[Plot] = []
        self._sections: list[tuple[str, list[str]]] = []

    @contextmanager
    def section(self, title: str, text: str = "") -> Iterator[None]:
        self._sections.append((title, [f"<p>{escape(text)}</p>"] if text else []))
        yield

    def html(self, fragment: str) -> None:
        """Finished HTML: whoever made it has escaped its texts."""
        self._sections[-1][1].append(fragment)

    def finding(self, sentence: str) -> None:
        """What came out, before the numbers that show it."""
        if sentence:
            self.html(f'<p class="finding">{escape(sentence)}</p>')

    def table(self, table: Table) -> None:
        self.html(table_html(table))

    @contextmanager
    def columns(self, narrow: bool = False) -> Iterator[None]:
        """What is added inside stands side by side where there is room: two sentences, or several words (`narrow`)."""
        self.html(f'<div class="columns{" narrow" if narrow else ""}">')
        yield
        self.html("</div>")

    def plots(self, figures: Iterable[Plot], beside: Sequence[Table] = ()) -> None:
        """Plots side by side where there is room, and tables beside the last one."""
        elements = []
        for plot in figures:
            assert plot.name not in [other.name for other in self.figures], "every plot has files of its own"
            self.figures.append(plot)
            svg = plots.inline_svg(plot.figure, escape(plot.title), plot.name)
            caption = f"<figcaption>{escape(plot.caption)}</figcaption>" if plot.caption else ""
            elements.append(f"<figure><h3>{escape(plot.title)}</h3>{svg}{caption}</figure>")
        if beside:
            elements.append(f"<div>{''.join(map(table_html, beside))}</div>")
        self.html(f'<div class="plots">{"".join(elements)}</div>')

    def translations(self, source: str | None, lines: Mapping[str, str]) -> None:
        """One sentence as every system translates it."""
        rows = dict(lines) if source is None else {"source": source, **lines}
        texts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows.items())
        self.html(f'<dl class="translations">{texts}</dl>')

    def render(self) -> str:
        style = resources.files("ssmt.evaluation").joinpath("report.css").read_text(encoding="utf-8")
        links, sections = [], []
        for title, content in self._sections:
            anchor = re.sub(r"\W+", "-", title.lower())
            links.append(f'<a href="#{anchor}">{escape(title)}</a>')
            sections.append(f'<section id="{anchor}"><h2>{escape(title)}</h2>{"".join(content)}</section>')
        made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{style}</style></head><body><main>"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.about)}</p><nav>{''.join(links)}</nav></header>"
            f"{''.join(sections)}<footer>Made by ssmt {__version__}, {made}.</footer></main></body></html>\n"
        )

    def write(self, path: str | Path, reporter: Reporter | None = None) -> list[Path]:
        """The page, and each plot as SVG and PNG in a folder beside it. Returns all files."""
        path = Path(path)
        folder = path.with_name(f"{path.stem}_plots")
        files = [path]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.figures:
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"{error.filename}: cannot be made a directory ({error.strerror})") from None
        earlier = _plots_of(path)
        with open_for_writing(path) as stream:
            stream.write(self.render())
        for plot in self.figures:
            for ending in ("svg", "png"):
                files.append(folder / f"{plot.name}.{ending}")
                plots.save(plot.figure, files[-1])
        for name in earlier - {plot.name for plot in self.figures}:  # of the page that this one replaces
            for ending in ("svg", "png"):
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
        (reporter or Reporter()).say(f"Written: {path}, and {plural(len(files) - 1, 'plot')} in {folder.name}")
        return files


def _plots_of(page: Path) -> set[str]:
    """The plots of a page that was written before: its drawings carry their names."""
    if not page.is_file():
        return set()
    return set(re.findall(r'<g id="([\w-]+)-figure_1"', page.read_text(encoding="utf-8", errors="replace")))


def table_html(table: Table) -> str:
    def cell(value: Cell) -> str:
        kinds = " ".join(kind for kind, on in (("best", value.underlined), ("bold", value.bold)) if on)
        text = re.sub(r" (\[[^]]*\])$", r"<small>\1</small>", escape(value.text))  # an interval goes below its score
        return f'<td class="{kinds}">{text}</td>' if kinds else f"<td>{text}</td>"

    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in table.rows)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    return (
        f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}'
    )
