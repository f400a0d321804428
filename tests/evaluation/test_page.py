"""The page of a report: what it shows, that it needs nothing from outside, and that it suits light and dark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from ssmt.errors import UserError
from ssmt.evaluation import plots
from ssmt.evaluation.composition import Subset
from ssmt.evaluation.examples import Hues, SegmentedText, evenly_spaced, example_html
from ssmt.evaluation.morphology import PrecisionRecallCurve
from ssmt.evaluation.page import Page, Plot, table_html
from ssmt.evaluation.tables import Cell, Table


class Checked(HTMLParser):
    """Notes everything that a browser would fetch, all ids, and whether every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._note(attrs)

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "srcset") and not (value or "").startswith("#"):
                self.fetched.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def figures() -> list[Plot]:
    thresholds, zeros = np.array([0.9, 0.5, 0.1]), np.array([80.0, 60.0, 40.0])
    curve = PrecisionRecallCurve(thresholds, zeros, np.array([20.0, 50.0, 90.0]), np.array([32.0, 54.5, 55.4]))
    points = [50, 100], [3.0, 1.5]
    subset = Subset((3, 1), 0.2, (0.5, 0.3), (0.4, 0.2), 10, 0)
    return [
        Plot("learning", plots.learning_curve({"one": points, "two": points}, {"one": points}, "x", "y"), "Learning"),
        Plot("curve", plots.precision_recall({"one": curve}, {"one": (60, 50), "two": (30, 70)}), "Curve"),
        Plot(
            "bars", plots.bars({"0.2": {"one": 50.0, "two": 40.0}, "0.3": {"one": 45.0, "two": 41.0}}, "chrF"), "Bars"
        ),
        Plot("growth", plots.growth([subset, subset]), "Growth"),
        Plot("lines", plots.lines({"one": ([1, 5], [40.0, 42.0])}, "beam", "chrF"), "Lines"),
        Plot("words", plots.categories({"one": (["1", "a"], [40.0, 42.0])}, "layers", "chrF"), "Words"),
    ]


def test_the_page_is_whole_and_needs_nothing_from_outside(figures: list[Plot], tmp_path: Path) -> None:
    page = Page("<b>runs</b> & more", "about")
    with page.section("Plots & co", "text"):
        page.plots(figures)
        page.translations("a < b", {"reference": "c & d"})
    files = page.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checked = Checked(text)
    assert checked.open == []
    assert checked.fetched == []
    assert "script" not in checked.tags
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(checked.ids) == len(set(checked.ids)), "no two plots share an id"
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert referred <= set(checked.ids)
    assert "&lt;b&gt;runs&lt;/b&gt; &amp; more" in text
    assert "a &lt; b" in text
    assert len(files) == 1 + 2 * len(figures)
    for file in files[1:]:
        start = file.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if file.suffix == ".png" else b"<?xml" in start


def test_plots_on_the_page_have_no_colours_of_their_own(figures: list[Plot]) -> None:
    style = (Path(plots.__file__).parent / "report.css").read_text()
    for plot in figures:
        svg = plots.inline_svg(plot.figure, plot.title, plot.name)
        assert set(re.findall(r"#[0-9a-fA-F]{6}\b", svg)) == set(), plot.name
        for variable in set(re.findall(r"var\((--[\w-]+)\)", svg)):
            assert len(re.findall(f"{variable}:", style)) == 2, f"{variable} has a light and a dark value"


def test_the_same_numbers_give_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plots.save(plots.lines({"x": ([1, 2], [3.0, 4.0])}, "beam", "chrF"), tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_plots_are_refused_early(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.png, \.svg or \.pdf"):
        plots.require(tmp_path / "plot.gif")
    with pytest.raises(UserError, match="there is no directory"):
        plots.require(tmp_path / "absent" / "plot.png")


def test_tables_are_escaped_and_marked() -> None:
    table = Table(("System", "F1"), ((Cell("<x>"), Cell("1.0 [0.5, 1.5]", underlined=True, bold=True)),), "T", ("n",))
    assert table_html(table) == (
        '<div class="table"><table><caption>T</caption>'
        '<thead><tr><th scope="col">System</th><th scope="col">F1</th></tr></thead>'
        '<tbody><tr><td>&lt;x&gt;</td><td class="best bold">1.0<small>[0.5, 1.5]</small></td></tr></tbody>'
        '</table></div><ul class="notes"><li>n</li></ul>'
    )


def test_an_example_worked_by_hand() -> None:
    """`abab c.` cut as ab|ab, gold a|bab: a bar at each posterior of at least 0.02, right or wrong by the gold."""
    one = SegmentedText("s", "abab c.", frozenset({2, 4, 5, 6}), [0, 0.3, 0.9, 0.01, 1, 1, 1, 1])
    html = example_html("A < B", [one], frozenset({1}), Hues(), name_systems=False)
    assert '<p class="source">A &lt; B</p>' in html
    bars = re.findall(r'<i class="(\w+)" style="--c:(\d);--p:([\d.]+)" title="cut here: \3"></i>', html)
    assert bars == [("right", "1", "0.30"), ("wrong", "2", "0.90")]
    segments = re.findall(r'<span class="(segment|gold)" style="--c:(\d);--w:(\d);--h:(\d+)">(\w+)</span>', html)
    assert [(row, start, width, text) for row, start, width, _, text in segments] == [
        ("segment", "1", "2", "ab"),
        ("segment", "3", "2", "ab"),
        ("gold", "1", "1", "a"),
        ("gold", "2", "3", "bab"),
        ("segment", "1", "1", "c"),
        ("gold", "1", "1", "c"),
    ]
    hues = {text: hue for *_, hue, text in segments}
    assert len(set(hues.values())) == 4, "a colour for each of ab, a, bab, c"
    assert {hue for *_, hue, text in segments if text == "ab"} == {hues["ab"]}
    assert '<span class="mark">.</span>' in html


def test_examples_come_from_all_over_the_text() -> None:
    assert evenly_spaced(["a"] * 10, 2) == [2, 7]
    assert evenly_spaced(["", "a", "b" * 200, "c"], 5) == [1, 3]
    assert evenly_spaced(["b" * 200], 5) == [0]
    assert evenly_spaced([], 5) == []


def test_plots_of_the_page_that_is_replaced_go_with_it(figures: list[Plot], tmp_path: Path) -> None:
    folder = tmp_path / "report_plots"
    for shown in (figures, figures[:1]):
        page = Page("runs", "about")
        with page.section("Plots"):
            page.plots(shown)
        page.write(tmp_path / "report.html")
        (folder / "mine.svg").touch()
    assert {path.name for path in folder.iterdir()} == {"learning.svg", "learning.png", "mine.svg"}


def test_a_model_that_is_always_sure_is_a_point_and_no_curve() -> None:
    sure = PrecisionRecallCurve(np.array([1.0, 0.0]), np.array([60.0, 30.0]), np.array([50.0, 100.0]), np.ones(2))
    axes = plots.precision_recall({"bpe": sure}, {"bpe": (60.0, 50.0)}).axes[0]
    own = [line for line in axes.lines if line.get_label() == "bpe: F1 54.5"]
    assert [(list(line.get_xdata()), line.get_linestyle()) for line in own] == [([50.0], "None")]


def test_little_change_does_not_look_like_much() -> None:
    low, high = plots.learning_curve({"one": ([1, 2], [8.4, 8.1])}, {}, "x", "y").axes[0].get_ylim()
    assert high - low > 2
