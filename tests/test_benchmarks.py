"""Benchmarks run to their end, in sizes that measure nothing, and what they make of their numbers is right. No test
looks at a time."""

from __future__ import annotations

import importlib
import json
import math
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ssmt.config import Config, config_of_segmenter, with_settings
from ssmt.demo import make_corpus
from ssmt.demo.comparison import SPLITS
from ssmt.demo.settings import MODELS
from ssmt.directory import save_config, save_description, save_weights
from ssmt.evaluation.translation import evaluate_translations
from ssmt.progress import Reporter
from ssmt.registry import KINDS, build, kind_of
from ssmt.search.decode import search_batch
from ssmt.search.marginal import MarginalScorer
from ssmt.search.options import SearchOptions
from ssmt.search.subword import SubwordScorer
from ssmt.search.table import SEARCHES
from ssmt.text.batch import padded
from ssmt.text.preparation import TrainingFiles, prepare
from tests.conftest import Pair
from tests.models import SOURCES, random_model

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
REAL_DATA = ROOT.parent / "shared" / "data"
NETWORK = "--set network.width=16 --set network.heads=2 --set network.feedforward=32"
VOCABULARIES = "--set text.source_vocabulary=60 --set text.subword_vocabulary=120 --set text.lexicon_size=150"
TINY = f"{NETWORK} {VOCABULARIES}"

Run = Callable[..., str]


def bench_of_make(script: str) -> str:
    """The arguments that `make bench` gives to a script."""
    (command,) = re.findall(rf"benchmarks/{script}\.py (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    return str(command)


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a script as `python benchmarks/SCRIPT ARGUMENTS` would; returns what it prints."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()

    def run(script: str, *arguments: str | Path) -> str:
        words = [word for part in arguments for word in ([str(part)] if isinstance(part, Path) else shlex.split(part))]
        monkeypatch.setattr(sys, "argv", [script, *words])
        with torch.random.fork_rng():
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        return capsys.readouterr().out

    yield run
    torch.set_num_threads(threads)


def tables(markdown: str) -> list[list[list[str]]]:
    """The cells of each Markdown table, without the line below its heads."""
    blocks = re.findall(r"(?:^\|.*\n?)+", markdown, flags=re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if "--" not in line]
        for block in blocks
    ]


def is_number(text: str) -> bool:
    """As tables write it, perhaps bold, underlined or with commas; finite, and not below 0."""
    number = float(re.sub(r"</?ins>|[*,]", "", text))
    return math.isfinite(number) and number >= 0


@pytest.mark.parametrize("spells", [False, True])
def test_training_runs(run_script: Run, tmp_path: Path, spells: bool) -> None:
    smaller = f"{TINY} --sentences 2 --repetitions 1 --lines 60 --threads 1 --json"
    kind = f"--set network.characters={spells} --set network.copies={not spells}"
    (rows,) = tables(run_script("training.py", bench_of_make("training"), kind, smaller, tmp_path / "numbers.json"))
    assert rows[0] == ["small", "SSMT", "subwords", "ratio"]
    of_segments = ["character model", "lexicon"] if spells else ["lexicon", "copies"]
    parts = ["encoder", "decoder body", *of_segments, "lattice", "optimiser"]
    assert [row[0].removesuffix(", ms a sentence") for row in rows[4:]] == parts
    assert all(is_number(cell) for row in rows[1:] for cell in row[1:3] if cell)
    (result,) = json.loads((tmp_path / "numbers.json").read_text())
    assert result["parameters"]["ssmt"] > result["parameters"]["subword"] > 1000
    assert list(result["seconds_of_parts"]) == parts
    assert len(result["time_ratios"]) == 1
    assert min(result["peak_megabytes"].values()) > 0
    assert all(math.isfinite(result[ratio]) and result[ratio] > 0 for ratio in ("time_ratio", "memory_ratio"))


