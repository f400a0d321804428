"""`ssmt evaluate`, `ssmt morphology` and `ssmt compositional` as a user runs them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ssmt.evaluation.gold import read_gold
from ssmt.evaluation.model_output import gold_cuts, gold_posteriors
from ssmt.evaluation.morphology import evaluate_segmentation, precision_recall_curve
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused

Pair = tuple[str, str]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def systems(tmp_path: Path, toy_pairs: list[Pair]) -> dict[str, Path]:
    """A reference and two systems: one that forgets every third full stop, one that confuses letters."""
    targets = [target for _, target in toy_pairs]
    near = [target.rstrip(".") if row % 3 == 0 else target for row, target in enumerate(targets)]
    far = [target.replace("o", "u") if row % 2 else target[:-4] for row, target in enumerate(targets)]
    return {
        "source": write(tmp_path / "test.source", [source for source, _ in toy_pairs]),
        "reference": write(tmp_path / "test.target", targets),
        "near": write(tmp_path / "near.txt", near),
        "far": write(tmp_path / "far.txt", far),
    }


def test_scores_and_p_values_are_those_of_sacrebleus_command_line(ssmt: Ssmt, systems: dict[str, Path]) -> None:
    reference, near, far = (systems[name] for name in ("reference", "near", "far"))
    outcome = ssmt(
        "evaluate", "--reference", reference, "--hypothesis", f"near={near}", f"far={far}", "--metric", "bleu", "chrf",
        "--samples", 100, "--json",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    ours = {(score["system"], score["metric"]): score for score in json.loads(outcome.out)["scores"]}
    for name, path in (("near", near), ("far", far)):
        found = sacrebleu(reference, "-i", path, "-m", "bleu", "chrf", "--width", "6", "--format", "json")
        for metric, theirs in zip(("BLEU", "chrF"), json.loads(found), strict=True):
            assert ours[name, metric]["score"] == pytest.approx(theirs["score"], abs=1e-6)
    # Not as JSON: with --paired-bs sacrebleu 2.6 fails to write numpy's floats.
    paired = sacrebleu(
        reference, "-i", near, far, "-m", "bleu", "chrf", "--paired-bs", "--paired-bs-n", "100", "-f", "text"
    )
    p_values = [float(number) for number in re.findall(r"\(p = ([0-9.]+)\)", paired)]
    assert len(p_values) == 2
    assert [ours["far", metric]["p_value"] for metric in ("BLEU", "chrF")] == pytest.approx(p_values, abs=1e-4)


def sacrebleu(*arguments: object) -> str:
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_a_model_translates_first(ssmt: Ssmt, systems: dict[str, Path], model_directory: Path, tmp_path: Path) -> None:
    translated, kept = tmp_path / "translated.txt", tmp_path / "kept"
    outcome = ssmt("translate", model_directory, "--input", systems["source"], "--beam", 2, "-o", translated)
    assert outcome.status == 0, outcome.err
    common = ["evaluate", "--reference", systems["reference"], "--samples", 0, "--json"]
    by_file = ssmt(*common, "--hypothesis", f"ours={translated}")
    by_model = ssmt(
        *common,
        "--model",
        f"ours={model_directory}",
        "--source",
        systems["source"],
        "--beam",
        2,
        "--save-translations",
        kept,
    )
    assert by_model.status == 0, by_model.err
    assert json.loads(by_model.out) == json.loads(by_file.out)
    assert (kept / "ours.txt").read_text() == translated.read_text()


def test_subsets_are_scored_by_line_number(ssmt: Ssmt, systems: dict[str, Path], tmp_path: Path) -> None:
    rows = [2, 3, 5, 8, 13, 21]
    lines = write(tmp_path / "divergence-0.2.lines", [str(row) for row in rows])
    common = ["evaluate", "--samples", 0, "--json"]
    whole = ssmt(
        *common, "--reference", systems["reference"], "--hypothesis", f"x={systems['far']}", "--subset", lines,
        "--plot", tmp_path / "figure3.svg",
    )  # fmt: skip
    assert whole.status == 0, whole.err
    cut = {}
    for name in ("reference", "far"):
        text = systems[name].read_text().splitlines()
        cut[name] = write(tmp_path / f"cut.{name}", [text[row - 1] for row in rows])
    part = ssmt(*common, "--reference", cut["reference"], "--hypothesis", f"x={cut['far']}")
    (subset,) = json.loads(whole.out)["subsets"]
    assert subset["subset"] == "divergence-0.2"
    assert subset["scores"] == json.loads(part.out)["scores"]
    assert "<svg" in (tmp_path / "figure3.svg").read_text()


def test_formats(ssmt: Ssmt, systems: dict[str, Path], tmp_path: Path) -> None:
    common = ["evaluate", "--reference", systems["reference"], "--hypothesis", systems["near"], systems["far"]]
    common += ["--samples", 0]
    plain, markdown, latex = (ssmt(*common, *flags).out for flags in ([], ["--markdown"], ["--latex"]))
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"
    assert "near" in plain
    assert signature in plain, "a signature is not folded"
    assert markdown.splitlines()[2].startswith("| System | BLEU | chrF | chrF++ | TER ↓ |")
    assert r"\begin{tabular}{lrrrr}" in latex
    assert r"\underline{\textbf{" in latex
    for ending, content in ((".md", markdown), (".tex", latex)):
        assert ssmt(*common, "-o", tmp_path / f"table{ending}").status == 0
        assert (tmp_path / f"table{ending}").read_text() == content


def test_bad_calls_of_evaluate(ssmt: Ssmt, systems: dict[str, Path], tmp_path: Path, model_directory: Path) -> None:
    common = ["evaluate", "--reference", systems["reference"]]
    near = ["--hypothesis", f"near={systems['near']}"]
    short = write(tmp_path / "short.txt", ["one", "two"])
    refused(ssmt(*common, "--hypothesis", f"short={short}"), "72 lines", r"short.txt has 2", "Line 3 is the first")
    refused(ssmt(*common), "Nothing to evaluate")
    refused(ssmt(*common, "--hypothesis", "x=absent.txt"), "absent.txt: there is no such file")
    refused(ssmt(*common, "--model", f"m={model_directory}"), "A model needs a source")
    refused(ssmt(*common, "--model", f"m={model_directory}", "--source", short), r"short.txt has 2")
    refused(ssmt(*common, *near, "--hypothesis", f"near={systems['far']}"), "another system is called 'near'")
    refused(ssmt(*common, *near, "--hypothesis", "=x"), "expected NAME=PATH")
    refused(ssmt(*common, *near, "--json", "--latex"), "--json and --latex exclude each other")
    refused(ssmt(*common, *near, "--metric", "METEOR"), "Unknown metric 'METEOR'")
    refused(ssmt(*common, *near, "--baseline", "nobody"), "baseline 'nobody' is not one of the systems")
    refused(ssmt(*common, *near, "--plot", tmp_path / "plot.bmp"), r"plot.bmp: a plot's name ends in")
    numbers = write(tmp_path / "bad.lines", ["1", "73"])
    refused(ssmt(*common, *near, "--subset", numbers), r"bad.lines, line 2: '73' is no line number", "has 72")
    refused(ssmt(*common, *near, "--subset", tmp_path / "none.lines"), "there is no such file")


def test_what_is_wrong_is_said_before_anything_is_translated(
    ssmt: Ssmt, systems: dict[str, Path], tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("nothing should be translated")

    monkeypatch.setattr("ssmt.evaluation.systems.translate_lines", never)
    call = ["evaluate", "--reference", systems["reference"], "--source", systems["source"], "--model", model_directory]
    refused(ssmt(*call, "--metric", "BLUE"), "Unknown metric 'BLUE'")
    refused(ssmt(*call, "--baseline", "typo"), "The baseline 'typo' is not one of the systems")
    refused(ssmt(*call, "--json", "-o", tmp_path / "absent" / "x.json"), "x.json: its directory does not exist")
    refused(ssmt(*call, "--save-translations", systems["near"]), "near.txt: cannot be made")
    alone = ["evaluate", "--reference", systems["reference"], "--hypothesis", systems["near"]]
    refused(
        ssmt(*alone, "--save-translations", tmp_path / "kept"), "There is no model whose translations could be kept"
    )


def test_gold_with_runs_of_blanks_is_refused_for_models_that_take_them_for_one(
    ssmt: Ssmt, tmp_path: Path, model_directory: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(model_directory, model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["text"]["single_blanks"] = True
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    rows = ["I see.\tnibona a.\tni|bona a.", "I see.\tnibona  a.\tni|bona  a."]
    gold = write(tmp_path / "gold.tsv", rows)
    refused(ssmt("morphology", "--gold", gold, "--model", model), "gold.tsv, line 2: this model takes runs of blanks")


def test_plots_say_what_to_install(
    ssmt: Ssmt, systems: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    common = ["evaluate", "--reference", systems["reference"], "--hypothesis", systems["near"], "--samples", 0]
    refused(ssmt(*common, "--plot", tmp_path / "plot.png"), r"pip install ssmt\[plots\]")
    assert ssmt(*common).status == 0


# Morphology


@pytest.fixture
def gold(tmp_path: Path, toy_pairs: list[Pair]) -> Path:
    """Sentences whose verbs are cut after their first two letters, with a letter that the model has never seen."""
    rows = [f"{source}\t{target}\t{target[:2]}|{target[2:]}" for source, target in toy_pairs[:20]]
    return write(tmp_path / "gold.tsv", [*rows, "She sings.\taφula.\ta|φula."])


def scores_of(outcome_out: str, system: str) -> dict[str, float]:
    scores = json.loads(outcome_out)["systems"][system]
    return {
        f"{reading} {part}": scores[reading][part]["value"]
        for reading in ("boundary_micro", "boundary_macro", "identification_micro", "identification_macro")
        for part in ("precision", "recall", "f1")
    }


def test_gold_against_itself_is_100_and_single_characters_find_every_boundary(ssmt: Ssmt, gold: Path) -> None:
    cut = [line.split("\t")[1] for line in gold.read_text().splitlines()]
    characters = write(gold.with_name("characters.txt"), ["|".join(text) for text in cut])
    outcome = ssmt("morphology", "--gold", gold, "--segmented", f"gold={gold}", f"all={characters}", "--json")
    assert outcome.status == 0, outcome.err
    assert set(scores_of(outcome.out, "gold").values()) == {100.0}
    of_characters = scores_of(outcome.out, "all")
    assert of_characters["boundary_micro recall"] == of_characters["boundary_macro recall"] == 100
    assert of_characters["boundary_micro precision"] < 50


def test_a_model_is_scored_as_its_written_segmentation_is(ssmt: Ssmt, gold: Path, model_directory: Path) -> None:
    rows = [line.split("\t") for line in gold.read_text().splitlines()]
    source, target = (write(gold.with_name(f"{n}.txt"), [row[n] for row in rows]) for n in (0, 1))
    written = gold.with_name("segmented.txt")
    arguments = ["--source", source, "--target", target, "--separator", "|", "--allow-unknown"]
    assert ssmt("segment", model_directory, *arguments, "-o", written).status == 0
    outcome = ssmt("morphology", "--gold", gold, "--model", model_directory, "--segmented", f"x={written}", "--json")
    assert outcome.status == 0, outcome.err
    assert scores_of(outcome.out, model_directory.name) == scores_of(outcome.out, "x")


def test_the_source_is_used_unless_told_otherwise(gold: Path, model_directory: Path) -> None:
    translator, read = Translator.load(model_directory, "cpu"), read_gold(gold)
    given, alone = (gold_posteriors(translator, read, conditioned=yes) for yes in (True, False))
    assert any((one != other).any() for one, other in zip(given, alone, strict=True))
    assert [len(row) for row in given] == [len(text) + 1 for text in read.texts]
    after = translator.boundary_posteriors(read.sources, read.texts, allow_unknown=True)
    assert given[3][1:].tolist() == pytest.approx(after[3])


def test_the_threshold_is_tuned_on_one_file_and_applied_to_another(
    ssmt: Ssmt, gold: Path, model_directory: Path, toy_pairs: list[Pair]
) -> None:
    rows = [f"{source}\t{target}\t{target[:4]}|{target[4:]}" for source, target in toy_pairs[30:50]]
    tuning = write(gold.with_name("tuning.tsv"), rows)
    translator, read = Translator.load(model_directory, "cpu"), read_gold(tuning)
    best = precision_recall_curve(read, gold_posteriors(translator, read)).best_threshold
    plot = gold.with_name("curve.png")
    common = ["morphology", "--gold", gold, "--model", f"m={model_directory}", "--tune-on", tuning, "--samples", 0]
    outcome = ssmt(*common, "--json", "--plot", plot)
    assert outcome.status == 0, outcome.err
    ((name, threshold),) = json.loads(outcome.out)["posteriors"]["m"]["thresholds"].items()
    assert threshold == pytest.approx(best)
    wanted = read_gold(gold)
    above = [{k for k, p in enumerate(row) if p >= best} for row in gold_posteriors(translator, wanted)]
    expected = evaluate_segmentation(wanted, above, samples=0)
    assert scores_of(outcome.out, name)["boundary_micro f1"] == pytest.approx(expected.boundary_micro.f1.value)
    viterbi = evaluate_segmentation(wanted, gold_cuts(translator, wanted), samples=0)
    assert scores_of(outcome.out, "m")["boundary_micro f1"] == pytest.approx(viterbi.boundary_micro.f1.value)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "tuning.tsv" in ssmt(*common).out


def test_bad_calls_of_morphology(ssmt: Ssmt, tmp_path: Path, gold: Path, model_directory: Path) -> None:
    model = ["--model", model_directory]
    ragged = write(tmp_path / "ragged.tsv", ["inyoni\ti-nyoni", "inyoni i-nyoni"])
    refused(ssmt("morphology", "--gold", ragged, *model), r"ragged.tsv, line 2: 1 columns between tabs, wanted 2")
    misspelt = write(tmp_path / "misspelt.tsv", ["inyoni\ti-nyoni", "inkomo\tin-como"])
    refused(ssmt("morphology", "--gold", misspelt, *model), r"misspelt.tsv, line 2: the segments do not spell the text")
    short = write(tmp_path / "short.txt", ["i|nyoni"])
    refused(ssmt("morphology", "--gold", gold, "--segmented", f"s={short}"), "21 lines", "short.txt has 1")
    refused(ssmt("morphology", "--gold", gold), "Nothing to measure")
    refused(ssmt("morphology", "--gold", gold, "--segmented", gold, "--tune-on", gold), "need --model")
    long = write(tmp_path / "long.tsv", ["a\ta", f"{'a' * 4001}\t{'a' * 4001}"])
    refused(ssmt("morphology", "--gold", long, *model), r"long.tsv, line 2: has 4,001 characters")


def test_gold_may_be_longer_than_what_the_model_was_trained_on(
    ssmt: Ssmt, tmp_path: Path, model_directory: Path
) -> None:
    text = "nibona " * 150 + "inyoni"
    gold = write(tmp_path / "long.tsv", [f"see {'bird ' * 220}\t{text}\t{text.replace('nib', 'ni|b')}"])
    outcome = ssmt("morphology", "--gold", gold, "--model", f"m={model_directory}", "--json", "--samples", 0)
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["systems"]["m"]["words"] == 151


# Compositional generalisation


@pytest.fixture
def compositional(toy_files: TrainingFiles, systems: dict[str, Path], tmp_path: Path) -> list[object]:
    """The command as the issue writes it, but for where the morphemes come from."""
    return [
        "compositional", "--train", toy_files.target, "--test-source", systems["source"], "--test-target",
        systems["reference"], "--target-divergence", 0.2, 0.4, "--size", 9, "--candidates", 20, "--seed", 3,
        "--output", tmp_path / "subsets",
    ]  # fmt: skip


def test_subsets_hold_the_lines_they_name(
    ssmt: Ssmt, compositional: list[object], tmp_path: Path, toy_pairs: list[Pair]
) -> None:
    words = sorted({word.rstrip(".") for _, target in toy_pairs for word in target.split()})
    listed = write(tmp_path / "words.tsv", [f"{word}\t{word[:2]}-{word[2:]}" for word in words if len(word) > 2])
    outcome = ssmt(*compositional, "--morphemes", listed, "--json", "--plot", tmp_path / "growth.svg")
    assert outcome.status == 0, outcome.err
    record = json.loads(outcome.out)
    assert [subset["target_divergence"] for subset in record["subsets"]] == [0.2, 0.4]
    for name in ("divergence-0.2", "divergence-0.4"):
        lines, source, target = (
            (tmp_path / "subsets" / f"{name}.{ending}").read_text().splitlines()
            for ending in ("lines", "source", "target")
        )
        assert len(lines) == 9
        assert [toy_pairs[int(line) - 1] for line in lines] == list(zip(source, target, strict=True))
    scored = ssmt(
        "evaluate", "--reference", tmp_path / "test.target", "--hypothesis", tmp_path / "near.txt", "--samples", 0,
        "--subset", tmp_path / "subsets",
    )  # fmt: skip
    assert "9 sentences of divergence-0.2" in scored.out
    assert "9 sentences of divergence-0.4" in scored.out


def test_morphemes_come_from_segmented_texts_a_model_or_morfessor(
    ssmt: Ssmt, compositional: list[object], toy_files: TrainingFiles, tmp_path: Path, model_directory: Path
) -> None:
    segmented = []
    for path in (toy_files.target, tmp_path / "test.target"):
        texts = path.read_text().splitlines()
        segmented.append(
            write(tmp_path / f"{path.name}.cut", [" ".join(f"{w[:2]}|{w[2:]}" for w in t.split()) for t in texts])
        )
    divergences = set()
    for morphemes in (["--morphemes", *segmented], ["--segmenter", model_directory], []):
        outcome = ssmt(*compositional, *morphemes, "--json")
        assert outcome.status == 0, outcome.err
        divergences.add(json.loads(outcome.out)["test_set"]["atom_divergence"])
    assert len(divergences) == 3, "each has morphemes of its own"


def instead(arguments: list[object], option: str, value: object) -> list[object]:
    """The arguments with another value of an option, or with one more option."""
    if option not in arguments:
        return [*arguments, option, value]
    place = arguments.index(option) + 1
    return [*arguments[:place], value, *arguments[place + 1 :]]


def test_bad_calls_of_compositional(
    ssmt: Ssmt, compositional: list[object], tmp_path: Path, model_directory: Path
) -> None:
    listed = write(tmp_path / "words.tsv", ["abc\ta-bc", "abc"])
    refused(ssmt(*compositional, "--morphemes", listed), r"words.tsv, line 2: wanted a word, a tab")
    refused(ssmt(*compositional, "--morphemes", listed, "--segmenter", model_directory), "exclude each other")
    cut = write(tmp_path / "cut", ["a|b c"])
    refused(ssmt(*compositional, "--morphemes", cut, cut), "cut has 1: line i of one must be line i of the other")
    refused(ssmt(*compositional, "--morphemes", cut, cut, cut), "one file .* or two")
    short = write(tmp_path / "short", ["one"])
    refused(ssmt(*instead(compositional, "--test-source", short)), r"short has 1 line")
    too_many = instead(compositional, "--size", 100)
    refused(ssmt(*too_many), "A subset of 100 sentences cannot be taken from a test set of 72")
    refused(ssmt(*compositional, "--target-divergence", 1.5), "divergences lie between 0 and 1")
    assert not (tmp_path / "subsets").exists()
