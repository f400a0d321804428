"""HTML and XML: what is text in them and what is not. Tags, comments and code stay as they are, to the character.

A scanner and no parser: what clients send need not be well-formed, and every character of it must come out again. Each
step goes forward, so that no input takes more than linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_TAG = {"html": re.compile(r"</?([A-Za-z][^\s/>]*)"), "xml": re.compile(r"</?((?:[^\W\d]|:)[^\s/>]*)")}
_TAG_END = re.compile(r"""=\s*["']|>""")
# Class names are looked at as far as anybody writes them: whatever a tag says must not take long.
_NO_TRANSLATION = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(["']?)[^"'>]{0,200}\bnotranslate\b""", re.I)
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_RAW = {"script", "style", "textarea"}  # whose content has no tags
VERBATIM = _RAW | {"code", "kbd", "samp", "var", "svg", "math"}  # whose content is no language
Markup = Literal["html", "xml"]  # of XML, no name of an element means anything


@dataclass(frozen=True)
class Fragment:
    """A piece of the input; `text` is what it says, where it is text to be translated."""

    raw: str
    text: str | None = None


def fragments(markup: str, ignored: Collection[str] = (), form: Markup = "html") -> list[Fragment]:
    """The pieces of a markup, which together are the markup; `ignored` are elements to be left alone besides ours."""
    is_html = form == "html"
    tokens = list(_tokens(markup, form))
    pieces: list[Fragment] = []
    leave = (VERBATIM if is_html else set()) | {name.lower() for name in ignored}
    inside: str | None = None  # the element that is left alone
    depth = 0
    place = 0
    while place < len(tokens):
        raw, tag = tokens[place]
        if tag is None:
            text = html.unescape(raw) if inside is None else None
            pieces.append(Fragment(raw, text if text and any(map(str.isalpha, text)) else None))
        else:
            pieces.append(Fragment(raw))
            opens = bool(tag) and not raw.startswith("</") and not raw.endswith("/>")
            opens = opens and not (is_html and tag in _VOID)
            if inside is not None and tag == inside:
                depth += 1 if opens else -int(raw.startswith("</"))
                inside = inside if depth else None
            elif inside is None and opens and (tag in leave or _NO_TRANSLATION.search(raw)):
                inside, depth = tag, 1
            elif inside is None and opens and is_html and tag == "a":
                end = _end_of_link(tokens, place + 1)
                if is_address(html.unescape("".join(raw for raw, tag in tokens[place + 1 : end] if tag is None))):
                    pieces += [Fragment(raw) for raw, _ in tokens[place + 1 : end]]
                    place = end - 1
        place += 1
    return pieces


def as_markup(text: str, form: Markup = "html") -> str:
    """A text as it is written in markup."""
    escaped = html.escape(text, quote=False)
    return escaped.replace("\xa0", "&nbsp;") if form == "html" else escaped  # which XML does not know


def is_address(text: str) -> bool:
    """Whether a text is one address, mention or hashtag, which mean the same in all languages."""
    text = text.strip()
    if not text or any(map(str.isspace, text)):
        return False
    has_dot = re.search(r"\w\.\w", text) is not None
    begins = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None
    return (
        text[0] in "@#"
        or begins
        or (text[0].isascii() and has_dot and ("@" in text or "/" in text or text.startswith("www.")))
    )


def _end_of_link(tokens: Sequence[tuple[str, str | None]], place: int) -> int:
    while place < len(tokens) and tokens[place][1] != "a":
        place += 1
    return place


def _tokens(markup: str, form: Markup) -> Iterator[tuple[str, str | None]]:
    """Text (None), and tags with their names in small letters ("" for comments and the like)."""
    place = start = 0
    while (place := markup.find("<", place)) >= 0:
        end, name = _end_of_tag(markup, place, form)
        if name is None:
            place += 1  # a mere sign
            continue
        if start < place:
            yield markup[start:place], None
        yield markup[place:end], name
        if form == "html" and name in _RAW and markup[place + 1] != "/" and not markup.endswith("/>", place, end):
            found = re.compile(rf"</{name}\b", re.I).search(markup, end)
            close = found.start() if found else len(markup)
            if close > end:
                yield markup[end:close], ""
            end = close
        place = start = end
    if start < len(markup):
        yield markup[start:], None


def _end_of_tag(markup: str, place: int, form: Markup) -> tuple[int, str | None]:
    """Where the tag that begins here ends, and its name; none for a sign that begins no tag."""
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">")):
        if markup.startswith(opening, place):
            end = markup.find(closing, place + len(opening))
            return (len(markup) if end < 0 else end + len(closing)), ""
    tag = _TAG[form].match(markup, place)
    if tag is None:
        return place, None
    end = tag.end()
    while (found := _TAG_END.search(markup, end)) is not None:
        if found[0] == ">":
            return found.end(), tag[1].lower()
        end = markup.find(found[0][-1], found.end()) + 1
        if not end:
            break
    return len(markup), tag[1].lower()
