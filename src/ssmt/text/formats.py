"""Sentence pairs as people have them: two files of lines, TSV, JSON lines, TMX, each of them compressed or not.

| | |
|---|---|
| two files | line i of one is the translation of line i of the other |
| TSV | source, target and, in a third column if there is one, the code of the target language |
| JSON lines | `{"source": ..., "target": ...}` (and the languages), or `{"translation": {"en": ..., "zu": ...}}` |
| TMX | the segments of each `<tu>`: the source language's, with the target language's or those of all others |

What a file is, its name says, before endings such as `.gz`; where the name says nothing, its first character does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TextIO
from xml.parsers import expat

from ssmt.config import CorpusConfig, language_code
from ssmt.errors import UserError
from ssmt.files import (
    DAMAGED,
    LONGEST_LINE,
    STANDARD_STREAM,
    as_json,
    decompressed,
    is_text,
    name_of,
    open_for_reading,
    parse_json,
    reason,
)
from ssmt.outputs import open_for_writing
from ssmt.text.lines import normalise, require_equal_lengths, stream_lines

Format = Literal["tsv", "jsonl", "tmx"]
FORMATS: dict[str, Format] = {
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".tmx": "tmx",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
BLOCK = 1 << 16  # bytes of XML that are parsed together
LONGEST_TAG = 1 << 20  # bytes; of a tag or comment that does not end, the parser would keep all
DEEPEST = 100  # tags inside tags
LINE_BREAK = re.compile(r"\r?\n")
WHITE_SPACE = re.compile(r"[ \t\r\n]+")  # XML's: how a file is indented is nothing of its text
NOT_TEXT = ("bpt", "ept", "it", "ph", "ut")  # what a TMX segment holds besides text: codes of a word processor


class RawPair(NamedTuple):
    """A pair as a file has it, NFC apart."""

    file: str  # the one that has the source
    other: str  # the one that has the target; the same for formats of both sides
    line: int
    source: str
    target: str
    source_language: str | None = None
    target_language: str | None = None
    origin: str | None = None


def stream_pairs(corpus: CorpusConfig) -> Iterator[RawPair]:
    """All pairs of a corpus, in the order of its files."""
    for source, target in zip(corpus.source, corpus.target, strict=True):
        yield from _two_files(source, target)
    for path in corpus.pairs:
        yield from _READERS[format_of(path)](path, corpus)


def files_of(corpus: CorpusConfig) -> Iterator[str]:
    yield from (*corpus.source, *corpus.target, *corpus.pairs)


def format_of(path: str | Path) -> Format:
    """By the file's name or, where that says nothing, by its first character."""
    name = Path(path)
    if name.suffix.lower() in COMPRESSIONS:
        name = name.with_suffix("")
    if name.suffix.lower() in FORMATS:
        return FORMATS[name.suffix.lower()]
    try:
        with open_for_reading(path) as stream:
            first = decompressed(stream).read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    except DAMAGED as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{name_of(path)}, line 1: cannot be read; the file is damaged ({reason(error)})") from None
    return {b"{": "jsonl", b"<": "tmx"}.get(first, "tsv")  # type: ignore[return-value]


class PairWriter:
    """Writes pairs to one file, TSV (three columns where the target's language is known) or JSON lines by its name; or
    to two files of lines."""

    def __init__(self, streams: Sequence[TextIO], as_json_lines: bool) -> None:
        self.streams, self.as_json_lines = streams, as_json_lines
        self.columns = 0

    @classmethod
    @contextmanager
    def open(cls, paths: Sequence[str]) -> Iterator[PairWriter]:
        as_json_lines = False
        if len(paths) == 1:
            written = FORMATS.get(Path(paths[0]).suffix.lower(), "tsv" if paths[0] == STANDARD_STREAM else None)
            if written not in ("tsv", "jsonl"):
                raise UserError(f"{paths[0]}: pairs are written as .tsv or .jsonl; name such a file")
            as_json_lines = written == "jsonl"
        with ExitStack() as stack:
            yield cls([stack.enter_context(open_for_writing(path)) for path in paths], as_json_lines)

    def write(self, pair: RawPair, **more: Any) -> None:
        """`more`: what else JSON lines shall say of it."""
        if len(self.streams) == 2:
            for stream, text in zip(self.streams, (pair.source, pair.target), strict=True):
                stream.write(f"{text}\n")
            return
        (stream,) = self.streams
        if self.as_json_lines:
            known = {key: getattr(pair, key) for key in ("source_language", "target_language", "origin")}
            said = {key: value for key, value in known.items() if value is not None}
            stream.write(as_json({"source": pair.source, "target": pair.target, **said, **more}) + "\n")
            return
        values = [pair.source, pair.target, *([pair.target_language] if pair.target_language else [])]
        self.columns = self.columns or len(values)
        if len(values) != self.columns:
            raise UserError(f"{pair.file}, line {pair.line}: of some pairs the language is known and of others not")
        stream.write("\t".join(value.replace("\t", " ") for value in values) + "\n")