def test_serving_runs(run_script: Run) -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    smaller = f"--preset tiny {TINY} --set text.length_ratio=0.5 --sentences 3 --clients 1 2 --seconds 0.2"
    printed = run_script(
        "serving.py", smaller, "--repetitions 1 --overload-seconds 0.5 --deadline 100 --most-clients 9"
    )
    (rows,) = tables(printed)
    assert rows[0][1:5] == ["clients", "sentences a second", "ratio", "processor time, ratio"]
    assert rows[1][3:5] == ["1.00", "1.00"]
    names = ["across requests", "each request alone"]
    assert [row[:2] for row in rows[3:]] == [[name, clients] for name in names for clients in ("1", "2")]
    assert all(is_number(cell) for row in rows[1:] for cell in row[2:] if cell)
    overload = re.search(r"Overload: .* ([\d,]+) accepted .*, ([\d,]+) refused .* (\d+) others", printed)
    assert overload is not None
    assert (int(overload[1].replace(",", "")) > 0, overload[3]) == (True, "0")


def test_decoding_runs(run_script: Run, tmp_path: Path) -> None:
    smaller = f"{TINY} --beams 2 --batches 3 --length 12 --repetitions 1 --threads 1 --cpu-time --int8 --json"
    searches = ["marginal", "dynamic", "mixture"]
    arguments = bench_of_make("decoding"), smaller, tmp_path / "numbers.json", f"--searches {' '.join(searches)}"
    (rows,) = tables(run_script("decoding.py", *arguments))
    of_time, of_memory = ["ms a sentence", "characters/s", "times subwords"], ["MB", "times subwords"]
    assert rows[0] == ["small", "beam", "batch", *of_time, *of_memory]
    systems = [f"{name}{suffix}" for suffix in ("", " (int8)") for name in ("subwords", *searches)]
    assert [row[:3] for row in rows[1:]] == [[system, "2", "3"] for system in systems]
    assert all(is_number(cell) for row in rows[1:] for cell in row[3:])
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert [row["system"] for row in numbers] == systems
    assert numbers[0]["ratio_to_subwords"] == 1
    assert all(math.isfinite(row["characters_per_second"]) for row in numbers)


def test_decoding_runs_with_a_trained_model(
    run_script: Run, model_directory: Path, toy_config: Config, tmp_path: Path
) -> None:
    trained = tmp_path / "trained"
    shutil.copytree(model_directory, trained)
    save_config(trained, with_settings(toy_config, ["text.subword_vocabulary=120", "text.length_ratio=1"]))
    (rows,) = tables(
        run_script("decoding.py", "--beams 1 --batches 1 --length 10 --repetitions 1 --threads 1 --model", trained)
    )
    assert [row[0] for row in rows] == ["model", "subwords", "marginal", "dynamic", "mixture"]


