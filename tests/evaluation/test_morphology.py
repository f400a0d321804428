"""Gold files, segmented files and their scores: by hand, against Morfessor's evaluation, and against the formulas."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.evaluation import tables
from ssmt.evaluation.gold import (
    SENTENCEPIECE,
    Cuts,
    Gold,
    GoldWord,
    cuts_of,
    gold_line,
    parse_segmented,
    read_gold,
    read_segmented,
    segments_of,
    word_spans,
)
from ssmt.evaluation.morphology import (
    PrecisionRecall,
    as_dict,
    as_table,
    cuts_above,
    evaluate_segmentation,
    precision_recall_curve,
)

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "morphology"


def gold_of(*lines: str) -> Gold:
    """`a|b c` is a line; `?` at its end says that it has no gold."""
    parsed = []
    for number, line in enumerate(lines, start=1):
        segments = line.removesuffix("?").split("|")
        parsed.append(gold_line("".join(segments), None if line.endswith("?") else cuts_of(segments), number=number))
    return Gold("test", "sentences", tuple(parsed))


def values(scores: PrecisionRecall) -> tuple[float, float, float]:
    return scores.precision.value, scores.recall.value, scores.f1.value


def predicted_of(*lines: str) -> list[Cuts]:
    return [cuts_of(line.split("|")) for line in lines]


# Two words. aabab = aa|b|ab: cuts 2, 3. cde = one morpheme.
# Predicted: a|a|b|ab (cuts 1, 2, 3) and c|de (cut 1).
HAND_GOLD, HAND_PREDICTED = gold_of("aa|b|ab cde."), predicted_of("a|a|b|ab |c|de|.")


def test_boundary_scores_worked_by_hand() -> None:
    scores = evaluate_segmentation(HAND_GOLD, HAND_PREDICTED, samples=0)
    # Matched 2 (+ 0), predicted 3 + 1, gold 2 + 0. The cuts beside the space and the full stop count for nothing.
    assert values(scores.boundary_micro) == pytest.approx((50, 100, 200 / 3))
    # Precisions 2/3 and 0; recalls 1 and 1 (nothing to miss in cde).
    assert values(scores.boundary_macro) == pytest.approx((100 / 3, 100, 50))
    assert scores.words == 2


def test_identification_scores_worked_by_hand() -> None:
    scores = evaluate_segmentation(HAND_GOLD, HAND_PREDICTED, samples=0)
    # {a, a, b, ab} and {aa, b, ab} share b and ab; {c, de} and {cde} nothing. Predicted 4 + 2, gold 3 + 1.
    assert values(scores.identification_micro) == pytest.approx((100 * 2 / 6, 50, 40))
    # Precisions 2/4 and 0, recalls 2/3 and 0.
    assert values(scores.identification_macro) == pytest.approx((25, 100 / 3, 200 / 7))


def test_a_segment_is_matched_no_more_often_than_the_word_has_it() -> None:
    scores = evaluate_segmentation(gold_of("a|ab"), predicted_of("a|a|b"), samples=0)
    assert values(scores.identification_micro) == pytest.approx((100 / 3, 50, 40))


def test_a_system_that_never_cuts_is_precise_but_finds_nothing() -> None:
    scores = evaluate_segmentation(gold_of("a|b", "cd"), [(), ()], samples=0)
    assert values(scores.boundary_micro) == (100, 0, 0)
    assert values(scores.boundary_macro) == pytest.approx((100, 50, 200 / 3))  # cd is right as it is


def test_words_without_gold_do_not_count() -> None:
    with_unknown = evaluate_segmentation(gold_of("a|bc", "xyz?"), predicted_of("ab|c", "x|yz"), samples=0)
    alone = evaluate_segmentation(gold_of("a|bc"), predicted_of("ab|c"), samples=0)
    assert with_unknown.words_without_gold == 1
    assert with_unknown.words == 1
    assert with_unknown.boundary_micro == alone.boundary_micro
    assert with_unknown.identification_macro == alone.identification_macro
    assert "skipped:1" in with_unknown.signature


# ---- properties ----

WORD = st.text("abé", min_size=1, max_size=7)
LINE = st.lists(WORD, min_size=1, max_size=4).map(" ".join)


@st.composite
def gold_and_prediction(draw: st.DrawFn) -> tuple[Gold, list[Cuts]]:
    texts = draw(st.lists(LINE, min_size=1, max_size=5))
    offsets = [st.frozensets(st.integers(1, max(1, len(text) - 1))) for text in texts]
    lines = tuple(gold_line(text, draw(offset)) for text, offset in zip(texts, offsets, strict=True))
    return Gold("drawn", "sentences", lines), [draw(offset) for offset in offsets]


def literal_scores(gold: Gold, predicted: list[Cuts]) -> dict[str, tuple[float, float, float]]:
    """The definitions of the module's first lines, word by word, with fractions."""

    def ratio(part: int, whole: int) -> Fraction:
        return Fraction(part, whole) if whole else Fraction(1)

    def harmonic(p: Fraction, r: Fraction) -> tuple[float, float, float]:
        f1 = 2 * p * r / (p + r) if p + r else Fraction(0)
        return float(100 * p), float(100 * r), float(100 * f1)

    result = {}
    for measure in ("boundary", "identification"):
        triples = []
        for line, cuts in zip(gold.lines, predicted, strict=True):
            for word in line.words:
                mine = {cut for cut in cuts if word.start < cut < word.end}
                theirs = {word.start + cut for cut in word.cuts or ()}
                if measure == "boundary":
                    triples.append((len(mine & theirs), len(mine), len(theirs)))
                else:
                    inner, outer = (
                        [line.text[a:b] for a, b in pairwise([word.start, *sorted(cuts), word.end])]
                        for cuts in (mine, theirs)
                    )
                    shared = sum(min(inner.count(piece), outer.count(piece)) for piece in set(inner))
                    triples.append((shared, len(inner), len(outer)))
        matched, own, all_gold = (sum(column) for column in zip(*triples, strict=True))
        result[f"{measure}_micro"] = harmonic(ratio(matched, own), ratio(matched, all_gold))
        mean_p = sum((ratio(m, p) for m, p, _ in triples), Fraction(0)) / len(triples)
        mean_r = sum((ratio(m, g) for m, _, g in triples), Fraction(0)) / len(triples)
        result[f"{measure}_macro"] = harmonic(mean_p, mean_r)
    return result


