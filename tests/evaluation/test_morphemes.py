"""Words and their morphemes: from texts, lists, models and Morfessor."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from ssmt.errors import UserError
from ssmt.evaluation.morphemes import Word, analyse, read_analyses, read_word_list, train_morfessor, trim


@pytest.mark.parametrize(
    ("token", "trimmed"),
    [("ilanga,", "ilanga"), ('("ne-IDP.")', "ne-IDP"), ("2030.", ""), ("", ""), ("n\u0331,", "n\u0331")],
)
def test_punctuation_at_the_edges_is_no_part_of_a_word(token: str, trimmed: str) -> None:
    assert trim(token) == trimmed


def test_lines_are_analysed_by_asking_once_for_each_word() -> None:
    asked: list[str] = []

    def segment(word: str) -> list[str]:
        asked.append(word)
        return [word[:2], word[2:]]

    lines = analyse(["abc, de 12 (abc)", "", "de"], segment)
    assert lines == [
        [Word("abc", ("ab", "c")), Word("de", ("de",)), Word("abc", ("ab", "c"))],
        [],
        [Word("de", ("de",))],
    ]
    assert asked == ["abc", "de"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_analyses_are_read_from_aligned_files_and_need_not_spell_the_word(tmp_path: Path) -> None:
    text = write(tmp_path / "t", "Abantu bathi: we-Venn 9\n\n")
    morphemes = write(tmp_path / "m", "A|ba|ntu ba|thi|i: we-|Venn 9\n\n")
    assert read_analyses(text, morphemes) == [
        [Word("Abantu", ("A", "ba", "ntu")), Word("bathi", ("ba", "thi", "i")), Word("we-Venn", ("we", "Venn"))],
        [],
    ]


def test_unaligned_files_are_refused_with_file_and_line(tmp_path: Path) -> None:
    text = write(tmp_path / "text", "a b\nc d\n")
    with pytest.raises(UserError, match=r"text has 2 lines but .*morphemes has 1"):
        read_analyses(text, write(tmp_path / "morphemes", "a b\n"))
    with pytest.raises(UserError, match=r"morphemes, line 2: 1 words, but .*text has 2 there"):
        read_analyses(text, write(tmp_path / "morphemes", "a b\ncd\n"))


def test_a_word_list_is_a_segmenter(tmp_path: Path) -> None:
    segment = read_word_list(write(tmp_path / "w.tsv", "abantu\ta-ba-ntu\n"))
    assert (segment("abantu"), segment("other")) == (("a", "ba", "ntu"), ("other",))
    segment = read_word_list(write(tmp_path / "w.tsv", "(ilanga,\t(i-langa,\nng'o\tng'-o\nilanga\tila-nga\n"))
    assert segment("ilanga") == ("i", "langa"), "words come without the punctuation around them; the first counts"
    assert segment("ng'o") == ("ng'", "o")
    with pytest.raises(UserError, match=r"w\.tsv, line 2: wanted a word, a tab"):
        read_word_list(write(tmp_path / "w.tsv", "a\ta\nb\n"))


def test_morfessor_finds_what_words_share(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("morfessor", reason="Morfessor (the extra ssmt[morfessor]) is not installed")
    stems = ["talanu", "merikos", "vodipel", "hugaber", "zenilot", "kirasum"]
    endings = ["iwane", "ukomba", "elisha", "ogandu"]
    lines = [*stems, *endings, *(f"{stem}{ending}, 12" for stem in stems for ending in endings)]
    state = random.getstate()
    segment = train_morfessor(lines, seed=1)
    assert random.getstate() == state  # ours to leave alone
    assert segment("talanuiwane") == ("talanu", "iwane")
    assert capfd.readouterr() == ("", "")
    again = train_morfessor(lines, seed=1)
    words = [trim(line.split()[0]) for line in lines]
    assert [segment(word) for word in words] == [again(word) for word in words]
    compounds = lines[len(stems) + len(endings) :]
    frequent = train_morfessor([*lines, *compounds], vocabulary=len(compounds))
    assert frequent("talanuiwane") == ("talanuiwane",)  # the parts, being rarer, were not learnt
    with pytest.raises(UserError, match="nothing to learn from"):
        train_morfessor(["12"])


def test_morfessors_absence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "morfessor", None)  # makes its import fail
    with pytest.raises(UserError, match=r"pip install ssmt\[morfessor\]"):
        train_morfessor(["a b"])