def test_decoding_refuses_a_model_of_another_kind(
    run_script: Run, toy_files: TrainingFiles, toy_config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = with_settings(toy_config, ["model=bpe", "text.subword_vocabulary=120", "text.length_ratio=1"])
    vocabulary, _ = prepare(toy_files, config.text, tmp_path / "data", Reporter(), kind_of(config).learn)
    save_description(tmp_path, vocabulary, config)
    save_weights(tmp_path, build(vocabulary, config).state_dict())
    with pytest.raises(SystemExit):
        run_script("decoding.py", "--threads 1 --model", tmp_path)
    assert "is not a model of kind ssmt" in capsys.readouterr().err


def test_growth_runs(run_script: Run, tmp_path: Path) -> None:
    paths = "--json", tmp_path / "growth.json", "--figure", tmp_path / "growth.svg"
    (rows,) = tables(run_script("growth.py", "--smoke --repetitions 1 --threads 1", *paths))
    settings = ["characters of a sentence", "lexicon entries", "longest segment", "beam"]
    assert [row[0] for row in rows[1:]] == [setting for setting in settings for _ in range(2)]
    assert sum(row[1].startswith("**") for row in rows) == len(settings), "what is usual is marked"
    assert [row[2] for row in rows[-2:]] == ["", ""], "training has no beam"
    assert all(is_number(cell) for row in rows[1:] for cell in row[1:] if cell)
    numbers = json.loads((tmp_path / "growth.json").read_text())
    assert len(numbers) == len(rows) - 1
    assert all(math.isfinite(row[kind]) for row in numbers for kind in ("training", "decoding") if kind in row)
    assert (tmp_path / "growth.svg").stat().st_size > 1000


def test_text_runs(run_script: Run, toy_files: TrainingFiles) -> None:
    measures = ["prepare", "count n-grams", "ids_of_segments"]
    printed = json.loads(run_script("text.py", "--characters 3000 --lexicon-size 200 --longest-segment 3 --json"))
    assert (printed["lexicon_size"], printed["longest_segment"]) == (200, 3)
    assert [result["measure"] for result in printed["results"]] == measures
    assert all(math.isfinite(result["characters_per_second"]) for result in printed["results"])
    prepared, counted, looked_up = (result["characters"] for result in printed["results"])
    assert prepared == 2 * counted
    assert 3000 <= counted == looked_up
    lines = run_script(
        "text.py", "--lexicon-size 200 --source", toy_files.source, "--target", toy_files.target
    ).splitlines()
    assert [line[:16].strip() for line in lines] == ["", *measures]


def test_demo_runs(run_script: Run, tmp_path: Path) -> None:
    smaller = "--seeds 4 --sentences 500 --held-out 4 --minutes 0.001 --output"
    of_seed, of_all = tables(run_script("demo.py", smaller, tmp_path))
    assert [row[0] for row in of_seed[1:]] == list(MODELS)
    assert [row[:2] for row in of_all[1:]] == [[split, name] for split in SPLITS for name in MODELS]
    scores = [re.fullmatch(r"(\d+\.\d) \((\d+\.\d)\)", cell) for row in of_all[1:] for cell in row[2:]]
    assert all(score and score[1] == score[2] for score in scores), "the mean of one seed is its score"


def test_baselines_runs(run_script: Run, tmp_path: Path, toy_files: TrainingFiles) -> None:
    names = {"train.en": toy_files.source, "train.xx": toy_files.target}
    names |= {"dev.en": toy_files.valid_source, "dev.xx": toy_files.valid_target}
    for name, path in names.items():
        (tmp_path / name).write_bytes(path.read_bytes())
    smaller = f"{TINY} --set training.max_updates=1 --set training.chrf_sentences=2 --output"
    arguments = tmp_path, "en xx --preset tiny", smaller, tmp_path / "runs", "--figures", tmp_path
    (rows,) = tables(run_script("baselines.py", *arguments))
    assert [row[0] for row in rows[1:]] == ["bpe", "ulm", "dpe", "ssmt"]
    assert {row[0] for row in rows[1:]} == set(KINDS), "a new kind is compared too"
    assert [row[2] for row in rows[1:]] == ["1"] * 4, "updates"
    assert all(is_number(cell) for row in rows[1:] for cell in row[1:])
    assert {path.name for path in tmp_path.glob("*.svg")} == {"baselines-bits.svg", "baselines-chrf.svg"}


# The paper's tables. A run of the script is killed, the next one does the rest.

SHORT = "--set training.max_updates=3 --set training.chrf_sentences=2 --set text.length_ratio=0.3"
RESULTS = f"{NETWORK} {SHORT} --seeds 1 2 --languages ss zu --output"


@pytest.fixture
def data_of_results(tmp_path: Path, toy_pairs: list[Pair]) -> Path:
    """The toy text as if it were Swati and Zulu, and half of it again with cuts that stand for morphemes."""
    (tmp_path / "data" / "morphology").mkdir(parents=True)
    parts = {"train": [pair for row, pair in enumerate(toy_pairs) if row % 6], "dev": toy_pairs[::6]}
    parts["test"] = toy_pairs[3::6]
    for language, own_parts in {"ss": parts | {"other": toy_pairs[1::6]}, "zu": parts}.items():
        for part, pairs in own_parts.items():
            for ending, side in zip(("en", language), zip(*pairs, strict=True), strict=True):
                path = tmp_path / "data" / language / f"{part}.{ending}"
                path.parent.mkdir(exist_ok=True)
                path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        gold = [f"{source}\t{target}\t{target[:2]}|{target[2:]}\n" for source, target in toy_pairs[::2]]
        (tmp_path / "data" / "morphology" / f"{language}.sentences.tsv").write_text("".join(gold), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def fewer_results(module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    smaller = {
        "HEADLINE": ("ss",),
        "ASIDE": {"ss": "other"},
        "MORPHOLOGY": ("ss",),
        "BEAMS": (1, 2),
        "BEAM_SENTENCES": 3,
    }
    smaller |= {"SUBSET_SIZE": 4, "GRID_LAYERS": (1,), "GRID_VOCABULARIES": (60,), "LENGTH_PENALTIES": (1.0, 2.0)}
    rows = list(module("paper.systems").ABLATION.items())
    smaller["ABLATION"] = dict([rows[0], *rows[4:7], rows[-1]])
    monkeypatch.setattr(module("paper.published"), "ABLATION", (23.3, 26.4))
    for name, value in smaller.items():
        monkeypatch.setattr(module("paper.systems"), name, value)
    for name, value in module("paper.slots").ONE_THREAD.items():
        monkeypatch.setenv(name, value)  # the script sets it, and it goes again


def kill_after_the_first_job(arguments: list[str | Path]) -> None:
    """Runs the script as a program until it has said something, and kills it."""
    command = [sys.executable, BENCHMARKS / "results.py", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("[1/")
        process.kill()


def written(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def test_results_runs(run_script: Run, data_of_results: Path, fewer_results: None, tmp_path: Path) -> None:
    output, page = tmp_path / "out", tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    options = [*shlex.split(RESULTS), output, "--document", page]
    kill_after_the_first_job([data_of_results, *options, "--tables", "headline", "--languages", "ss"])
    finished = {path: path.stat().st_mtime_ns for path in output.rglob("measured/*.json")}
    assert 1 <= len(finished) < 4, "it was killed in the midst"
    archive = tmp_path / "archive"
    arguments = data_of_results, RESULTS, output, "--archive", archive, "--processes 1 --document", page

    said = run_script("results.py", *arguments).splitlines()
    assert "jobs are done already" in said[0]
    assert not [line for line in said if "FAILED" in line]
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "what was done is not done again"
    *_, last = re.findall(r"\[(\d+)/(\d+)\]", "\n".join(said))
    assert last[0] == last[1]
    text, first = page.read_text(encoding="utf-8"), written(page.parent)
    assert str(tmp_path) not in text
    assert {name for name in first if name.endswith(".svg")} == {
        f"figures/results-{name}.svg" for name in ("curve-ss-bits", "curve-ss-chrf", "compositional", "grid")
    }
    assert all(f"]({name})" in text for name in first if name != "results.md"), "every figure is shown"
    assert rows_below(text, "Table 4")[1][:5].count("not run") == 0
    assert len(rows_below(text, "Table 4")) == 6
    assert [row[0] for row in rows_below(text, "Table 7")[1:]] == ["1", "2"]
    assert {row[2] for row in rows_below(text, "The headline")[1:]} == {"60"}, "Table 4's runs are no headline"
    assert re.search(r"`mbr`, .* 50 samples: chrF \d", text)
    assert [row[2] for row in rows_below(text, "Table 3")[1:]] == ["12", "12", *["not run"] * 4]
    assert [row[4] for row in rows_below(text, "The headline")[1:]][:2] != ["not run"] * 2
    assert [row[0:4:3] for row in rows_below(text, "Text of another kind")[1:]] == [
        ["Swati", "chrF"],
        ["Swati", "BLEU"],
    ]
    assert "not run" not in str(rows_below(text, "Text of another kind"))
    penalties = {
        split: {
            json.loads(path.read_text())["length_penalty"]
            for path in output.glob(f"60-minutes/ss/bpe-1/measured/{split}.*")
        }
        for split in ("test", "other")
    }
    assert penalties["test"] == penalties["other"], "that of the validation text"

    shutil.rmtree(page.parent)
    page.parent.mkdir()
    said = run_script("results.py", *arguments).splitlines()
    assert len(said) == 2, "nothing is left to do"
    assert written(page.parent) == first, "byte for byte"

    # The archive alone is enough, and has neither texts nor models nor places of this machine.
    kept = written(archive)
    assert not [name for name in kept if name.startswith("texts/ss") or name.endswith(".safetensors")]
    assert not [name for name, content in kept.items() if str(tmp_path).encode() in content]
    shutil.rmtree(page.parent)
    page.parent.mkdir()
    from_archive = data_of_results, RESULTS, tmp_path / "elsewhere", "--archive", archive, "--document", page
    said = run_script("results.py", *from_archive).splitlines()
    assert len(said) == 2, "nothing is left to do"
    assert written(page.parent) == first
    assert written(archive) == kept

    # What the killed run and the next one have made together is what one makes alone.
    together, alone = tmp_path / "together", tmp_path / "alone"
    for folder in ("texts", *(f"60-minutes/ss/{system}-1" for system in ("bpe", "ssmt"))):
        shutil.copytree(output / folder, together / folder)
    for path in (*together.rglob("measured/morphemes.json"), *together.rglob("measured/dev.*.json")):
        path.unlink()  # of other tables
    alone_page, together_page = tmp_path / "alone.md", tmp_path / "together.md"
    headline = "--processes 1 --tables headline --seeds 1 --figures", tmp_path / "other", "--document"
    run_script("results.py", data_of_results, RESULTS, alone, *headline, alone_page)
    run_script("results.py", data_of_results, RESULTS, together, "--document-only", *headline, together_page)
    assert together_page.read_text(encoding="utf-8") == alone_page.read_text(encoding="utf-8")


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the data of the archive's runs is not here")
def test_the_archive_makes_the_page_of_results(run_script: Run, tmp_path: Path) -> None:
    """Also: what the archive holds is of today's settings."""
    archive, page = tmp_path / "archive", tmp_path / "docs" / "results.md"
    shutil.copytree(BENCHMARKS / "archive", archive)
    page.parent.mkdir()
    arguments = "--document-only --output", tmp_path / "out", "--archive", archive, "--document", page
    run_script("results.py", REAL_DATA, *arguments)
    assert page.read_bytes() == (ROOT / "docs" / "results.md").read_bytes()
    drawn, shown = (
        {path.name for path in (docs / "figures").glob("results-*.svg")} for docs in (page.parent, ROOT / "docs")
    )
    assert drawn == shown
    assert written(archive) == written(BENCHMARKS / "archive")


def rows_below(text: str, title: str) -> list[list[str]]:
    """The first table of a section."""
    return tables(text[text.index(f"## {title}") :])[0]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a script."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_growth_is_drawn_and_written(module: Callable[[str], Any], tmp_path: Path) -> None:
    growth = module("growth")
    rows = [
        {
            "setting": setting,
            "value": value,
            "decoding": 10.0 * value,
            **({} if setting == "beam" else {"training": 3.0}),
        }
        for setting, values in growth.PLAN.values.items()
        for value in values
    ]
    growth.draw(rows, tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").stat().st_size > 1000
    table = growth.markdown(rows, growth.PLAN.usual)
    assert "| beam | **5** |  | 50 |" in table
    assert "| lexicon entries | 10,000 | 3 | 100000 |" in table


@pytest.mark.parametrize("search", ["marginal", "dynamic"])
def test_forced_words_keep_their_blanks_and_their_length(module: Callable[[str], Any], search: str) -> None:
    model = random_model()
    source = padded(model.vocabulary.encode_sources(SOURCES), model.vocabulary.source_pad)
    request = module("decoding").forced_words(model, len(SOURCES), 25)
    options = SearchOptions(beam=2)
    hypotheses_of_sources = search_batch(model, MarginalScorer, SEARCHES[search], source, request, options)
    for place, (best, *_) in zip(request.place.tolist(), hypotheses_of_sources, strict=True):
        text = model.vocabulary.decode(best.symbols)
        assert len(text) == 25
        assert [at for at, character in enumerate(text) if character == " "] == list(range(place, 25, 10))


def test_a_selected_request_forces_the_same_words(module: Callable[[str], Any]) -> None:
    model = random_model()
    request = module("decoding").forced_words(model, 7, 25)
    rows = torch.tensor([5, 2])
    possible = torch.ones(len(model.vocabulary.alphabet), dtype=torch.bool)
    for position in range(26):
        of_all = request.allowed(position, possible, model.vocabulary.alphabet.eos, 1)
        of_selected = request.select(rows).allowed(position, possible, model.vocabulary.alphabet.eos, 1)
        assert of_selected.equal(of_all[rows])


def test_the_subwords_of_the_baseline_are_counted_and_their_table_is_left_alone(module: Callable[[str], Any]) -> None:
    decoding, random_models = module("decoding"), module("random_models")
    settings = ["text.subword_vocabulary=120", "network.width=16", "network.heads=2", "network.feedforward=32"]
    model = random_models.random_bpe("tiny", *settings)
    source = padded(model.vocabulary.encode_sources(SOURCES), model.vocabulary.source_pad)
    request, options = decoding.forced(model, len(SOURCES), 4), SearchOptions(beam=2)
    hypotheses_of_sources = search_batch(model, decoding.one_character_each, SEARCHES["beam"], source, request, options)
    assert {len(best.symbols) for best, *_ in hypotheses_of_sources} == {5}, "the mark in front is one of them"
    written_length = SubwordScorer(model, model.encode(source), 2, request).written_length
    assert written_length.unique().numel() > 1, "shared by all scorers of a vocabulary"


def test_baselines_are_compared_from_their_logs(module: Callable[[str], Any], tmp_path: Path) -> None:
    baselines = module("baselines")

    def write(directory: Path, bits: list[float]) -> None:
        directory.mkdir()
        lines = [
            {"update": 10 * k, "minutes": 2.0 * k, "valid_bits_per_character": value, "valid_chrf": 20.0 + k}
            | {"improved": value == min(bits[:k])}
            for k, value in enumerate(bits, start=1)
        ]
        (directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(tmp_path / "dpe", [2.0, 1.25])
    write(tmp_path / "dpe" / "segmenter", [3.0, 2.5])
    write(tmp_path / "ssmt", [1.5, 1.75])
    logs = {name: baselines.log_of(tmp_path / name) for name in ("dpe", "ssmt")}
    assert baselines.curve(logs["dpe"], "valid_chrf") == ([6.0, 8.0], [21.0, 22.0]), "after its segmenter's 4 minutes"
    texts = {"dpe": ["a bed of roses"], "ssmt": ["a bed of straw"]}
    table = baselines.as_table(
        logs, {"dpe": 1000, "ssmt": 2000}, evaluate_translations(texts, ["a bed of straw"], samples=10)
    )
    assert [cell.text for cell in table.rows[0]][:5] == ["dpe", "1,000", "20", "8.0", "1.250"]
    assert [cell.text for cell in table.rows[1]] == ["ssmt", "2,000", "20", "4.0", "1.500", "100.0", "100.0"]
    baselines.draw(logs, tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {"baselines-bits.svg", "baselines-chrf.svg"}


def test_all_stages_of_dpe_take_the_time_of_the_other_models(module: Callable[[str], Any]) -> None:
    baselines = module("baselines")
    dpe, bpe = (baselines.config_of(model, "tiny", 30, []) for model in ("dpe", "bpe"))
    assert bpe.training.max_minutes == 30
    assert 28 < dpe.training.max_minutes + config_of_segmenter(dpe).training.max_minutes < 30


def test_languages(run_script: Run, tmp_path: Path) -> None:
    """Three languages that are parts of the demo's one, in sizes that teach nothing."""
    sentences = make_corpus(500, held_out=50)
    for place, language in enumerate(("xh", "zu", "ss")):
        (tmp_path / "data" / language).mkdir(parents=True)
        for part, chosen in (("train", sentences.train[place * 60 : place * 60 + 60]), ("dev", sentences.dev[:6])):
            for ending, lines in (("en", [s.english for s in chosen]), (language, [s.target for s in chosen])):
                path = tmp_path / "data" / language / f"{part}.{ending}"
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    small = f"--updates 2 --validations 1 --few 20 --samples 0 --beam 1 {TINY} --set training.chrf_sentences=2"
    options = f"--model bpe {small} --set text.longest_source=400 --set text.longest_target=400"
    printed = run_script("languages.py", tmp_path / "data", f"--output {tmp_path / 'runs'}", options)
    for title in ("joint: xh", "joint: zu", "joint: ss", "transfer: ss", "back: ss"):
        assert f"## bpe, {title}" in printed
    for name in ("then ss alone", "from zu", "half and back-translation"):
        assert name in printed
    assert (tmp_path / "runs" / "bpe" / "transfer.svg").read_text().count("<svg") == 1
    assert run_script("languages.py", tmp_path / "data", f"--output {tmp_path / 'runs'}", options) == printed


def test_preparation_is_measured_also_when_it_is_interrupted(run_script: Run) -> None:
    options = f"--pairs 700 --different 500 --preset tiny --json {TINY}"
    plain, interrupted = (
        json.loads(run_script("preparation.py", options, more)) for more in ("", "--interrupt --updates 1")
    )
    for result in (plain, interrupted):
        assert result["pairs"] == 700
        assert result["cpu_seconds"] > 0
        assert result["peak_megabytes"] > result["own_megabytes"] > 0
    assert plain["bytes_on_disk"] == interrupted["bytes_on_disk"]
    assert plain["training_megabytes"] is None
    assert interrupted["training_megabytes"] > 0


def test_threads_are_compared(run_script: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    done: list[Any] = []
    plain = subprocess.run

    def recording(*arguments: Any, env: dict[str, str], **options: Any) -> Any:
        asked.append((env["OMP_NUM_THREADS"], env["OMP_WAIT_POLICY"]))
        done.append(done[0] if done else plain(*arguments, env=env, **options))  # one process is slow enough
        return done[0]

    monkeypatch.setattr(subprocess, "run", recording)
    options = f"--models tiny-bpe --lines 300 --rounds 1 --seconds 0.01 --threads 2 {TINY}"
    said = run_script("threads.py", options).splitlines()
    assert asked == [("1", "PASSIVE"), ("2", "PASSIVE"), ("2", "ACTIVE")]
    (row,) = (line for line in said if line.startswith("| tiny-bpe |"))
    assert re.fullmatch(r"\| tiny-bpe \|( \d+ \(\d+\) \|){3}", row)


def test_the_papers_corpora_are_counted(run_script: Run, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    small = module("random_models")
    monkeypatch.setattr(small, "LINES", 400)
    plain = small.compose

    def compose_small(preset: str, settings: Any = ()) -> Config:
        tiny = [*shlex.split(TINY.replace("--set ", "")), "network.encoder_layers=1", "network.decoder_layers=1"]
        return plain(preset, settings=[*settings, *tiny, "network.width=256"])  # with less to do, 0.000 GFLOP

    monkeypatch.setattr(small, "compose", compose_small)
    printed = run_script("corpora.py", "--models ssmt --languages Zulu Swati")
    (table,) = tables(printed)
    zulu, swati = ([*map(float, (cell.split()[0].replace(",", "") for cell in row[1:]))] for row in table[1:])
    assert zulu[0] / swati[0] == pytest.approx(3.9 / 0.165, rel=0.05)
    assert zulu[2] == pytest.approx(25 * 3.9e6 * 114 / 64_000, abs=1), "updates"
    assert zulu[3] > 0


def test_two_hosts_need_what_not_everybody_has(run_script: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they could be had, they are not asked for here: that takes minutes."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert re.fullmatch(
        r"skipped: it needs (root, to make network namespaces|Linux and the command ip)\n", run_script("hosts.py")
    )
