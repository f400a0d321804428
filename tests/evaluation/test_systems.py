"""Systems compared from Python: those of files and those of models, on a test set and on subsets of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ssmt.errors import UserError
from ssmt.evaluation.gold import read_gold
from ssmt.evaluation.morphology import evaluate_segmentation
from ssmt.evaluation.systems import compare_segmentations, evaluate_systems, read_line_numbers
from ssmt.evaluation.translation import evaluate_translations
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_model_is_scored_on_the_lines_of_a_subset(
    model_directory: Path, toy_files: TrainingFiles, tmp_path: Path
) -> None:
    numbers = write(tmp_path / "some.lines", ["3", "1", "8"])
    evaluation = evaluate_systems(
        [toy_files.valid_target],
        hypotheses={"right": toy_files.valid_target},
        models={"toy": model_directory},
        source=toy_files.valid_source,
        subsets=[numbers],
        metrics=["chrF"],
        samples=0,
        beam=1,
        translations=tmp_path / "kept",
        device="cpu",
    )
    sources, targets = ([lines_of(path)[row] for row in (2, 0, 7)] for path in toy_files_of(toy_files))
    texts = Translator.load(model_directory, "cpu").translate(sources, beam=1).texts
    expected = evaluate_translations({"right": targets, "toy": texts}, targets, metrics=["chrF"], samples=0)
    assert evaluation.reports == {"some": expected}
    assert [table.title for table in evaluation.tables()] == ["Translation of 3 sentences of some"]
    assert [subset["subset"] for subset in evaluation.record()["subsets"]] == ["some"]
    assert lines_of(tmp_path / "kept" / "toy.txt") == [texts[1], texts[0], texts[2]]


def toy_files_of(files: TrainingFiles) -> tuple[Path, Path]:
    return files.valid_source, files.valid_target


def test_what_is_wrong_with_systems_is_said_in_words_of_python(
    model_directory: Path, toy_files: TrainingFiles, tmp_path: Path
) -> None:
    reference, models = [toy_files.valid_target], {"toy": model_directory}
    for wrong, message in (
        ({"models": models}, "A model needs a source"),
        ({"models": models, "hypotheses": {"toy": reference[0]}}, "Two systems are called 'toy'"),
        ({"hypotheses": {"a": reference[0]}, "translations": tmp_path}, "no model whose translations could be kept"),
        ({"hypotheses": {"a": reference[0]}, "subsets": [tmp_path]}, r"holds no \*.lines"),
    ):
        with pytest.raises(UserError, match=message) as refusal:
            evaluate_systems(reference, **wrong)  # type: ignore[arg-type]
        assert "--" not in str(refusal.value)


def test_subsets_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "hard.lines", ["2"])
    rows = read_line_numbers([tmp_path / "a", tmp_path / "b"], "reference", 2)
    assert rows == {"hard": [1], str(tmp_path / "b" / "hard.lines"): [1]}


def test_a_pipe_among_the_files_of_a_directory_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hard.lines")
    with pytest.raises(UserError, match=r"hard\.lines: is no plain file"):
        read_line_numbers([tmp_path], "reference", 2)


def test_a_gold_file_is_perfect_and_a_model_has_its_curve(
    model_directory: Path, toy_files: TrainingFiles, tmp_path: Path
) -> None:
    pairs = zip(*(lines_of(path)[:4] for path in toy_files_of(toy_files)), strict=True)
    gold = write(tmp_path / "gold.tsv", [f"{source}\t{text}\t{text[:2]}|{text[2:]}" for source, text in pairs])
    options = {"segmented": {"gold": gold}, "models": {"toy": model_directory}, "samples": 0, "device": "cpu"}
    comparison = compare_segmentations(gold, threshold=0.5, **options)  # type: ignore[arg-type]
    assert list(comparison.scores) == ["gold", "toy", "toy, posterior >= 0.5"]
    read = read_gold(gold)
    assert comparison.scores["gold"] == evaluate_segmentation(read, [line.cuts for line in read.lines], samples=0)
    assert comparison.scores["gold"].boundary_point == (100, 100)
    assert comparison.record()["posteriors"]["toy"]["thresholds"] == {"toy, posterior >= 0.5": 0.5}
    assert len(comparison.tables()) == 4
    without = compare_segmentations(gold, curves=False, **options)  # type: ignore[arg-type]
    assert without.curves == {}
    assert without.scores["toy"] == comparison.scores["toy"]


def test_a_language_that_is_none_is_refused(tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", ["one\ttwo"])
    with pytest.raises(UserError, match="'18' is no code of a language"):
        evaluate_systems([], hypotheses={"mine": pairs}, pairs=pairs, to="18")


def test_pairs_come_through_a_pipe_whole(tmp_path: Path) -> None:
    """Their beginning is looked at to know of which format they are."""
    lines = "".join(f"sentence {number}\ttarget {number}\n" for number in range(3000))
    (tmp_path / "hypothesis").write_text("".join(f"target {number}\n" for number in range(3000)))
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[lines])
    writer.start()
    found = evaluate_systems(hypotheses={"same": tmp_path / "hypothesis"}, pairs=tmp_path / "pipe", metrics=["chrF"])
    writer.join()
    assert found.reports[""]["same", "chrF"].score == 100


def test_a_test_set_is_not_written_over(tmp_path: Path, model_directory: Path) -> None:
    pairs = tmp_path / "ours.txt"
    pairs.write_text("we see.\tsiyabona.\n")
    with pytest.raises(UserError, match=r"ours\.txt"):
        evaluate_systems(pairs=pairs, models={"ours": model_directory}, translations=tmp_path)
    assert pairs.read_text() == "we see.\tsiyabona.\n"
    with pytest.raises(UserError, match="'a/b' cannot name a file of translations"):
        evaluate_systems(pairs=pairs, models={"a/b": model_directory}, translations=tmp_path / "kept")


@pytest.mark.parametrize(
    ("content", "to", "message"),
    [
        ("a\tb\tss\na\tc\tzu\n", "zu", r"pairs\.tsv, line 1: is into ss, not into zu"),
        (
            '{"source": "a", "target": "b", "target_language": "ss"}\n{"source": "a", "target": "b"}\n',
            None,
            "line 2: does not say",
        ),
    ],
)
def test_pairs_of_other_languages_are_not_counted_as_one(
    tmp_path: Path, model_directory: Path, content: str, to: str | None, message: str
) -> None:
    path = tmp_path / ("pairs.tsv" if "\t" in content else "pairs.jsonl")
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        evaluate_systems(pairs=path, models={"ours": model_directory}, to=to)


def test_a_search_that_a_model_has_not_is_said_before_the_others_translate(
    tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").write_text("we see.\n")
    monkeypatch.setattr(Translator, "load", lambda *arguments: pytest.fail("nothing is loaded"))
    with pytest.raises(UserError, match="no search 'beam'"):
        evaluate_systems([tmp_path / "t"], models={"ours": model_directory}, source=tmp_path / "t", search="beam")


def test_a_line_number_of_many_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.lines").write_text("9" * 5000 + "\n")
    with pytest.raises(UserError, match=r"a\.lines, line 1"):
        read_line_numbers([tmp_path / "a.lines"], "test", 3)