def _two_files(source: str, target: str) -> Iterator[RawPair]:
    if source == target == STANDARD_STREAM:
        raise UserError("Only one of the two files can be standard input")
    names = name_of(source), name_of(target)
    pairs = zip_longest(stream_lines(source), stream_lines(target))
    for number, (text, translation) in enumerate(pairs, start=1):
        if text is None or translation is None:
            remaining = 1 + sum(1 for _ in pairs)
            lengths = (number - 1, number - 1 + remaining)
            require_equal_lengths(source, lengths[translation is None], target, lengths[text is None])
        yield RawPair(*names, number, text, translation)


def _tsv(path: str, corpus: CorpusConfig) -> Iterator[RawPair]:
    name, columns = name_of(path), 0
    for number, line in enumerate(stream_lines(path), start=1):
        values = line.split("\t")
        columns = columns or len(values)
        if len(values) not in (2, 3):
            count = f"{len(values)} column{'s' * (len(values) > 1)}"
            raise UserError(
                f"{name}, line {number}: has {count}; expected the source, a tab and the target (and a tab and the "
                f"target's language)"
            )
        if len(values) != columns:
            raise UserError(f"{name}, line {number}: has {len(values)} columns, and the lines before have {columns}")
        language = _language(values[2].strip(), name, number) if columns == 3 else None
        yield RawPair(name, name, number, values[0], values[1], None, language)


