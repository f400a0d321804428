"""Segmented lines and the table of their pieces: any segmentation comes back, any text can be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.text.pieces import Pieces, segmented_line
from ssmt.text.subwords import segments_of_pieces, unmarked

SEGMENTS = st.lists(st.just(" ") | st.text("abé.▁\t", min_size=1, max_size=3), max_size=8)


@pytest.mark.parametrize(
    ("segments", "line"),
    [
        (["Ngi", "ya", "qonda", " ", "a", "."], "▁Ngi ya qonda ▁a ."),
        ([" ", "a", " ", " ", "b", " "], "▁ ▁a ▁ ▁b ▁"),
        ([" "], "▁ ▁"),
        (["a"], "▁a"),
        ([], ""),
    ],
)
def test_a_blank_is_the_mark_of_what_follows(segments: list[str], line: str) -> None:
    assert segmented_line(segments) == line


@given(SEGMENTS)
@settings(deadline=None)
def test_lines_give_their_segments_back(segments: list[str]) -> None:
    pieces = [piece for piece in segmented_line(segments).split(" ") if piece]
    assert unmarked("".join(pieces)) == "".join(segments)
    assert segments_of_pieces(pieces) == segments


@given(st.lists(SEGMENTS, min_size=1, max_size=5), st.integers(0, 20), SEGMENTS)
@settings(deadline=None)
def test_every_text_of_known_characters_can_be_written(lines: list[list[str]], size: int, segments: list[str]) -> None:
    table = Pieces.of_lines([segmented_line([*line, *"abé.▁\t"]) for line in lines], size)
    (ids,) = table.encode([segmented_line(segments)])
    assert ids[-1] == table.eos
    assert table.unk not in ids
    assert unmarked("".join(table.pieces[id] for id in ids[:-1])) == "".join(segments)


def test_the_most_frequent_are_kept_and_ties_go_by_text() -> None:
    lines = ["▁ab ba", "▁ab ab", "▁ba ba", "▁c ab"]
    table = Pieces.of_lines(lines, 3 + 4 + 3)
    assert table.pieces == ["<unk>", "</s>", "<pad>", "a", "b", "c", "▁", "ab", "ba", "▁ab"]
    assert table.encode(["▁ba ☃ ▁ab"]) == [[6, 8, 0, 9, 1]], "a known piece keeps together where only its mark is new"


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    table = Pieces.of_lines(["▁ab a é", "▁ab"], 50)
    table.save(tmp_path / "target.txt")
    loaded = Pieces.load(tmp_path / "target.txt")
    assert (loaded.pieces, loaded.counts) == (table.pieces, table.counts)
    assert (tmp_path / "target.txt").read_text(encoding="utf-8").splitlines()[-1] == "▁ab\t2"


@pytest.mark.parametrize("content", ["a\n", "a\tx\n", "\t3\n", "a\t1\na\t2\n"])
def test_what_is_no_table_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "target.txt").write_text(content)
    with pytest.raises(UserError, match=r"target\.txt, line \d: expected a new piece"):
        Pieces.load(tmp_path / "target.txt")
