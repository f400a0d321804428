"""Reading and writing raw text: what ends a line, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import errno
import io
import os
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.files import decode_lines
from ssmt.outputs import open_for_writing
from ssmt.text.lines import normalise, read_lines, read_parallel, stream_blocks

ANY_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@given(st.lists(ANY_LINE), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_lines_come_back_normalised(lines: list[str], end: str, mark: bool, last_end: bool) -> None:
    content = end.join(lines) + (end if last_end and lines else "")
    raw = (b"\xef\xbb\xbf" if mark else b"") + content.encode()
    expected = [unicodedata.normalize("NFC", line) for line in lines]
    if lines and lines[-1] == "" and not last_end:
        expected = expected[:-1]  # a line begins only with its first byte
    if mark and not content:
        expected = [""]
    assert list(map(normalise, decode_lines(io.BytesIO(raw), "F"))) == expected


@pytest.mark.parametrize("separator", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path / "text", f"one{separator}two\nthree\n".encode())
    assert read_lines(path) == [f"one{separator}two", "three"]


def test_decomposed_and_composed_are_one(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "text", "e\u0301 A\u030a\n\u212b".encode())) == ["\u00e9 \u00c5", "\u00c5"]
    assert read_lines(tmp_path / "text", normalised=False) == ["e\u0301 A\u030a", "\u212b"]


def test_byte_order_mark_is_dropped_from_the_first_line_only(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "text", "\ufeffa\n\ufeffb\n".encode())) == ["a", "\ufeffb"]


@pytest.mark.parametrize(
    ("content", "where", "byte"),
    [
        (b"caf\xe9\n", "line 1", "0xe9"),
        (b"a\nb\n\xff\xfec\n", "line 3", "0xff"),
        (b"a\n\xed\xa0\x80", "line 2", "0xed"),
    ],
)
def test_not_utf8_is_named_with_file_line_and_byte(tmp_path: Path, content: bytes, where: str, byte: str) -> None:
    path = written(tmp_path / "latin", content)
    with pytest.raises(UserError, match=rf"latin, {where}: not UTF-8 .*{byte}.*iconv"):
        read_lines(path)


def test_what_cannot_be_read_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: there is no such file"):
        read_lines(tmp_path / "absent")
    with pytest.raises(UserError, match="is a directory"):
        read_lines(tmp_path)


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3), (0, 1)])
def test_unequal_files_name_both_and_the_first_line_without_partner(tmp_path: Path, first: int, second: int) -> None:
    a, b = written(tmp_path / "a", b"x\n" * first), written(tmp_path / "b", b"y\n" * second)
    with pytest.raises(UserError, match=rf"a has {first} lines but .*b has {second}.*Line {min(first, second) + 1} "):
        read_parallel(a, b)


def test_both_files_cannot_be_standard_input() -> None:
    with pytest.raises(UserError, match="Only one"):
        read_parallel("-", "-")


@pytest.mark.parametrize("most", [1, 3, 100])
def test_blocks_are_the_lines_in_order(tmp_path: Path, most: int) -> None:
    lines = [f"line {number}" for number in range(50)]
    path = written(tmp_path / "text", "\n".join(lines).encode())
    blocks = list(stream_blocks(path, most))
    assert [line for block in blocks for line in block] == lines
    assert all(0 < len(block) <= most for block in blocks)


def test_a_bad_line_comes_after_the_blocks_before_it(tmp_path: Path) -> None:
    path = written(tmp_path / "text", b"one\ntwo\n\xff\n")
    seen: list[str] = []
    with pytest.raises(UserError, match="line 3"):
        seen.extend(line for block in stream_blocks(path, 2) for line in block)
    assert seen == ["one", "two"]


# Writing


def write_half(path: Path, error: Exception) -> None:
    with open_for_writing(path) as stream:
        stream.write("new\n")
        raise error


def test_a_failing_write_leaves_the_old_file_and_no_trace(tmp_path: Path) -> None:
    path = written(tmp_path / "output", b"old\n")
    with pytest.raises(RuntimeError, match="half-way"):
        write_half(path, RuntimeError("half-way"))
    assert path.read_bytes() == b"old\n"
    assert os.listdir(tmp_path) == ["output"]


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "output"
    with open_for_writing(path) as stream:
        stream.write("e\u0301\u2028\n")
        stream.flush()
        assert not path.exists()
    assert path.read_bytes() == "e\u0301\u2028\n".encode()
    assert os.listdir(tmp_path) == ["output"]


def test_errors_of_the_system_say_what_happened_to_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"output: cannot be written \(No space left on device\).*untouched"):
        write_half(tmp_path / "output", OSError(errno.ENOSPC, "No space left on device"))
    assert os.listdir(tmp_path) == []


def test_an_absent_directory_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"), open_for_writing(tmp_path / "absent" / "output"):
        pytest.fail("must not be reached")


def test_a_directory_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory"), open_for_writing(tmp_path):
        pytest.fail("must not be reached")


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = written(tmp_path / "real" / "file", b"old\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    with open_for_writing(link) as stream:
        stream.write("new\n")
    assert link.is_symlink()
    assert path.read_bytes() == b"new\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_device_is_named() -> None:
    full = pytest.raises(UserError, match=r"/dev/full: cannot be written \(No space left on device\)")
    with full, open_for_writing("/dev/full") as stream:
        stream.write("text\n")


def test_standard_output_is_utf8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with open_for_writing("-") as stream:
        stream.write("umntwana é\n")
    assert raw.getvalue() == "umntwana é\n".encode()
