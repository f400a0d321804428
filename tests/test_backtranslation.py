"""Text of the target language alone, with sources that a model of the other direction has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssmt.backtranslation import Limits, backtranslate
from ssmt.config import CorpusConfig, TextConfig
from ssmt.search.options import SearchOptions
from ssmt.text.pairs import Group, PairReader
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused, ssmt  # noqa: F401 (a fixture)

LINES = ["we see 2 cows.", "", "I call a bird.", "x" * 2000, "she carries it."]


@pytest.fixture(scope="module")
def reverse(model_directory: Path) -> Translator:
    return Translator.load(model_directory, "cpu")


def test_every_line_has_a_source_or_a_reason(reverse: Translator) -> None:
    options = SearchOptions(beam=2, max_length=10)
    found = list(backtranslate(reverse, LINES, options, Limits(ratio=100), "mono"))
    assert [one.pair.line for one in found] == [1, 2, 3, 4, 5]
    assert [one.pair.target for one in found] == LINES
    assert [one.problem for one in found if one.pair.line in (2, 4)] == ["empty", "too long"]
    good = [LINES[0], LINES[2], LINES[4]]
    expected = reverse.translate(good, options)
    kept = [one for one in found if one.pair.line not in (2, 4)]
    assert [one.pair.source for one in kept] == expected.texts
    for one, text, score in zip(kept, expected.texts, expected.scores, strict=True):
        assert one.score == pytest.approx(score / (len(text) + 1), abs=1e-5)
        assert one.problem == (None if text.strip() else "nothing written")


def test_limits_are_of_score_and_length(reverse: Translator) -> None:
    options = SearchOptions(search="sample", n_best=6, max_length=30, seed=2)
    every = list(backtranslate(reverse, LINES[:1], options, Limits(ratio=100)))
    assert len({one.pair.source for one in every}) > 1
    middle = sorted(one.score for one in every)[3]
    some = list(backtranslate(reverse, LINES[:1], options, Limits(middle, 100)))
    for one, limited in zip(every, some, strict=True):
        wanted = one.problem or (None if one.score >= middle else "score")
        assert (limited.pair, limited.problem) == (one.pair, wanted)
    longer = list(backtranslate(reverse, [40 * "we see "], options, Limits(ratio=2)))
    assert {one.problem for one in longer} == {"length ratio"}


def test_the_verb_writes_a_corpus_that_training_reads(
    ssmt: Ssmt,  # noqa: F811
    model_directory: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "mono").write_text("".join(f"{line}\n" for line in LINES))
    options = ["--reverse", model_directory, "--target", tmp_path / "mono", "--sources", 2, "--max-ratio", 100]
    outcome = ssmt("backtranslate", *options, "--output", tmp_path / "bt.jsonl")
    assert outcome.status == 0
    assert "of 5 lines" in outcome.err
    assert "left out: empty" in outcome.err
    records = [json.loads(line) for line in (tmp_path / "bt.jsonl").read_text().splitlines()]
    assert {record["origin"] for record in records} == {"backtranslated"}
    assert all(record["score"] < 0 for record in records)
    reader = PairReader([CorpusConfig(pairs=(str(tmp_path / "bt.jsonl"),), weight=0.5)], TextConfig())
    pairs = list(reader)
    assert [pair.target for pair in pairs] == [record["target"] for record in records]
    assert reader.groups == [Group(None, None, 0.5, "backtranslated")]
    refused(ssmt("backtranslate", *options, "--output", tmp_path / "bt.txt"), "pairs are written as .tsv or .jsonl")