@given(gold_and_prediction())
def test_all_scores_equal_their_definitions(case: tuple[Gold, list[Cuts]]) -> None:
    gold, predicted = case
    scores = evaluate_segmentation(gold, predicted, samples=0)
    for name, expected in literal_scores(gold, predicted).items():
        assert values(getattr(scores, name)) == pytest.approx(expected), name


@given(gold_and_prediction())
@settings(max_examples=30)
def test_gold_against_itself_is_100_and_single_characters_find_every_boundary(case: tuple[Gold, list[Cuts]]) -> None:
    gold, _ = case
    itself = evaluate_segmentation(gold, [line.cuts for line in gold.lines], samples=10)
    characters = evaluate_segmentation(gold, [range(1, len(text)) for text in gold.texts], samples=0)
    for measure in ("boundary", "identification"):
        for average in ("micro", "macro"):
            reading = itself.reading(measure, average)
            assert values(reading) == (100, 100, 100)
            assert reading.f1.low == reading.f1.high == 100
    assert characters.boundary_micro.recall.value == characters.boundary_macro.recall.value == 100


@given(st.lists(WORD, min_size=1, max_size=6, unique=True), st.data())
@settings(max_examples=50)
def test_macro_boundaries_equal_morfessors_evaluation(words: list[str], data: st.DataObject) -> None:
    morfessor = pytest.importorskip("morfessor", reason="Morfessor, whose evaluation is the oracle, is not installed")
    words = [word for word in words if len(word) > 1]  # Morfessor adds nothing for shorter ones, yet counts them
    cuts = [[data.draw(st.frozensets(st.integers(1, len(word) - 1))) for word in words] for _ in range(2)]
    reference = {word: [segments_of(word, c)] for word, c in zip(words, cuts[0], strict=True)}
    prediction = {word: [tuple(sorted(c))] for word, c in zip(words, cuts[1], strict=True)}
    gold = Gold("drawn", "words", tuple(gold_line(word, c) for word, c in zip(words, cuts[0], strict=True)))
    if not words:
        return
    scores = evaluate_segmentation(gold, cuts[1], samples=0).boundary_macro
    if scores.f1.value > 0:  # Morfessor divides by zero there
        precision, recall, f1, _ = morfessor.evaluation.MorfessorEvaluation(reference)._evaluate(prediction)
        assert values(scores) == pytest.approx((100 * precision, 100 * recall, 100 * f1))


