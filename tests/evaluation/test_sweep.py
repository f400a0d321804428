"""Sweeps from Python: the grid, the tables, and what is saved while they run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.locks import another_at_work

from ssmt.config import Config, compose
from ssmt.errors import Stopped, UserError
from ssmt.evaluation import sweep as sweeps
from ssmt.evaluation.sweep_decoding import decoding_sweep, decoding_table
from ssmt.evaluation.sweep_training import grid, parse_axis, training_sweep
from ssmt.progress import Reporter
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from ssmt.training.log import kept_bits
from ssmt.translator import Translator


def test_a_sweep_from_python_has_a_point_for_each_search_and_beam(
    model_directory: Path, toy_files: TrainingFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = toy_files.valid_source, [toy_files.valid_target]
    results = decoding_sweep({"toy": model_directory}, *texts, tmp_path, beams=[1], sentences=2, device="cpu")
    assert [(record["search"], record["beam"]) for record in results.records] == [
        ("dynamic", 1), ("marginal", 1), ("mixture", 1),
    ]  # fmt: skip
    assert (results.points, results.failed) == (3, {})
    with pytest.raises(UserError, match="cannot name a model here"):
        decoding_sweep({"../toy": model_directory}, *texts, tmp_path, beams=[1], sentences=2, device="cpu")
    assert results.table == decoding_table(results.records, 2)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UserError, match="choose another directory"):
        decoding_sweep({"toy": model_directory}, *texts, tmp_path, beams=[1], sentences=3, device="cpu")


def test_two_processes_are_not_in_one_sweep(tmp_path: Path, model_directory: Path) -> None:
    """Each would append to the other's translations."""
    (tmp_path / "source").write_text("we see.\n")
    files = tmp_path / "source", [tmp_path / "source"]
    with (
        another_at_work(tmp_path / "sweep"),
        pytest.raises(UserError, match="sweep: another process is at work there"),
    ):
        decoding_sweep({"a": model_directory}, *files, tmp_path / "sweep", beams=[1])


def test_weights_of_another_size_are_refused_before_they_are_read(tmp_path: Path, model_directory: Path) -> None:
    """A file that says that it has 64 GiB would be read to its end to know the model again."""
    (tmp_path / "source").write_text("we see.\n")
    shutil.copytree(model_directory, tmp_path / "model")
    os.truncate(tmp_path / "model" / "model.safetensors", 1 << 36)
    files = tmp_path / "source", [tmp_path / "source"]
    with pytest.raises(UserError, match=r"model\.safetensors: is damaged"):
        decoding_sweep({"a": tmp_path / "model"}, *files, tmp_path / "sweep", beams=[1])


def test_a_signal_ends_a_sweep_of_trainings_before_the_next_point(
    toy_files: TrainingFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []

    def stopped(directory: Path, *_: object) -> str:
        trained.append(directory.name)
        return "SIGTERM"

    monkeypatch.setattr(run, "train", stopped)
    axes, sizes = [parse_axis("training.seed=1,2")], ["text.source_vocabulary=60", "text.lexicon_size=40"]
    with pytest.raises(Stopped, match="Stopped by SIGTERM; everything is saved"):
        training_sweep(toy_files, axes, tmp_path, preset="tiny", settings=sizes, device="cpu")
    assert trained == ["seed-1"]
    assert not (tmp_path / "table.md").exists()


def test_the_grid_is_the_product_of_its_axes() -> None:
    texts = ("network.encoder_layers+network.decoder_layers=1,3", "training.seed=7,8")
    axes = [parse_axis(text) for text in texts]
    points = list(grid(axes, lambda settings: compose("tiny", settings=settings)))
    assert [point.name for point in points] == [
        f"encoder_layers+decoder_layers-{layers}.seed-{seed}" for layers in (1, 3) for seed in (7, 8)
    ]
    assert [(p.settings.network.decoder_layers, p.settings.training.seed) for p in points] == [
        (1, 7),
        (1, 8),
        (3, 7),
        (3, 8),
    ]


def test_table_7_marks_the_best_of_each_metric() -> None:
    numbers = {("mixture", 1): (11.8, 49.7), ("dynamic", 1): (13.6, 52.2), ("dynamic", 10): (14.4, 53.8)}
    records = [
        {"model": "zu", "search": search, "beam": beam, "BLEU": bleu, "chrF": chrf, "seconds": 5.0, "signatures": {}}
        for (search, beam), (bleu, chrf) in numbers.items()
    ]
    table = decoding_table(records, 10)
    assert table.columns == ("Beam", *(f"{s} {c}" for s in ("mixture", "dynamic") for c in ("BLEU", "chrF", "s")))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["1", "11.8", "49.7", "0.500", "13.6", "52.2", "0.500"],
        ["10", "–", "–", "–", "14.4", "53.8", "0.500"],
    ]
    assert {cell.text for row in table.rows for cell in row if cell.bold} == {"14.4", "53.8"}


