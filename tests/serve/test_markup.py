"""What is text in HTML and XML, and that nothing else changes."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssmt.serve.markup import as_markup, fragments, is_address

PARTS = [
    *("<p>", "</p>", "<br/>", "<b class='x'>", "</b>", "<!--", "-->", "<script>", "</script>", "<", ">", '"', "'", "a"),
    *("&amp;", "&nbsp;", "&", "=", "<a href='https://x.org'>", "</a>", " ", "text", "<x id=1>", "</x>", "<![CDATA["),
]
MARKUP = st.lists(st.sampled_from(PARTS)).map("".join)


def texts(markup: str, *ignored: str) -> list[str]:
    return [fragment.text for fragment in fragments(markup, ignored) if fragment.text is not None]


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ("plain", ["plain"]),
        ("<p>One</p><p>Two</p>", ["One", "Two"]),
        ("a &lt; b &amp; c&eacute;", ["a < b & cé"]),
        ("1 < 2 is true", ["1 < 2 is true"]),
        ("<p>123 — &copy;</p>", []),
        ("<!-- no --> yes <!DOCTYPE html>", [" yes "]),
        ("<script>no <b> no</script>yes", ["yes"]),
        ("<SCRIPT>no</ScRiPt >yes", ["yes"]),
        ("<code>no <b>no</b></code> yes", [" yes"]),
        ("<p title='a > b'>yes</p>", ["yes"]),
        ("<p title=it's>yes</p>", ["yes"]),
        ('<span translate="no">no <span>no</span> no</span>yes', ["yes"]),
        ("<p class='a notranslate b'>no</p>yes", ["yes"]),
        ("<br translate=no>yes", ["yes"]),
        ('<a href="/">a page</a> yes', ["a page", " yes"]),
        ('<a href="u"><span class="invisible">https://</span><span>x.org/a</span></a> yes', [" yes"]),
        ('<a class="mention">@<span>someone</span></a> yes', [" yes"]),
        ("<a>#tag</a> <a>two words</a>", ["two words"]),
        ("half <b", ["half "]),
        ("<![CDATA[no]]>yes", ["yes"]),
    ],
)
def test_text_is_what_a_reader_reads(markup: str, found: list[str]) -> None:
    assert texts(markup) == found


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ("<link>yes</link> <code>yes</code>", ["yes", "yes"]),
        ("<_x>yes</_x><é:ß>yes</é:ß>", ["yes", "yes"]),
        ("1 <2 is <br>true", ["1 <2 is ", "true"]),
        ("<a>https://x.org</a>", ["https://x.org"]),
    ],
)
def test_names_mean_nothing_in_xml(markup: str, found: list[str]) -> None:
    pieces = fragments(markup, form="xml")
    assert [piece.text for piece in pieces if piece.text is not None] == found
    assert "".join(piece.raw for piece in pieces) == markup


def test_any_element_of_xml_can_be_ignored() -> None:
    pieces = fragments("<link>no</link><x>yes</x>", ["link"], form="xml")
    assert [piece.text for piece in pieces if piece.text is not None] == ["yes"]


def test_xml_is_written_without_the_entities_of_html() -> None:
    assert as_markup("a\xa0< b", "xml") == "a\xa0&lt; b"
    assert as_markup("a\xa0< b") == "a&nbsp;&lt; b"


def test_elements_can_be_ignored() -> None:
    assert texts('Save <x id="5"></x> as <X>no</X> now', "x") == ["Save ", " as ", " now"]


@settings(deadline=None)
@given(MARKUP)
@example("<a>" * 5)
@example("<script>")
def test_fragments_together_are_the_markup(markup: str) -> None:
    assert "".join(fragment.raw for fragment in fragments(markup)) == markup


class Reader(HTMLParser):
    """Python's own parser, as an oracle."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


ELEMENTS = st.recursive(
    st.text(st.sampled_from("ab <>&é\xa0\n"), max_size=5).map(as_markup),
    lambda inner: st.builds(
        lambda name, parts: f"<{name} title='&lt;>'>{''.join(parts)}</{name}>",
        st.sampled_from(["p", "b", "em", "a"]),
        st.lists(inner, max_size=3),
    ),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(ELEMENTS, max_size=4).map("".join))
def test_a_translation_changes_the_text_alone(markup: str) -> None:
    """Every letter a becomes <, which must not become a tag."""
    out = "".join(
        as_markup(part.text.replace("a", "<")) if part.text is not None else part.raw for part in fragments(markup)
    )
    before, after = Reader(), Reader()
    before.feed(markup)
    after.feed(out)
    before.close()
    after.close()
    assert after.tags == before.tags
    assert after.text == before.text.replace("a", "<")


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<!--", "<script>", "=", "<a>@", " class=", "<b title='", "&", "<a href="]
)
def test_no_input_takes_more_than_linear_time(piece: str) -> None:
    """Twenty times the text takes at most a hundred times as long, in processor time, with room for small numbers."""

    def seconds(times: int) -> float:
        markup = f"<p {piece * times}"
        began = time.process_time()
        fragments(markup)
        fragments(piece * times)
        return time.process_time() - began

    assert seconds(10_000) < 100 * seconds(500) + 0.5


def test_addresses() -> None:
    for text in ("https://x.org/a", "www.x.org", "a@b.org", "x.org/a", "@someone", "#tag", " @a "):
        assert is_address(text), text
    for text in ("", "and/or", "e.g.", "word", "two words", "Mr.Smith", "请访问https://x.org了解更多。"):
        assert not is_address(text), text
