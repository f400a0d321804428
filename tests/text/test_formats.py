"""Every format, compressed in every way, gives the pairs that went in; broken at any place, file and line are named."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.config import CorpusConfig, TextConfig
from ssmt.errors import UserError
from ssmt.files import keeping_streams
from ssmt.text import formats
from ssmt.text.corpus import Corpus
from ssmt.text.corpus_writer import write_corpus
from ssmt.text.formats import RawPair, format_of, stream_pairs
from ssmt.text.pairs import Group, Pair, PairReader, repetitions

PAIRS = [("I see <a> & b.", 'Ngiyabona "lo".'), ("you call", "uyabiza — ä"), ("we", "thina\u00a0sonke"), ("x", "y z")]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def as_tsv(pairs: Sequence[tuple[str, str]], language: str | None = None) -> str:
    return "".join(f"{source}\t{target}" + (f"\t{language}\n" if language else "\n") for source, target in pairs)


def as_json_lines(pairs: Sequence[tuple[str, str]], language: str | None = None) -> str:
    named = {"target_language": language} if language else {}
    return "".join(json.dumps({"source": source, "target": target, **named}) + "\n" for source, target in pairs)


def as_translations(pairs: Sequence[tuple[str, str]], language: str | None = None) -> str:
    return "".join(json.dumps({"translation": {"en": s, language or "zu": t}}) + "\n" for s, t in pairs)


def as_tmx(pairs: Sequence[tuple[str, str]], language: str | None = None) -> str:
    units = "".join(
        f'<tu>\n <tuv xml:lang="EN-us"><seg>{escape(source)}</seg></tuv>\n'
        f' <tuv xml:lang="{language or "zu"}"><prop>x</prop><seg>{escape(target)}</seg></tuv>\n</tu>\n'
        for source, target in pairs
    )
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="en"/><body>\n{units}</body></tmx>\n'


WRITE = {"tsv": as_tsv, "jsonl": as_json_lines, "ndjson": as_translations, "tmx": as_tmx}


def corpus_of(path: Path | str, **settings: object) -> CorpusConfig:
    return CorpusConfig.model_validate({"pairs": str(path), **settings})


def texts(pairs: Sequence[RawPair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("ending", WRITE)
def test_every_format_compressed_in_every_way(tmp_path: Path, ending: str, compression: str) -> None:
    path = tmp_path / f"text.{ending}{compression}"
    path.write_bytes(COMPRESS[compression](WRITE[ending](PAIRS).encode()))
    read = list(stream_pairs(corpus_of(path, source_language="en")))
    assert texts(read) == PAIRS
    assert {pair.file for pair in read} == {str(path)}


@pytest.mark.parametrize("compression", COMPRESS)
def test_two_files_of_which_one_is_compressed(tmp_path: Path, compression: str) -> None:
    sources, targets = ("".join(f"{line}\n" for line in side) for side in zip(*PAIRS, strict=True))
    (tmp_path / "s").write_bytes(COMPRESS[compression](sources.encode()))
    (tmp_path / "t").write_text(targets, encoding="utf-8")
    corpus = CorpusConfig.model_validate({"source": str(tmp_path / "s"), "target": [str(tmp_path / "t")]})
    assert texts(list(stream_pairs(corpus))) == PAIRS


@pytest.mark.parametrize("ending", WRITE)
def test_a_pair_can_say_its_language(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"text.{ending}"
    path.write_text(WRITE[ending](PAIRS, "ss"), encoding="utf-8")
    read = list(stream_pairs(corpus_of(path, source_language="en")))
    assert texts(read) == PAIRS
    assert {pair.target_language for pair in read} == {"ss"}


@pytest.mark.parametrize(("ending", "expected"), [("tsv", "tsv"), ("jsonl", "jsonl"), ("tmx", "tmx")])
@pytest.mark.parametrize("compression", COMPRESS)
def test_what_a_name_does_not_say_the_content_does(
    tmp_path: Path, ending: str, expected: str, compression: str
) -> None:
    path = tmp_path / "text"
    path.write_bytes(COMPRESS[compression](WRITE[ending](PAIRS[1:]).encode()))
    assert format_of(path) == expected


LINES = st.lists(
    st.tuples(*[st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029"))] * 2),
    min_size=1,
    max_size=6,
)


@given(LINES, st.sampled_from(["tsv", "jsonl", "ndjson"]), st.sampled_from(list(COMPRESS)))
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back_from_lines(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], ending: str, compression: str
) -> None:
    path = tmp_path_factory.mktemp("any") / f"text.{ending}{compression}"
    path.write_bytes(COMPRESS[compression](WRITE[ending](pairs).encode()))
    expected = [tuple(unicodedata.normalize("NFC", side) for side in pair) for pair in pairs]
    read = texts(list(stream_pairs(corpus_of(path, source_language="en"))))
    if ending != "tsv":
        assert read == expected
    else:  # a byte order mark is no text at a file's start
        assert [(s.removeprefix("\ufeff"), t) for s, t in read] == [(s.removeprefix("\ufeff"), t) for s, t in expected]


# TMX


def test_codes_of_word_processors_are_no_text_and_indentation_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx><header srclang="en"/><body><tu>'
        "<tuv xml:lang='en'><seg>\n   one <bpt i='1'>&lt;b&gt;</bpt>two<ept i='1'>x<sub>y</sub></ept>\n  <hi>three</hi>"
        "</seg></tuv><tuv lang='zu'><seg>kunye</seg></tuv></tu></body></tmx>",
        encoding="utf-8",
    )
    assert texts(list(stream_pairs(corpus_of(path)))) == [("one two three", "kunye")]


def test_a_memory_of_many_languages_gives_those_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    variants = {"en": "one", "zu": "kunye", "xh-ZA": "inye"}
    unit = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants.items())
    path.write_text(f'<tmx><header srclang="en"/><body><tu>{unit}</tu></body></tmx>', encoding="utf-16")
    both = list(stream_pairs(corpus_of(path)))
    assert [(pair.target, pair.target_language) for pair in both] == [("kunye", "zu"), ("inye", "xh-ZA")]
    one = list(stream_pairs(corpus_of(path, source_language="zu", target_language="xh")))
    assert [pair[3:7] for pair in one] == [("kunye", "inye", "zu", "xh")]
    with pytest.raises(UserError, match=r"a\.tmx, line 1: no pair of en with ss; it has en, xh-ZA, zu"):
        list(stream_pairs(corpus_of(path, target_language="ss")))


def test_no_entity_is_expanded_or_fetched(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(f'<?xml version="1.0"?>\n<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "{__file__}">\n]>\n<tmx>&a;</tmx>')
    with pytest.raises(UserError, match=r"a\.tmx, line 3: declares an entity"):
        list(stream_pairs(corpus_of(path)))


def test_an_entity_that_only_a_dtd_elsewhere_could_explain_is_not_left_out_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    unit = '<tu><tuv xml:lang="en"><seg>a&nbsp;b</seg></tuv><tuv xml:lang="zu"><seg>c</seg></tuv></tu>'
    path.write_text(f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx><header srclang="en"/><body>\n{unit}</body></tmx>')
    with pytest.raises(UserError, match=r"a\.tmx, line 3: &nbsp; is no entity of XML; write the character itself"):
        list(stream_pairs(corpus_of(path)))


# Broken input


@pytest.mark.parametrize("compression", [name for name in COMPRESS if name])
@pytest.mark.parametrize("ending", WRITE)
def test_a_compressed_file_that_is_cut_off_is_named(tmp_path: Path, ending: str, compression: str) -> None:
    rng = np.random.default_rng(1)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, 12)) for _ in range(3000)]
    content = COMPRESS[compression](WRITE[ending]([(word, word) for word in words]).encode())
    path = tmp_path / f"text.{ending}{compression}"
    for kept in (len(content) // 2, len(content) - 3):
        path.write_bytes(content[:kept])
        with pytest.raises(UserError, match=r"text\.[a-z0-9.]+, line \d+: cannot be read; the file is damaged"):
            list(stream_pairs(corpus_of(path, source_language="en")))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is raised, it is a message about this file."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, UserError) and str(error).startswith(str(path))):
            raise AssertionError(error) from error
        raise


@pytest.mark.parametrize("compression", [name for name in COMPRESS if name])
def test_every_byte_that_is_spoilt_is_a_message_or_does_not_matter(tmp_path: Path, compression: str) -> None:
    content = COMPRESS[compression]((as_tsv(PAIRS) * 3).encode())
    path = tmp_path / f"text.tsv{compression}"
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with suppress(UserError), naming(path):
            list(stream_pairs(corpus_of(path)))


BROKEN: dict[str, dict[str, str]] = {
    "tsv": {
        "one column": "has 1 column; expected the source, a tab and the target",
        "a\tb\tzu\tmore": "has 4 columns",
        "a\tb\tzu": "has 3 columns, and the lines before have 2",
    },
    "jsonl": {
        "{": "not JSON",
        "": "not JSON",
        "[1]": "is no JSON object",
        '{"source": "a"}': 'has no text "target"',
        '{"source": 1, "target": "b"}': 'has no text "source"',
        '{"source": "a", "target": "\\ud800"}': 'has no text "target"',
        '{"source": "a", "target": "b", "target_language": "???"}': r"'\?\?\?' is no code of a language",
        '{"source": "a", "target": "b", "origin": 7}': '"origin" is no text',
        '{"translation": {"de": "a", "zu": "b"}}': "has texts of 'de', 'zu', and none of 'en'",
    },
    "tmx": {
        "<tu><tuv><seg>x</seg></tuv></tu>": "a <tuv> without xml:lang",
        "<tu></tuv>": "not TMX \\(mismatched tag\\)",
        "&nbsp;": "not TMX \\(undefined entity\\)",
        "\x01": "not TMX",
        "<a>" * 200: "more than 100 tags inside each other",
    },
}


@pytest.mark.parametrize(
    ("begins", "goes_on", "message"),
    [
        ("<tmx><!-- ", "x", "a tag or comment of more than"),
        ("<tmx><tu a='", "x", "a tag or comment of more than"),
        ("<tmx><", "x", "a tag or comment of more than"),
        ("<tmx><tu><tuv xml:lang='en'><seg>", "x", "a <tu> of more than"),
        ("<tmx><tu>", "<tuv xml:lang='en'><seg>we see</seg></tuv>", "a <tu> of more than"),
        ('<?xml version="1.0" encoding="klingon"?><tmx>', "", "unknown encoding: klingon"),
    ],
)
def test_what_does_not_end_is_not_kept(
    tmp_path: Path, begins: str, goes_on: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small compressed file can hold very much."""
    monkeypatch.setattr(formats, "LONGEST_LINE", 1 << 18)
    path = tmp_path / "text.tmx.gz"
    path.write_bytes(gzip.compress((begins + goes_on * (3 << (20 if goes_on == "x" else 15))).encode()))
    with pytest.raises(UserError, match=rf"text\.tmx\.gz, line 1: .*{message}"):
        list(stream_pairs(corpus_of(path)))