def test_intervals_are_those_of_resampled_lines() -> None:
    rng = np.random.default_rng(5)
    texts = ["".join(rng.choice(list("ab"), 6)) + " " + "".join(rng.choice(list("ab"), 4)) for _ in range(40)]
    lines = [gold_line(text, frozenset(np.flatnonzero(rng.random(len(text)) < 0.3).tolist())) for text in texts]
    gold = Gold("drawn", "sentences", tuple(lines))
    predicted = [frozenset(np.flatnonzero(rng.random(len(text)) < 0.4).tolist()) for text in texts]
    scores = evaluate_segmentation(gold, predicted, samples=400, seed=3)
    assert scores == evaluate_segmentation(gold, predicted, samples=400, seed=3)
    assert scores != evaluate_segmentation(gold, predicted, samples=400, seed=4)

    drawn = np.random.default_rng(99)
    sampled: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(400):
        chosen = drawn.integers(len(lines), size=len(lines))
        sample = Gold("sample", "sentences", tuple(lines[i] for i in chosen))
        for name, triple in literal_scores(sample, [predicted[i] for i in chosen]).items():
            sampled.setdefault(name, []).append(triple)
    for name, triples in sampled.items():
        expected = np.percentile(np.array(triples), [2.5, 97.5], axis=0)
        reading = getattr(scores, name)
        for column, estimate in enumerate((reading.precision, reading.recall, reading.f1)):
            width = expected[1, column] - expected[0, column]
            assert width > 2  # so that the tolerance says something
            assert (estimate.low, estimate.high) == pytest.approx(tuple(expected[:, column]), abs=0.2 * width)
            assert estimate.low < estimate.value < estimate.high


# ---- thresholds ----


def posteriors_of(gold: Gold, rng: np.random.Generator, steps: int) -> list[np.ndarray]:
    """Few distinct values, so that ties are common."""
    return [np.round(rng.random(len(text) + 1) * steps) / steps for text in gold.texts]


@given(gold_and_prediction(), st.integers(0, 1000), st.sampled_from([2, 5, 1000]))
def test_the_curve_is_exact_at_every_threshold(case: tuple[Gold, list[Cuts]], seed: int, steps: int) -> None:
    gold, _ = case
    posteriors = posteriors_of(gold, np.random.default_rng(seed), steps)
    curve = precision_recall_curve(gold, posteriors)
    inside = {
        float(posterior[offset])
        for line, posterior in zip(gold.lines, posteriors, strict=True)
        for word in line.words
        for offset in range(word.start + 1, word.end)
    }
    assert curve.thresholds.tolist() == (sorted(inside, reverse=True) or [np.inf])
    for i, threshold in enumerate(curve.thresholds):
        expected = literal_scores(gold, cuts_above(posteriors, threshold))["boundary_micro"]
        assert (curve.precision[i], curve.recall[i], curve.f1[i]) == pytest.approx(expected)
    assert curve.best_threshold == max(curve.thresholds[curve.f1 == max(curve.f1)])


