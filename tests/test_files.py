"""Files: what is no plain file, no JSON or no text is a message; links are not followed out of a directory."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssmt.errors import UserError
from ssmt.files import (
    LARGEST_DESCRIPTION,
    LONGEST_LINE,
    as_json,
    count_in,
    is_text,
    read_description,
    read_json,
    stream_raw_lines,
)
from ssmt.outputs import open_for_writing, open_in_directory, remove_leftovers, replacing, temporary_beside


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[" * 100_000, b'{"a":' * 50_000, b"[" * 800 + b"]" * 800, b'{"a":' * 400 + b"1" + b"}" * 400),
        *(b"9" * 5000, b"NaN", b"[Infinity]", b"\xff", b'{"a": -Infinity}'),
    ],
    ids=[
        *("empty", "open", "nested lists", "nested tables", "whole lists", "whole tables"),
        *("digits", "NaN", "Infinity", "not UTF-8", "inside"),
    ],
)
def test_what_is_no_json_is_a_message_with_the_files_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"some\.json.*not (JSON|UTF-8)"):
        read_json(path)


def test_only_plain_files_of_a_possible_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", LARGEST_DESCRIPTION + 1)
    for name in ("fifo", "device", "loop", "folder", "huge", "absent"):
        with pytest.raises(UserError, match=name):
            read_description(tmp_path / name)


def test_a_line_without_an_end_is_a_message() -> None:
    with pytest.raises(UserError, match=f"line 1: is longer than {LONGEST_LINE:,} bytes"):
        next(stream_raw_lines("/dev/zero"))


def test_numbers_that_json_has_not_become_null() -> None:
    record = {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": (-float("inf"), "é")}}
    assert json.loads(as_json(record)) == {"a": None, "b": [None, 1.5], "c": {"d": [None, "é"]}}


def test_halves_of_characters_and_thousands_of_digits_are_recognised() -> None:
    assert [is_text(value) for value in ("é", "", "\ud800", 3, None)] == [True, True, False, False, False]
    assert [count_in(text) for text in ("12", "", "-1", "²", "9" * 5000)] == [12, None, None, None, None]


def test_a_link_in_a_directory_of_ours_is_replaced_and_a_users_is_followed(tmp_path: Path) -> None:
    outside, link = tmp_path / "outside.txt", tmp_path / "link"
    outside.write_text("before")
    link.symlink_to(outside)
    with open_for_writing(link) as stream:
        stream.write("by the user")
    assert (link.is_symlink(), outside.read_text()) == (True, "by the user")
    with replacing(link) as temporary:
        temporary.write_text("ours")
    assert (link.is_symlink(), link.read_text(), outside.read_text()) == (False, "ours", "by the user")


def test_temporary_names_are_nobody_elses_and_can_be_found_again(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    names = {temporary_beside(tmp_path / "inside" / ("x" * 250)) for _ in range(100)}
    assert len(names) == 100
    file, folder = list(names)[:2]
    file.write_text("half")
    folder.mkdir()
    (folder / "part").write_text("half")
    (tmp_path / "inside" / ".kept").write_text("whole")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path / "inside") == [".kept"]


def test_where_nothing_can_be_written_the_file_is_named_and_not_its_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    for name in ("touch", "unlink"):
        monkeypatch.setattr(Path, name, refuse)
    message = r"new\.txt: cannot be written \(Read-only file system\)"
    with pytest.raises(UserError, match=message), open_for_writing(tmp_path / "new.txt"):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_an_output_leaves_nothing_of_it(tmp_path: Path, number: signal.Signals) -> None:
    """The process still ends by the signal, as whoever has sent it expects; and what was there before stays."""
    (tmp_path / "out").write_text("before\n")
    program = (
        "import signal, sys, time\n"
        "from ssmt.outputs import open_for_writing\n"
        f"signal.signal({number:d}, signal.SIG_DFL)\n"
        "with open_for_writing('out') as stream:\n"
        "    stream.write('half')\n"
        "    print('now', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    assert len(list(tmp_path.iterdir())) == 2
    process.send_signal(number)
    assert process.wait() == -number
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "before\n"}
    process.stdout.close()


def test_a_pipe_in_the_place_of_a_file_of_ours_is_replaced_and_a_users_is_written_to(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        os.mkfifo(tmp_path / name)
    with open_in_directory(tmp_path / "ours") as stream:
        stream.write("whole\n")
    assert (tmp_path / "ours").is_file()
    assert (tmp_path / "ours").read_text() == "whole\n"
    reader = os.open(tmp_path / "theirs", os.O_RDONLY | os.O_NONBLOCK)
    with open_for_writing(tmp_path / "theirs") as stream:
        stream.write("whole\n")
    assert os.read(reader, 10) == b"whole\n"
    os.close(reader)
    assert (tmp_path / "theirs").is_fifo()
