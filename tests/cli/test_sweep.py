"""`ssmt sweep`: the right table, nothing done twice, nothing mixed up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssmt.config import compose
from ssmt.errors import UserError
from ssmt.evaluation import sweep as sweeps
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training.log import kept_bits
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

    def stopped_at_the_second_block(self: Translator, sources: list[str], **options: object) -> object:
        calls.append(len(sources))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, sources, **options)  # type: ignore[arg-type]

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


def test_the_grid_is_the_product_of_its_axes() -> None:
    texts = ("network.encoder_layers+network.decoder_layers=1,3", "training.seed=7,8")
    axes = [sweeps.parse_axis(text) for text in texts]
    found = list(sweeps.grid(axes, compose("tiny")))
    assert [name for name, _, _ in found] == [
        f"encoder_layers+decoder_layers-{layers}.seed-{seed}" for layers in (1, 3) for seed in (7, 8)
    ]
    assert [(c.network.decoder_layers, c.training.seed) for _, _, c in found] == [(1, 7), (1, 8), (3, 7), (3, 8)]


def test_table_7_marks_the_best_of_each_metric() -> None:
    numbers = {("mixture", 1): (11.8, 49.7), ("dynamic", 1): (13.6, 52.2), ("dynamic", 10): (14.4, 53.8)}
    records = [
        {"model": "zu", "search": search, "beam": beam, "BLEU": bleu, "chrF": chrf, "seconds": 5.0, "signatures": {}}
        for (search, beam), (bleu, chrf) in numbers.items()
    ]
    table = sweeps.decoding_table(records, 10)
    assert table.columns == ("Beam", *(f"{s} {c}" for s in ("mixture", "dynamic") for c in ("BLEU", "chrF", "s")))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["1", "11.8", "49.7", "0.500", "13.6", "52.2", "0.500"],
        ["10", "–", "–", "–", "14.4", "53.8", "0.500"],
    ]
    assert {cell.text for row in table.rows for cell in row if cell.bold} == {"14.4", "53.8"}


def test_errors_in_a_block_name_the_line_of_the_whole_text(tmp_path: Path, model_directory: Path) -> None:
    translator = Translator.load(model_directory, "cpu")
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"})

    def translate(block: object) -> list[str]:
        return [few[0].text for few in translator.n_best_translations(block, beam=1)]  # type: ignore[arg-type]

    sources = ["see"] * (sweeps.BLOCK + 2) + ["x" * 1001]
    with pytest.raises(UserError, match=f"source {sweeps.BLOCK + 3}:"):
        directory.decode("point", "weights", sources, translate, Reporter())


def test_blocks_of_other_weights_and_broken_ones_are_decoded_again(tmp_path: Path) -> None:
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"})
    sources = [str(row) for row in range(sweeps.BLOCK + 1)]

    def interrupted(block: Sequence[str]) -> list[str]:
        if len(block) == 1:
            raise KeyboardInterrupt
        return ["é"] * len(block)

    def translated(weights: str) -> list[str]:
        found, _ = directory.decode("point", weights, sources, lambda block: ["new"] * len(block), Reporter())
        return found

    with pytest.raises(KeyboardInterrupt):
        directory.decode("point", "old", sources, interrupted, Reporter())
    file = tmp_path / "decoded" / "point.jsonl"
    file.write_bytes(file.read_bytes() + '{"translations": ["é'.encode()[:-1])  # cut inside a character
    assert translated("old") == ["é"] * sweeps.BLOCK + ["new"]
    assert translated("other") == ["new"] * (sweeps.BLOCK + 1)


def test_keys_of_the_same_name_are_told_apart() -> None:
    axes = [sweeps.parse_axis(text) for text in ("text.longest_segment=3,5", "segmenter.longest_segment=5,10")]
    names = [name for name, _, _ in sweeps.grid(axes, compose("tiny"))]
    assert len(set(names)) == 4
    assert names[0] == "text.longest_segment-3.segmenter.longest_segment-5"


def test_bits_are_those_of_the_model_that_was_kept() -> None:
    log = [
        {"update": 5, "valid_bits_per_character": 1.5, "improved": True},
        {"update": 9, "valid_bits_per_character": 1.4, "improved": False},  # chrF decided
        {"update": 9, "average_bits_per_character": 1.45, "averaged": 2, "improved": True},
    ]
    assert [kept_bits(log[:n]) for n in range(4)] == [None, 1.5, 1.5, 1.45]