def test_a_threshold_chosen_on_one_file_is_applied_to_another() -> None:
    tune, test = gold_of("a|bc"), gold_of("ab|c", "de|f")
    curve = precision_recall_curve(tune, [np.array([1, 0.6, 0.3, 1])])
    assert curve.best_threshold == 0.6
    assert curve.average_precision == pytest.approx(100)
    cuts = cuts_above([np.array([1, 0.5, 0.6, 1]), np.array([1, 0.7, 0.2, 1])], curve.best_threshold)
    assert cuts == [{0, 2, 3}, {0, 1, 3}]
    assert values(evaluate_segmentation(test, cuts, samples=0).boundary_micro) == (50, 50, 50)


def test_words_without_gold_are_no_part_of_the_curve() -> None:
    curve = precision_recall_curve(gold_of("a|b", "xy?"), [np.array([1, 0.25, 1]), np.array([1, 0.75, 1])])
    assert curve.thresholds.tolist() == [0.25]


# ---- files ----


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_word_lists_are_read(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "w.tsv", "Ubuntu\tU-bu-ntu\nco-op's\tco--op-'s\nnothing\t\n"))
    assert gold.context == "words"
    assert gold.sources is None
    assert gold.texts == ["Ubuntu", "co-op's", "nothing"]
    assert gold.lines[0].words == (GoldWord("Ubuntu", 0, frozenset({1, 3})),)
    assert gold.lines[0].words[0].morphemes == ("U", "bu", "ntu")
    assert [(word.text, word.start, word.cuts) for word in gold.lines[1].words] == [
        ("co", 0, frozenset()),
        ("op", 3, frozenset()),
        ("s", 6, frozenset()),
    ]
    assert gold.lines[2].words[0].cuts is None


def test_sentences_are_read(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "s.tsv", "Go, 2!\tHamba-ke,  2kg!\tHamb|a-|ke,  2|kg!\n"))
    assert gold.context == "sentences"
    assert gold.sources == ["Go, 2!"]
    (line,) = gold.lines
    assert [word.morphemes for word in line.words] == [("Hamb", "a"), ("ke",), ("kg",)]
    assert [word.start for word in line.words] == [0, 6, 12]
    assert line.cuts == {4}


def test_marks_belong_to_their_letters() -> None:
    text = "n\u0331a कि"  # a letter with a mark that has no composed form, and a vowel sign
    assert word_spans(text) == [(0, 3), (4, 6)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "abc\ta-bc\nabd\ta-bc\n",
            r"g\.tsv, line 2: .* not spell the text: 'a-bc' where the text has 'abd'",
        ),
        ("abc\ta-b\n", r"g\.tsv, line 1: the segments do not spell the text"),
        ("abc\ta-bcd\n", r"g\.tsv, line 1: the segments do not spell the text"),
        ("Abc\ta-bc\n", r"g\.tsv, line 1: the segments do not spell the text"),
        ("x\tone two\tone t|wa\n", r"g\.tsv, line 1: .*: 't\|wa' where the text has 'two'"),
        ("abc\n", r"g\.tsv, line 1: 1 columns between tabs, wanted 2 .* or 3"),
        ("a\tb\tc\td\n", r"g\.tsv, line 1: 4 columns"),
        ("ab\ta-b\n\n", r"g\.tsv, line 2: 1 columns between tabs, wanted 2 as in line 1"),
        ("ab\ta-b\nx\ty\ty\n", r"g\.tsv, line 2: 3 columns between tabs, wanted 2 as in line 1"),
        ("\ta\n", r"g\.tsv, line 1: column 1, which holds the text, is empty"),
        ("ab\t\n", r"g\.tsv: holds no word with a gold segmentation"),
        ("", r"g\.tsv: holds no word with a gold segmentation"),
    ],
)
def test_malformed_gold_is_refused_with_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_gold(write(tmp_path / "g.tsv", content))


