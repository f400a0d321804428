"""`ssmt sweep`: the right table, nothing done twice, nothing mixed up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ssmt.evaluation import sweep as sweeps
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused


@pytest.fixture
def decode(toy_files: TrainingFiles, model_directory: Path, tmp_path: Path) -> list[object]:
    return [
        "sweep", "decode", "--model", f"toy={model_directory}", "--source", toy_files.valid_source, "--reference",
        toy_files.valid_target, "--output", tmp_path / "sweep",
    ]  # fmt: skip


def points(directory: Path) -> dict[tuple[str, int], dict[str, float]]:
    return {(point["search"], point["beam"]): point for point in json.loads((directory / "results.json").read_text())}


def test_beams_and_searches_give_one_table_and_one_plot(
    ssmt: Ssmt, decode: list[object], tmp_path: Path, toy_files: TrainingFiles, model_directory: Path
) -> None:
    outcome = ssmt(*decode, "--beam", 1, 2, "--search", "mixture", "marginal", "--markdown")
    assert outcome.status == 0, outcome.err
    directory = tmp_path / "sweep"
    assert outcome.out == (directory / "table.md").read_text()
    assert "| Beam | marginal BLEU | marginal chrF | marginal s | mixture BLEU |" in outcome.out
    assert (directory / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (directory / "plot.svg").read_text()
    found = points(directory)
    assert sorted(found) == [("marginal", 1), ("marginal", 2), ("mixture", 1), ("mixture", 2)]
    # A point's chrF is that of `ssmt evaluate` on the same model, search and beam.
    texts = ["--source", toy_files.valid_source, "--reference", toy_files.valid_target]
    how = ["--search", "mixture", "--beam", 2, "--metric", "chrF", "--samples", 0, "--json"]
    evaluated = ssmt("evaluate", "--model", model_directory, *texts, *how)
    assert found["mixture", 2]["chrF"] == pytest.approx(json.loads(evaluated.out)["scores"][0]["score"])


def test_a_stopped_sweep_goes_on_where_it_was(
    ssmt: Ssmt, decode: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "BLOCK", 5)
    translate = Translator.n_best_translations
    calls: list[int] = []

    def stopped_at_the_second_block(self: Translator, sources: list[str], *how: object, **options: object) -> object:
        calls.append(len(sources))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, sources, *how, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "n_best_translations", stopped_at_the_second_block)
    arguments = [*decode, "--beam", 1, "--search", "marginal"]
    outcome = ssmt(*arguments)
    assert outcome.status == 130
    assert "Repeat the command to go on" in outcome.err
    decoded = tmp_path / "sweep" / "decoded" / "toy.marginal.beam-1.jsonl"
    with open(decoded, "a") as stream:
        stream.write('{"seconds": 1, "transl')  # as if the machine had died while writing
    assert ssmt(*arguments).status == 0
    assert calls == [5, 5, 5, 2], "12 sentences in blocks of 5: the first block is not translated again"
    blocks = [json.loads(line) for line in decoded.read_text().splitlines()]
    assert [len(block["translations"]) for block in blocks] == [5, 5, 2]
    assert ssmt(*arguments, 2).status == 2, "a value after --search is a search"
    assert ssmt(*arguments).status == 0
    assert len(calls) == 4, "a finished sweep translates nothing"
    assert ssmt(*decode, "--beam", 2, "--search", "marginal").status == 0
    assert sorted(points(tmp_path / "sweep")) == [("marginal", 1), ("marginal", 2)], "another beam adds to the table"


def test_another_sweep_is_refused(ssmt: Ssmt, decode: list[object], tmp_path: Path, model_directory: Path) -> None:
    arguments = [*decode, "--beam", 1, "--search", "marginal"]
    assert ssmt(*arguments, "--sentences", 3).status == 0
    refused(ssmt(*arguments, "--sentences", 4), "holds a sweep of something else", "sentences differ")
    other = tmp_path / "other"
    shutil.copytree(model_directory, other)
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    refused(
        ssmt(*arguments, "--sentences", 3, "--model", f"toy={other}"), "another system is called 'toy'"
    )  # two of one name in one call
    arguments[arguments.index("--model") + 1] = f"toy={other}"
    refused(ssmt(*arguments, "--sentences", 3), "has results of another model called 'toy'")


@pytest.fixture
def train(toy_files: TrainingFiles, tmp_path: Path) -> list[object]:
    files = {
        "--source": toy_files.source,
        "--target": toy_files.target,
        "--valid-source": toy_files.valid_source,
        "--valid-target": toy_files.valid_target,
    }
    settings = ["network.width=16", "network.heads=2", "network.feedforward=32", "text.source_vocabulary=60"]
    settings += ["training.chrf_sentences=0"]
    return [
        "sweep", "train", *(word for pair in files.items() for word in pair), "--preset", "tiny", "--set", *settings,
        "--max-updates", 2, "--beam", 1, "--sentences", 4, "--output", tmp_path / "grid",
    ]  # fmt: skip


def test_a_grid_is_trained_point_by_point_and_only_once(ssmt: Ssmt, train: list[object], tmp_path: Path) -> None:
    layers = "network.encoder_layers+network.decoder_layers=1,2"
    outcome = ssmt(*train, "--grid", layers, "text.lexicon_size=40")
    assert outcome.status == 0, outcome.err
    names = ["encoder_layers+decoder_layers-1.lexicon_size-40", "encoder_layers+decoder_layers-2.lexicon_size-40"]
    directory = tmp_path / "grid"
    for name, depth in zip(names, (1, 2), strict=True):
        network = json.loads((directory / "runs" / name / "config.json").read_text())["network"]
        assert (network["encoder_layers"], network["decoder_layers"]) == (depth, depth)
    records = json.loads((directory / "results.json").read_text())
    assert [record["updates"] for record in records] == [2, 2]
    assert records[0]["parameters"] < records[1]["parameters"]
    assert "encoder_layers+decoder_layers | lexicon_size | Parameters" in (directory / "table.md").read_text()
    assert (directory / "plot.svg").exists()

    weights = directory / "runs" / names[0] / "model.safetensors"
    written = weights.stat().st_mtime_ns
    outcome = ssmt(*train, "--grid", layers.removesuffix(",2"), "text.lexicon_size=40,60", "--json")
    assert outcome.status == 0, outcome.err
    assert weights.stat().st_mtime_ns == written, "a finished point is not trained again"
    assert len(json.loads(outcome.out)["points"]) == 3, "points of earlier calls stay in the table"


def test_a_point_that_fails_does_not_take_the_others_with_it(ssmt: Ssmt, train: list[object], tmp_path: Path) -> None:
    outcome = ssmt(*train, "--grid", "training.learning_rate=1e30,0.001", "--set", "training.warmup_updates=1")
    refused(outcome, "1 of 2 points failed: learning_rate-1e30", "not finite")
    assert (tmp_path / "grid" / "results" / "learning_rate-0.001.json").exists()


def test_a_wrong_grid_is_refused_before_anything_is_trained(ssmt: Ssmt, train: list[object], tmp_path: Path) -> None:
    refused(ssmt(*train, "--grid", "network.layers=1,2"), "there is no setting 'network.layers'")
    refused(ssmt(*train, "--grid", "text.lexicon_size=10,0"), "text.lexicon_size: .*greater than or equal to 1")
    refused(ssmt(*train, "--grid", "text.lexicon_size"), "expected KEY=VALUE,VALUE")
    refused(ssmt(*train, "--grid", "text.lexicon_size=1", "text.lexicon_size=2"), "text.lexicon_size is given twice")
    assert not (tmp_path / "grid").exists()


def test_a_grid_is_of_the_files_that_are_given(ssmt: Ssmt, train: list[object], tmp_path: Path) -> None:
    listed = tmp_path / "listed.yaml"
    listed.write_text("data:\n  train:\n    - {pairs: corpus.tsv, target_language: zu}\n")
    refused(ssmt(*train, "--config", listed, "--grid", "text.lexicon_size=40"), "settings list corpora .`data`.")
    assert not (tmp_path / "grid").exists()