def _json_lines(path: str, corpus: CorpusConfig) -> Iterator[RawPair]:
    name = name_of(path)
    for number, line in enumerate(stream_lines(path, normalised=False), start=1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise UserError(f"{name}, line {number}: not JSON ({error})") from None
        if not isinstance(record, Mapping):
            raise UserError(f'{name}, line {number}: is no JSON object, such as {{"source": ..., "target": ...}}')
        if isinstance(record.get("translation"), Mapping):
            record = _by_language(record["translation"], corpus, name, number)
        for side in ("source", "target"):
            if not is_text(record.get(side)):
                raise UserError(f'{name}, line {number}: has no text "{side}"')
        for key in ("source_language", "target_language", "origin"):
            if record.get(key) is not None and not is_text(record[key]):
                raise UserError(f'{name}, line {number}: its "{key}" is no text')
        languages = [_language(record.get(f"{side}_language"), name, number) for side in ("source", "target")]
        # A line break inside a text is none between sentences here, but everywhere else it would be.
        source, target = (normalise(LINE_BREAK.sub(" ", record[side])) for side in ("source", "target"))
        yield RawPair(name, name, number, source, target, languages[0], languages[1], record.get("origin"))


def _by_language(texts: Mapping[str, Any], corpus: CorpusConfig, name: str, number: int) -> dict[str, Any]:
    """`{"en": ..., "zu": ...}` as source and target."""
    source, target = corpus.source_language, corpus.target_language
    if source is None:
        raise UserError(f"{name}, line {number}: has texts by language; the corpus must say its source_language")
    others = [code for code in texts if code != source]
    if target is None and len(others) == 1:
        target = others[0]
    for code in (source, target):
        if code is None or code not in texts:
            has = ", ".join(map(repr, texts))
            asked = "a target_language, which the corpus must say" if code is None else f"{code!r}"
            raise UserError(f"{name}, line {number}: has texts of {has}, and none of {asked}")
    return {"source": texts[source], "target": texts[str(target)], "target_language": target}


def _language(code: str | None, name: str, number: int) -> str | None:
    if code is None:
        return None
    try:
        return language_code(code)
    except ValueError as error:
        raise UserError(f"{name}, line {number}: {error}") from None


# TMX


class _Units:
    """What a parser of TMX has found and not yet handed out."""

    def __init__(self, name: str) -> None:
        self.name, self.complete = name, list[tuple[int, dict[str, str]]]()
        self.default_language: str | None = None  # the header's, of the source
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.EntityDeclHandler = self.refuse_entity
        self.parser.SkippedEntityHandler = self.refuse_unknown
        self.line, self.segments, self.language = 0, dict[str, str](), ""
        self.size = self.depth = self.silence = 0  # characters of a unit; open tags; bytes since something was found
        self.inside, self.silent, self.parts = False, 0, list[str]()  # a segment; codes in it; its text

    def refuse(self, problem: str) -> NoReturn:
        raise UserError(f"{self.name}, line {self.parser.CurrentLineNumber}: {problem}")

    def refuse_entity(self, *declaration: object) -> NoReturn:
        self.refuse("declares an entity; no TMX file needs to")

    def refuse_unknown(self, name: str, is_parameter: bool) -> None:
        """Of a file with a DTD elsewhere, which is not read, the parser would leave the entity out of the text."""
        if not is_parameter:
            self.refuse(f"&{name}; is no entity of XML; write the character itself")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.silence, self.depth = 0, self.depth + 1
        if self.depth > DEEPEST:
            self.refuse(f"more than {DEEPEST} tags inside each other")
        if tag == "header":
            self.default_language = attributes.get("srclang")
        elif tag == "tu":
            self.line, self.segments, self.size = self.parser.CurrentLineNumber, {}, 0
        elif tag == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
            if not self.language:
                self.refuse("a <tuv> without xml:lang")
            self.grow(len(self.language))
        elif tag == "seg":
            self.inside, self.parts = True, []
        elif self.inside and tag in NOT_TEXT:
            self.silent += 1

    def end(self, tag: str) -> None:
        self.silence, self.depth = 0, self.depth - 1
        if tag == "tu":
            self.complete.append((self.line, self.segments))
        elif tag == "seg":
            self.inside = False
            self.segments.setdefault(self.language, WHITE_SPACE.sub(" ", "".join(self.parts)).strip(" "))
        elif self.inside and tag in NOT_TEXT:
            self.silent -= 1

    def text(self, text: str) -> None:
        self.silence = 0
        if self.inside and not self.silent:
            self.parts.append(text)
            self.grow(len(text))

    def grow(self, characters: int) -> None:
        self.size += characters
        if self.size > LONGEST_LINE:
            self.refuse(f"a <tu> of more than {LONGEST_LINE:,} characters")

    def parse(self, block: bytes, last: bool) -> list[tuple[int, dict[str, str]]]:
        """The lines and the segments by language of the units that end in a block."""
        self.silence += len(block)
        self.parser.Parse(block, last)
        if self.silence > LONGEST_TAG:
            self.refuse(f"a tag or comment of more than {LONGEST_TAG:,} bytes")
        found, self.complete = self.complete, []
        return found


def _tmx(path: str, corpus: CorpusConfig) -> Iterator[RawPair]:
    name, count, languages = name_of(path), 0, set[str]()
    units = _Units(name)
    with open_for_reading(path) as stream:
        for found in _parsed(units, stream):
            for line, segments in found:
                languages |= {*segments}
                source = corpus.source_language or units.default_language or ""
                given = _matching(source, segments)
                others = [code for code in segments if code != given]
                wanted = others if corpus.target_language is None else [_matching(corpus.target_language, segments)]
                for code in wanted if given is not None else ():
                    if code is None:
                        continue
                    count += 1
                    texts = normalise(segments[str(given)]), normalise(segments[code])
                    asked = corpus.target_language or _language(code, name, line)
                    yield RawPair(name, name, line, *texts, corpus.source_language, asked)
    if not count:
        asked = corpus.target_language or "another language"
        has = f"it has {', '.join(sorted(languages))}" if languages else "it has no <tu>"
        whose = corpus.source_language or units.default_language or "the source (which the corpus does not name)"
        raise UserError(f"{name}, line {units.line or 1}: no pair of {whose} with {asked}; {has}")


def _parsed(units: _Units, stream: Any) -> Iterator[list[tuple[int, dict[str, str]]]]:
    content = None
    try:
        content = decompressed(stream)
        while block := content.read(BLOCK):
            yield units.parse(block, False)
        yield units.parse(b"", True)
    except expat.ExpatError as error:
        raise UserError(f"{units.name}, line {error.lineno}: not TMX ({expat.ErrorString(error.code)})") from None
    except LookupError as error:  # an encoding that is none
        raise UserError(f"{units.name}, line 1: not TMX ({error})") from None
    except DAMAGED as error:
        if isinstance(error, UserError):
            raise
        line = units.parser.CurrentLineNumber
        raise UserError(f"{units.name}, line {line}: cannot be read; the file is damaged ({reason(error)})") from None


def _matching(asked: str, codes: Mapping[str, str]) -> str | None:
    """The code among these that is meant: the same, or else one of the same language (en for en-GB)."""
    same = [code for code in codes if _plain(code) == _plain(asked)]
    near = [code for code in codes if _plain(code).partition("-")[0] == _plain(asked).partition("-")[0]]
    return next(iter(same + near), None)


def _plain(code: str) -> str:
    return code.lower().replace("_", "-")


_READERS: dict[Format, Callable[[str, CorpusConfig], Iterator[RawPair]]] = {
    "tsv": _tsv,
    "jsonl": _json_lines,
    "tmx": _tmx,
}