@pytest.mark.parametrize(
    ("separator", "line"),
    [
        ("|", "no|va-stel|la run|s."),
        ("-", "no-va-stel-la run-s."),  # the text's own hyphen is the one at its place
        ("-", "no-va--stel-la run-s-."),
        ("@@ ", "no@@ va-@@ stel@@ la run@@ s@@ ."),
        (" ", "no va-stel la run s ."),
        (SENTENCEPIECE, "▁no va - stel la ▁run s ."),
        (SENTENCEPIECE, "▁ no va-stel la ▁ run s ."),
        ("|", "anything\tnova-stella runs.\tno|va-stel|la run|s."),
    ],
)
def test_segmented_text_is_read_whatever_its_separator(tmp_path: Path, separator: str, line: str) -> None:
    text = "nova-stella runs."
    (cuts,) = read_segmented(write(tmp_path / "x", line + "\n"), [text], separator=separator)
    inside = {cut for start, end in word_spans(text) for cut in cuts if start < cut < end}
    assert inside == {2, 9, 15}


@given(st.text("ab- |@", max_size=12), st.data(), st.sampled_from(["-", "|", "@@ ", " "]))
def test_any_text_can_be_cut_anywhere_and_read_again(text: str, data: st.DataObject, separator: str) -> None:
    """Cuts between two word characters survive; beside a separator of the text's own, none is counted anyway."""
    letters = [i for i in range(1, len(text)) if text[i - 1] in "ab" and text[i] in "ab"]
    cuts = data.draw(st.frozensets(st.sampled_from(letters))) if letters else frozenset()
    read = parse_segmented(text, separator.join(segments_of(text, cuts)), separator, where="here")
    assert read & set(letters) == cuts


@pytest.mark.parametrize(
    ("content", "separator", "message"),
    [
        ("a|b\na|c\n", "|", r"s\.txt, line 2: the segments do not spell the text: 'a\|c' where the text has 'ad'"),
        ("a|b\n", "|", r"the gold file has 2 lines but .*s\.txt has 1: .* Line 2"),
        ("ab\nad\n", "x", "The separator 'x' cannot be told from text"),
        ("ab\nad\n", "", "The separator '' cannot be told from text"),
    ],
)
def test_segmented_text_that_spells_something_else_is_refused(
    tmp_path: Path, content: str, separator: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read_segmented(write(tmp_path / "s.txt", content), ["ab", "ad"], separator=separator)


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6))
def test_cuts_and_segments_are_inverse(segments: list[str]) -> None:
    assert segments_of("".join(segments), cuts_of(segments)) == tuple(segments)


@pytest.mark.parametrize("name", ["xh.sentences", "zu.sentences", "ss.sentences", "zu.words", "fi.words"])
def test_the_gold_data_can_be_read_and_found_again(name: str) -> None:
    path = SHARED / f"{name}.tsv"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    gold = read_gold(path)
    again = read_segmented(path, gold.texts, separator="-" if gold.context == "words" else "|")
    scores = evaluate_segmentation(gold, again, samples=0)
    assert values(scores.boundary_micro) == values(scores.identification_macro) == (100, 100, 100)
    gold_cuts = sum(len(line.cuts) for line in gold.lines)
    per_cut = scores.words / gold_cuts
    if name in ("xh.sentences", "zu.sentences"):  # what Tables 5 and 6 imply about their data
        assert 0.48 <= per_cut <= 0.53


# ---- tables ----


def test_tables_show_the_best_of_each_column_and_say_how_they_were_made() -> None:
    gold = gold_of("a|b|c", "de")
    scores = {
        "gold": evaluate_segmentation(gold, [line.cuts for line in gold.lines], samples=20),
        "never": evaluate_segmentation(gold, [(), ()], samples=20),
    }
    text = tables.markdown(as_table(scores, decimals=1, intervals=False))
    assert "| gold | **100.0** | **100.0** | **100.0** |" in text
    assert "| never | **100.0** | 0.0 | 0.0 |" in text
    assert "Morpheme boundaries (micro)" in text
    assert "- context:sentences|words:2|skipped:0|empty:1|bs:20|seed:0|version:" in text
    macro = tables.markdown(as_table(scores, "identification", "macro", decimals=0))
    assert "| gold | **100 [100, 100]** |" in macro
    assert "| never | 50 [0, 100] |" in macro
    assert "Morpheme identification (macro)" in macro
    read = json.loads(json.dumps(as_dict(scores)))
    assert read["never"]["boundary_micro"]["recall"]["value"] == 0