def test_errors_in_a_block_name_the_line_of_the_whole_text(tmp_path: Path, model_directory: Path) -> None:
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"}, {})
    translate = sweeps.translate_with(Translator.load(model_directory, "cpu"), None, beam=1)
    sources = ["see"] * (sweeps.BLOCK + 2) + ["x" * 1001]
    with pytest.raises(UserError, match=f"source {sweeps.BLOCK + 3}:"):
        directory.decode("point", "weights", sources, translate, Reporter())


def test_blocks_of_other_weights_and_broken_ones_are_decoded_again(tmp_path: Path) -> None:
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"}, {})
    sources = [str(row) for row in range(sweeps.BLOCK + 1)]

    def interrupted(block: Sequence[str]) -> list[str]:
        if len(block) == 1:
            raise KeyboardInterrupt
        return ["é"] * len(block)

    def translated(weights: str) -> list[str]:
        return directory.decode("point", weights, sources, lambda block: ["new"] * len(block), Reporter())[0]

    with pytest.raises(KeyboardInterrupt):
        directory.decode("point", "old", sources, interrupted, Reporter())
    file = tmp_path / "decoded" / "point.jsonl"
    file.write_bytes(file.read_bytes() + '{"translations": ["é'.encode()[:-1])  # cut inside a character
    assert translated("old") == ["é"] * sweeps.BLOCK + ["new"]
    assert translated("other") == ["new"] * (sweeps.BLOCK + 1)


def test_keys_of_the_same_name_are_told_apart() -> None:
    axes = [parse_axis(text) for text in ("text.longest_segment=3,5", "segmenter.longest_segment=5,10")]
    names = [point.name for point in grid(axes, lambda settings: compose("tiny", settings=settings))]
    assert len(set(names)) == 4
    assert names[0] == "text.longest_segment-3.segmenter.longest_segment-5"


def test_bits_are_those_of_the_model_that_was_kept() -> None:
    log = [
        {"update": 5, "valid_bits_per_character": 1.5, "improved": True},
        {"update": 9, "valid_bits_per_character": 1.4, "improved": False},  # chrF decided
        {"update": 9, "average_bits_per_character": 1.45, "averaged": 2, "improved": True},
    ]
    assert [kept_bits(log[:n]) for n in range(4)] == [None, 1.5, 1.5, 1.45]


def test_a_grid_that_nobody_can_mean_is_refused() -> None:
    def configure(settings: Sequence[str]) -> Config:
        return Config()

    many = [parse_axis(f"{key}={','.join(map(str, range(101)))}") for key in ("training.seed", "text.lexicon_size")]
    with pytest.raises(UserError, match="has 10,201 points"):
        list(grid(many, configure))
    with pytest.raises(UserError, match=r"lexicon_file=a_b and text\.lexicon_file=a/b are too alike"):
        list(grid([parse_axis("text.lexicon_file=a/b,a_b")], configure))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BLEU", "high"),
        ("BLEU", True),
        ("chrF", 10**400),
        ("seconds", None),
        ("signatures", {"BLEU": 1}),
        ("values", {"seed": [1]}),
    ],
)
def test_results_of_another_hand_are_refused(tmp_path: Path, name: str, value: object) -> None:
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"}, {"values": dict})
    record = {"BLEU": 1, "chrF": 2.5, "seconds": 3, "signatures": {"BLEU": "x"}, "values": {"seed": "1"}}
    directory.finish("point", record)
    assert directory.results() == [record]
    (tmp_path / "results" / "point.json").write_text(json.dumps(record | {name: value}))
    with pytest.raises(UserError, match=rf"point\.json: has no {name} of a finished point"):
        directory.results()


def test_more_translations_than_sources_are_refused(tmp_path: Path) -> None:
    directory = sweeps.SweepDirectory(tmp_path, {"kind": "test"}, {})
    block = {"seconds": 1, "translations": ["a", "b"], "weights": "x"}
    (tmp_path / "decoded" / "point.jsonl").write_text(json.dumps(block) + "\n")
    with pytest.raises(UserError, match=r"point\.jsonl: has 2 lines of 1"):
        directory.decode("point", "x", ["a"], list, Reporter())


@pytest.mark.parametrize(
    ("axis", "search", "message"),
    [
        ("training.seed=1", "marginall", "no search 'marginall'"),
        ("model=ssmt,bpe", "marginal", "no search 'marginal'"),
        ("model=ssmt,foo", None, "no kind of model 'foo'"),
    ],
)
def test_what_cannot_be_decoded_is_not_trained(
    toy_files: TrainingFiles, tmp_path: Path, axis: str, search: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        training_sweep(toy_files, [parse_axis(axis)], tmp_path / "sweep", preset="tiny", search=search)
    assert not (tmp_path / "sweep").exists(), "the corrected call is not refused"
