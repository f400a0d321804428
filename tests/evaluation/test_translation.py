"""Scores and p-values against sacrebleu's command line, marks against Table 3's rules, and the written tables."""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ssmt.errors import UserError
from ssmt.evaluation import tables
from ssmt.evaluation.tables import Cell, Table
from ssmt.evaluation.translation import (
    METRICS,
    SystemScore,
    TranslationReport,
    as_dict,
    as_table,
    evaluate_translations,
    read_translations,
)

WORDS = (
    "the",
    "old",
    "river",
    "bends",
    "near",
    "a",
    "quiet",
    "village",
    "where",
    "seven",
    "boats",
    "wait",
    "for",
    "rain",
)


def sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(count)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join("stone" if rng.random() < share else word for word in line.split()) for line in lines]


REFERENCE = sentences(60, seed=1)
SECOND_REFERENCE = damaged(REFERENCE, 0.2, seed=2)
SYSTEMS = {
    "base": damaged(REFERENCE, 0.40, seed=3),
    "also": damaged(REFERENCE, 0.36, seed=6),
    "good": damaged(REFERENCE, 0.20, seed=4),
    "near": damaged(REFERENCE, 0.21, seed=5),
}


def sacrebleu_cli(directory: Path, references: list[list[str]], systems: dict[str, list[str]], *options: str) -> str:
    """What `sacrebleu` prints for the same texts."""
    texts = {f"reference{i}": lines for i, lines in enumerate(references)} | systems
    for name, lines in texts.items():
        (directory / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = list(texts)
    files = [*names[: len(references)], "-i", *names[len(references) :]]
    command = [sys.executable, "-m", "sacrebleu", *files, "-w", "6", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("references", [[REFERENCE], [REFERENCE, SECOND_REFERENCE]], ids=["one", "two"])
def test_sacrebleus_command_line_gives_the_same_numbers(tmp_path: Path, references: list[list[str]]) -> None:
    report = evaluate_translations(SYSTEMS, references, samples=300)
    # Not as JSON: with --paired-bs sacrebleu 2.6 fails to write numpy's floats.
    options = ["-m", "bleu", "chrf", "ter", "--paired-bs", "--paired-bs-n", "300", "-f", "latex"]
    printed = sacrebleu_cli(tmp_path, references, SYSTEMS, *options)
    p_values = set()
    for name in SYSTEMS:
        (row,) = re.findall(rf"^ *(?:Baseline: )?{name} &.*", printed, flags=re.MULTILINE)
        for metric, cell in zip(("BLEU", "chrF", "TER"), row.split("&")[1:], strict=True):
            score, mean, interval, *p_value = map(float, re.findall(r"\d+\.\d+", cell))
            ours = report[name, metric]
            assert (ours.score, ours.mean, ours.interval) == pytest.approx((score, mean, interval), abs=2e-6)
            assert ([] if ours.p_value is None else [ours.p_value]) == pytest.approx(p_value, abs=1e-4)
            assert bool(p_value) == (name != "base")
            p_values.update(p_value)
            assert f" {ours.signature}\n" in printed
    assert len(p_values) > 2  # not only the smallest that there can be


def test_sacrebleus_command_line_gives_the_same_chrf_plus_plus_and_signature(tmp_path: Path) -> None:
    system = {"good": SYSTEMS["good"]}
    printed = json.loads(sacrebleu_cli(tmp_path, [REFERENCE], system, "-m", "chrf", "--chrf-word-order", "2"))
    ours = evaluate_translations(system, REFERENCE, metrics=["chrF++"], samples=0)["good", "chrF++"]
    assert ours.score == pytest.approx(printed["score"], abs=1e-6)
    assert f"chrF2++|{ours.signature}" == f"{printed['name']}|{printed['signature']}"


def test_scores_worked_by_hand() -> None:
    # "a b c d e" against "a b c d f": 4/5, 3/4, 2/3, 1/2 n-grams are right and the lengths equal:
    # BLEU = (4/5 * 3/4 * 2/3 * 1/2)^(1/4) = 0.2^(1/4). One word of five must be edited: TER = 1/5.
    report = evaluate_translations({"s": ["a b c d e"]}, ["a b c d f"], samples=0)
    assert report["s", "BLEU"].score == pytest.approx(100 * 0.2**0.25)
    assert report["s", "TER"].score == pytest.approx(20)
    # chrF counts characters without spaces: abcde and abcdf have 4/5, 3/4, 2/3, 1/2 and 0/1 n-grams in common; the
    # order 6 is longer than the text and left out. Precision equals recall, so F is their mean.
    assert report["s", "chrF"].score == pytest.approx(100 * (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2 + 0) / 5)
    # chrF++ adds words (4/5 right) and pairs of words (3/4).
    assert report["s", "chrF++"].score == pytest.approx(100 * (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2 + 0 + 4 / 5 + 3 / 4) / 7)


def test_a_perfect_translation_is_perfect_against_any_of_its_references() -> None:
    report = evaluate_translations({"s": SECOND_REFERENCE}, [REFERENCE, SECOND_REFERENCE], samples=0)
    assert [report["s", metric].score for metric in METRICS] == [pytest.approx(value) for value in (100, 100, 100, 0)]
    assert report.references == 2
    assert "nrefs:2" in report["s", "BLEU"].signature


@pytest.mark.parametrize("baseline", ["base", "good", "near"])
def test_marks_follow_tests_against_the_best_system(baseline: str) -> None:
    report = evaluate_translations(SYSTEMS, REFERENCE, baseline=baseline, samples=300)
    assert report.systems == tuple(SYSTEMS)
    for metric in METRICS:
        scores = {name: report[name, metric] for name in SYSTEMS}
        choose = min if metric == "TER" else max
        best = choose(SYSTEMS, key=lambda name: scores[name].score)
        assert [name for name in SYSTEMS if scores[name].is_best] == [best]
        assert scores[baseline].p_value is None
        assert scores[best].p_value_to_best is None
        assert scores[best].not_significantly_worse_than_best
        for name in set(SYSTEMS) - {best}:
            # The same test, run the other way round by naming the best as the baseline.
            direct = evaluate_translations(SYSTEMS, REFERENCE, baseline=best, metrics=[metric], samples=300)
            p_value = direct[name, metric].p_value
            assert p_value is not None
            assert scores[name].p_value_to_best == p_value
            assert scores[name].not_significantly_worse_than_best == (p_value >= 0.05)
    assert not report["base", "BLEU"].not_significantly_worse_than_best
    others = {report[name, "BLEU"].not_significantly_worse_than_best for name in ("good", "near")}
    assert others == {True}  # one of them is the best, the other is as good: both marks do occur


def test_equal_systems_are_both_best() -> None:
    report = evaluate_translations({"a": SYSTEMS["good"], "b": SYSTEMS["good"]}, REFERENCE, samples=50)
    assert all(score.is_best for score in report.scores)


def test_without_samples_there_are_scores_but_no_tests() -> None:
    report = evaluate_translations(SYSTEMS, REFERENCE, samples=0)
    sampled = evaluate_translations(SYSTEMS, REFERENCE, samples=20)
    assert [s.score for s in report.scores] == [s.score for s in sampled.scores]
    assert {(s.p_value, s.p_value_to_best, s.mean, s.interval) for s in report.scores} == {(None, None, None, None)}
    assert "bs:" not in report["base", "BLEU"].signature
    assert "bs:20|seed:12345" in sampled["base", "BLEU"].signature


def a_report() -> TranslationReport:
    def score(system: str, value: float, p: float | None, best: bool, bold: bool) -> SystemScore:
        return SystemScore(system, "TER", value, "sig:1", value, 0.5, p, None, best, bold)

    scores = (
        score("a_1", 50.0, None, False, False),
        score("b|2", 40.04, 0.001, False, False),
        score("c", 40.0, 0.002, True, True),
        score("d", 42.0, 0.003, False, True),
    )
    return TranslationReport(scores, "a_1", 7, 1, 100)


def test_markdown_marks_best_and_what_is_not_significantly_worse() -> None:
    assert tables.markdown(as_table(a_report())).splitlines() == [
        "**Translation of 7 sentences**",
        "",
        "| System | TER ↓ | p |",
        "| --- | ---: | ---: |",
        "| a_1 | 50.0 |  |",
        "| b\\|2 | <ins>**40.0**</ins> | 0.001 |",  # prints like the best
        "| c | <ins>**40.0**</ins> | 0.002 |",
        "| d | **42.0** | 0.003 |",
        "",
        "- Underlined: best. Bold: difference from the best not significant (p >= 0.05). "
        "p: paired bootstrap against a_1.",
        "- TER: sig:1",
    ]


def test_latex_is_booktabs_with_names_escaped() -> None:
    text = tables.latex(as_table(a_report(), decimals=2, p_values=False, intervals=True))
    assert r"\begin{tabular}{lr}" in text
    assert [line for line in text.splitlines() if line.endswith(r"\\")] == [
        r"\textbf{System} & \textbf{TER $\downarrow$} \\",
        r"a\_1 & 50.00 $\pm$ 0.50 \\",
        r"b\textbar{}2 & 40.04 $\pm$ 0.50 \\",
        r"c & \underline{\textbf{40.00 $\pm$ 0.50}} \\",
        r"d & \textbf{42.00 $\pm$ 0.50} \\",
    ]
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule") < text.index(r"\caption")


def test_the_terminal_shows_names_even_when_narrow_and_takes_no_name_for_markup() -> None:
    table = Table(("System", "x"), ((Cell("[red]name"), Cell("12.3", underlined=True, bold=True)),), "Title", ("note",))
    console = Console(width=30, force_terminal=True, color_system="standard", record=True, file=io.StringIO())
    console.print(tables.terminal(table))
    styled = console.export_text(styles=True, clear=False)
    plain = console.export_text()
    assert "[red]name" in plain
    assert "Title" in plain
    assert "note" in plain
    assert "\x1b[1;4m12.3" in styled


def test_the_dictionary_is_json_with_everything_in_it() -> None:
    report = evaluate_translations(SYSTEMS, REFERENCE, metrics=["BLEU"], samples=20)
    read = json.loads(json.dumps(as_dict(report)))
    assert [TranslationReport(tuple(SystemScore(**s) for s in read["scores"]), "base", 60, 1, 20)] == [report]
    assert read["signatures"] == {"BLEU": report["base", "BLEU"].signature}


def test_files_are_read_and_their_lengths_compared(tmp_path: Path) -> None:
    for name, text in {"ref": "a\nb\n", "two": "c\nd\n", "short": "a\n", "empty": ""}.items():
        (tmp_path / name).write_text(text)
    assert read_translations([tmp_path / "ref", tmp_path / "two"], {"x": tmp_path / "two"}) == (
        {"x": ["c", "d"]},
        [["a", "b"], ["c", "d"]],
    )
    with pytest.raises(UserError, match=r"ref has 2 lines but .*short has 1: .* Line 2 is the first without"):
        read_translations([tmp_path / "ref"], {"x": tmp_path / "short"})
    with pytest.raises(UserError, match=r"ref has 2 lines but .*short has 1"):
        read_translations([tmp_path / "ref", tmp_path / "short"], {})
    with pytest.raises(UserError, match="empty: is empty"):
        read_translations([tmp_path / "empty"], {})


@pytest.mark.parametrize(
    ("systems", "references", "options", "message"),
    [
        ({}, ["a"], {}, "No system"),
        ({"x": []}, [], {}, "No references"),
        ({"x": ["a"]}, ["a", "b"], {}, "the reference has 2 lines but system 'x' has 1"),
        ({"x": ["a"]}, [["a"], ["a", "b"]], {}, "reference 1 has 1 lines but reference 2 has 2"),
        ({"x": ["a"]}, ["a"], {"baseline": "y"}, "baseline 'y' is not one of the systems: x"),
        ({"x": ["a"]}, ["a"], {"metrics": ["METEOR"]}, "Unknown metric 'METEOR': choose from BLEU"),
    ],
)
def test_mistakes_of_users_are_named(systems: dict, references: list, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_translations(systems, references, **options)


def test_a_copy_of_a_system_does_not_differ_from_it() -> None:
    """sacrebleu itself gives a copy p = 0.001, as if it were certainly different."""
    reference = [f"the cat number {n} sits on the mat" for n in range(20)]
    system = [line.replace("sits", "sat") for line in reference]
    report = evaluate_translations({"one": system, "copy": list(system)}, reference, metrics=["chrF"], samples=50)
    assert report["copy", "chrF"].p_value == 1.0
    assert report["copy", "chrF"].not_significantly_worse_than_best


def test_what_scores_the_same_does_not_differ() -> None:
    """chrF does not see blanks, so that sacrebleu finds the same statistics in every sample, and says p = 0.02."""
    reference = [f"a bed of {count} roses" for count in range(40)]
    systems = {"one": [line[:-1] for line in reference], "other": [line[:-1].replace(" ", "  ") for line in reference]}
    report = evaluate_translations(systems, reference, metrics=["chrF"], samples=50)
    assert report["other", "chrF"].p_value == 1.0


def test_a_seed_of_sacrebleus_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "abc")
    with pytest.raises(UserError, match="SACREBLEU_SEED=abc"):
        evaluate_translations({"one": ["a"]}, ["a"])


def test_a_terminal_of_80_columns_shows_every_number() -> None:
    numbers = [("12.1 ± 1.2", "0.001"), ("45.1 ± 1.3", "0.002"), ("42.0 ± 1.4", "0.003"), ("76.1 ± 2.2", "0.004")]
    cells = [Cell(text) for pair in numbers for text in pair]
    heads = [head for metric in ("BLEU", "chrF", "chrF++", "TER ↓") for head in (metric, "p")]
    table = Table(("System", *heads), ((Cell("a-name-of-19-letters"), *cells),))
    stream = io.StringIO()
    Console(file=stream, width=80).print(tables.terminal(table))
    shown = stream.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert [word for pair in numbers for word in " ".join(pair).split() if word not in shown] == []