@pytest.mark.parametrize(("ending", "line", "message"), [(e, line, m) for e in BROKEN for line, m in BROKEN[e].items()])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_what_is_broken_is_named_by_file_and_line(
    tmp_path: Path, ending: str, line: str, message: str, place: int
) -> None:
    lines = WRITE[ending](PAIRS).split("\n")[:-1]
    if ending == "tmx":
        place = {0: 2, 2: 6, -1: len(lines) - 1}[place]
    elif place == -1:
        place = len(lines)
    if ending == "tsv" and place == 0 and "before" in message:
        message, number = "has 2 columns, and the lines before have 3", 2
    else:
        number = place + 1
    path = tmp_path / f"text.{ending}"
    path.write_text("\n".join([*lines[:place], line, *lines[place:]]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"text\.{ending}, line {number}: .*{message}"):
        list(stream_pairs(corpus_of(path, source_language="en")))


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_bytes_that_are_no_text_are_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"text.{ending}.gz"
    lines = WRITE[ending](PAIRS).encode().split(b"\n")
    lines[2] = b"\xe9" + lines[2]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    with pytest.raises(UserError, match=rf"text\.{ending}\.gz, line 3: not UTF-8"):
        list(stream_pairs(corpus_of(path)))


# Corpora together


def test_mixed_corpora_are_one_stream_of_pairs_with_groups(tmp_path: Path) -> None:
    for name, content in (("a.tsv", as_tsv(PAIRS[:2])), ("b.jsonl", as_json_lines(PAIRS[2:], "ss"))):
        (tmp_path / name).write_text(content, encoding="utf-8")
    for side, lines in zip(("s", "t"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    plain = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t"), "weight": 2, "origin": "bt", "tagged": True}
    corpora = [
        corpus_of(tmp_path / "a.tsv", target_language="zu"),
        corpus_of(tmp_path / "b.jsonl", target_language="xh"),  # the pair's own word counts first
        CorpusConfig.model_validate(plain),  # takes the run's
    ]
    reader = PairReader(corpora, TextConfig(source_language="en", target_language="nr"))
    pairs = list(reader)
    assert [pair[1:3] for pair in pairs] == [*PAIRS, *PAIRS]
    assert [pair.number for pair in pairs] == list(range(1, 9))
    assert [pair.group for pair in pairs] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert reader.groups == [Group("en", "zu"), Group("en", "ss"), Group("en", "nr", 2.0, "bt", True)]
    assert reader.sizes.tolist() == [2, 2, 4]
    assert list(reader) == pairs
    assert reader.place(4) == f"{tmp_path / 'b.jsonl'}, line 2"


def test_languages_can_alternate_from_pair_to_pair(tmp_path: Path) -> None:
    codes = ["zu", "zu", "ss", "zu", "xh", "ss"]
    (tmp_path / "a.tsv").write_text("".join(f"s\tt\t{code}\n" for code in codes), encoding="utf-8")
    reader = PairReader([corpus_of(tmp_path / "a.tsv", source_language="en")] * 2, TextConfig())
    assert [pair.group for pair in reader] == [0, 0, 1, 0, 2, 1] * 2
    assert [group.target_language for group in reader.groups] == ["zu", "ss", "xh"]
    assert reader.sizes.tolist() == [6, 4, 2]


def test_a_language_that_is_not_said_is_asked_for(tmp_path: Path) -> None:
    for name, language in (("a.tsv", "zu"), ("b.tsv", None)):
        (tmp_path / name).write_text(as_tsv(PAIRS, language), encoding="utf-8")
    reader = PairReader([corpus_of(tmp_path / "a.tsv"), corpus_of(tmp_path / "b.tsv")], TextConfig())
    with pytest.raises(
        UserError, match=r"b\.tsv, line 1: of some pairs the target language is known and of others not"
    ):
        list(reader)


@pytest.mark.parametrize(
    ("content", "message"), [("a\t\n", "its target is empty. Mend it, or leave"), ("\tb\n", "its source is empty")]
)
def test_empty_sides_of_files_with_both(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\n" + content)
    with pytest.raises(UserError, match=rf"a\.tsv, line 2: {message}"):
        list(PairReader([corpus_of(tmp_path / "a.tsv")], TextConfig()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a corpus has source and target, or pairs"),
        ({"source": "a", "target": ["b", "c"]}, "1 of the source and 2 of the target"),
        ({"pairs": "a", "source": "b", "target": "c"}, "a corpus has source and target, or pairs"),
        ({"pairs": "a", "tagged": True}, "tagged goes with an origin"),
        ({"pairs": "a", "origin": "two words"}, "expected one word"),
        ({"pairs": "a", "target_language": "?"}, "no code of a language"),
        ({"pairs": "a", "weight": 0}, "greater than 0"),
    ],
)
def test_corpora_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CorpusConfig.model_validate(settings)


# Streams


def test_a_pipe_can_be_read_several_times_where_streams_are_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = gzip.compress(as_tsv(PAIRS).encode())
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(content))
    writer.start()
    with keeping_streams():
        reader = PairReader([corpus_of(tmp_path / "pipe")], TextConfig())
        assert [pair[1:3] for pair in reader] == PAIRS
        assert [pair[1:3] for pair in reader] == PAIRS
    writer.join()


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no /dev/zero")
def test_one_stream_is_not_both_sides() -> None:
    with pytest.raises(UserError, match="Only one of the two files can be standard input"):
        list(stream_pairs(CorpusConfig(source=("-",), target=("-",))))


def test_a_device_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    with keeping_streams(), pytest.raises(UserError, match=r"link: is a device, and may have no end"):
        PairReader([corpus_of(tmp_path / "link")], TextConfig())


# How often a pair is trained on


def test_weights_are_times_in_an_epoch(tmp_path: Path) -> None:
    groups = [Group(), Group(weight=2.5, origin="bt")]
    pairs = [Pair(number, "s", "t", int(number > 400)) for number in range(1, 1201)]
    ones = lambda lines: [[1]] * len(lines)  # noqa: E731
    write_corpus(tmp_path / "corpus", pairs, ones, ones, (5, 5), groups=groups)
    corpus = Corpus(tmp_path / "corpus")
    assert corpus.groups == groups
    epochs = [np.concatenate(corpus.batches(100, seed=3, epoch=epoch)) for epoch in range(4)]
    for rows in epochs:
        times = np.bincount(rows, minlength=1200)
        assert (times[:400] == 1).all()
        assert set(times[400:]) == {2, 3}
        assert times[400:].mean() == pytest.approx(2.5, abs=0.1)
    assert sorted(epochs[0]) != sorted(epochs[1])
    assert sorted(np.concatenate(corpus.batches(100))) == list(range(1200)), "validation has each once"


def test_temperature_balances_languages_and_keeps_the_size_of_an_epoch() -> None:
    groups = [Group("en", "zu"), Group("en", "ss"), Group("en", "ss", 2.0, "bt")]
    sizes = [8000, 500, 250]
    assert repetitions(groups, sizes, 1.0) == [1.0, 1.0, 2.0]
    for temperature in (1.5, 5.0, 1e9):
        times = repetitions(groups, sizes, temperature)
        zu, ss, bt = (count * size for count, size in zip(times, sizes, strict=True))
        assert zu + ss + bt == pytest.approx(9000)
        assert zu / (ss + bt) == pytest.approx((8000 / 1000) ** (1 / temperature))
        assert bt == pytest.approx(ss), "weights hold inside a language"
