"""What is left out of a text, and that it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssmt.config import CorpusConfig
from ssmt.demo import make_corpus
from ssmt.text import cleaning
from ssmt.text.cleaning import Cleaner, Limits, Usual
from ssmt.text.formats import RawPair, stream_pairs
from tests.cli.test_bad_input import Ssmt, refused, ssmt  # noqa: F401 (a fixture)

# What is wrong with a pair that is put into good text, and the reason that must be found.
SPOILT = {
    "empty": ("The dog sleeps.", "  "),
    "too long": ("The dog sleeps " * 100, "Umuntu ulele " * 100),
    "odd characters": ("The dog slee\ufffdps now.", "Umuntu ulele."),
    "few letters": ("1 2 3 4 5 6 7 8 9 (10) [11] {12}", "1 2 3 4 5 6 7 8 9 (10) [11] {12} a"),
    "equal sides": ("Lobezi, Lobezi!", "lobezi LOBEZI"),
    "length ratio": ("The teacher jumps over the dog and over the boy.", "Ulele."),
}


@pytest.fixture(scope="module")
def good() -> list[tuple[str, str]]:
    corpus = make_corpus(500, seed=3, held_out=50)
    return list(dict.fromkeys((sentence.english, sentence.target) for sentence in corpus.train))


def corpus_of(path: Path, pairs: list[tuple[str, str]]) -> CorpusConfig:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return CorpusConfig(pairs=(str(path),))


def test_good_text_is_kept_but_for_what_is_in_held_out_text(tmp_path: Path, good: list[tuple[str, str]]) -> None:
    corpus = corpus_of(tmp_path / "a.tsv", good)
    reasons = {reason for _, reason in Cleaner([corpus])}
    assert reasons == {None}
    held_out = corpus_of(tmp_path / "b.tsv", [(f" {good[7][0].upper()}!", "x"), ("y", good[9][1])])
    found = [(raw.line, reason) for raw, reason in Cleaner([corpus], [held_out]) if reason]
    expected = [row for row, pair in enumerate(good, start=1) if pair[0] == good[7][0] or pair[1] == good[9][1]]
    assert found == [(line, "in held-out text") for line in expected]


@pytest.mark.parametrize("reason", SPOILT)
def test_each_reason_is_found_and_nothing_else(tmp_path: Path, good: list[tuple[str, str]], reason: str) -> None:
    corpus = corpus_of(tmp_path / "a.tsv", [*good[:100], SPOILT[reason], *good[100:]])
    cleaner = Cleaner([corpus])
    assert [(raw.line, why) for raw, why in cleaner if why] == [(101, reason)]
    assert cleaner.report.record() == {
        "pairs": len(good) + 1,
        "kept": len(good),
        "left_out": {reason: {"pairs": 1, "first": [f"{tmp_path / 'a.tsv'}, line 101"]}},
    }


def test_letters_of_another_script_and_text_in_the_other_language(tmp_path: Path, good: list[tuple[str, str]]) -> None:
    foreign = ("The dog sleeps.", "Собака спит.")
    exchanged = (good[0][1] + " " + good[1][1], good[0][0] + " " + good[1][0])
    untranslated = (good[3][0] + " " + good[4][0], good[5][0] + " " + good[6][0])
    corpus = corpus_of(tmp_path / "a.tsv", [*good, foreign, exchanged, untranslated])
    found = {raw.line - len(good): reason for raw, reason in Cleaner([corpus]) if reason}
    assert found == {1: "odd characters", 2: "other language", 3: "other language"}


def test_sentences_that_differ_in_their_vowel_signs_are_different(tmp_path: Path) -> None:
    """Marks are no letters to Python."""
    held_out = corpus_of(tmp_path / "dev.tsv", [("The day has come.", "आज दिन है")])
    pairs = [("The gift is here.", "आज दान है"), ("The poor are here.", "आज दीन है"), ("It is day.", "आज, दिन है!")]
    kept = [pair.target for pair, reason in Cleaner([corpus_of(tmp_path / "a.tsv", pairs)], [held_out]) if not reason]
    assert kept == ["आज दान है", "आज दीन है"]
    assert cleaning._letters("दिन, है") == " दिन है "


def test_repetitions_are_left_out_after_the_first(tmp_path: Path, good: list[tuple[str, str]]) -> None:
    corpus = corpus_of(tmp_path / "a.tsv", [*good, good[0], good[5], good[0]])
    found = [raw.line - len(good) for raw, reason in Cleaner([corpus]) if reason == "repeated"]
    assert found == [1, 2, 3]
    assert not [1 for _, reason in Cleaner([corpus], limits=Limits(keep_repeated=True)) if reason]


def test_what_is_usual_is_the_median(good: list[tuple[str, str]]) -> None:
    pairs = [RawPair("f", "f", 1, "s" * 30, "t" * length) for length in (30, 60, 90)]
    assert Usual(pairs).ratio == 2.0
    assert Usual([]).ratio is None


def test_what_is_usual_is_learnt_from_no_more_of_a_long_line_than_of_many_lines(
    monkeypatch: pytest.MonkeyPatch, good: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(cleaning, "LETTERS_SEEN", 100)
    long = RawPair("a", "a", 1, "a" * 100 + "ж" * 10_000, "b")
    assert Usual([long, *(RawPair("a", "a", 2, *pair) for pair in good)]).scripts[0] == {"LATIN"}


def test_the_verb_writes_what_is_kept_and_what_is_not(
    ssmt: Ssmt,  # noqa: F811
    tmp_path: Path,
    good: list[tuple[str, str]],
) -> None:
    pairs = [*good, *SPOILT.values(), good[0]]
    corpus_of(tmp_path / "a.tsv", pairs)
    for side, lines in zip(("s", "t"), zip(*pairs, strict=True), strict=True):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    inputs = {"both": ["--pairs", tmp_path / "a.tsv"], "two": ["--source", tmp_path / "s", "--target", tmp_path / "t"]}
    for name, options in inputs.items():
        outputs = ["--rejected", tmp_path / "no.jsonl", "--report", tmp_path / "report.json"]
        outcome = ssmt("clean", *options, *outputs, "--output", tmp_path / f"{name}.jsonl")
        assert outcome.status == 0
        kept = list(stream_pairs(CorpusConfig(pairs=(str(tmp_path / f"{name}.jsonl"),))))
        assert [(raw.source, raw.target) for raw in kept] == good
        rejected = [json.loads(line) for line in (tmp_path / "no.jsonl").read_text().splitlines()]
        assert [record["reason"] for record in rejected] == [*SPOILT, "repeated"]
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["kept"] + sum(reason["pairs"] for reason in report["left_out"].values()) == len(pairs)
        assert f"{len(good):,} of {len(pairs):,} pairs kept" in outcome.err
        assert "1  few letters:" in outcome.err
    ssmt("clean", *inputs["two"], "--output-source", tmp_path / "s.out", "--output-target", tmp_path / "t.out")
    assert (tmp_path / "t.out").read_text() == "".join(f"{target}\n" for _, target in good)


def test_bad_calls_of_clean(ssmt: Ssmt, tmp_path: Path, good: list[tuple[str, str]]) -> None:  # noqa: F811
    corpus_of(tmp_path / "a.tsv", good)
    refused(ssmt("clean", "--output", tmp_path / "b.tsv"), "Nothing to clean")
    both = ["--pairs", tmp_path / "a.tsv"]
    refused(ssmt("clean", *both), "Give --output, or --output-source and --output-target")
    refused(ssmt("clean", *both, "--output", tmp_path / "a.tsv"), "a.tsv: is read here and would be replaced")
    refused(ssmt("clean", *both, "--output", tmp_path / "a.txt"), "a.txt: pairs are written as .tsv or .jsonl")
    same = ["--output", tmp_path / "b.tsv", "--rejected", f"{tmp_path}/./b.tsv"]
    refused(ssmt("clean", *both, *same), "Two outputs have the same name")
    refused(ssmt("clean", "--source", tmp_path / "a.tsv", "--output", tmp_path / "b.tsv"), "as many files of one side")
