"""The program as a person uses it: train on two files, translate, segment and score, from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssmt import Translator
from ssmt.text.preparation import TrainingFiles

SETTINGS = {
    "text.source_vocabulary": 60,
    "text.lexicon_size": 80,
    "text.longest_segment": 4,
    "network.width": 32,
    "network.heads": 2,
    "network.feedforward": 64,
    "network.encoder_layers": 1,
    "network.decoder_layers": 1,
    "network.dropout": 0.05,
    "training.batch_characters": 400,
    "training.learning_rate": 0.01,
    "training.warmup_updates": 50,
    "training.patience": "null",
    "training.max_epochs": "null",
    "training.validate_every": 100,
    "training.average_last": 2,
}


def ssmt(*arguments: object, stdin: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process of its own."""
    command = [sys.executable, "-c", "from ssmt.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def training_options(files: TrainingFiles) -> list[object]:
    options: list[object] = ["--preset", "tiny", "--threads", 1, "--device", "cpu"]
    names = {
        "--source": "source",
        "--target": "target",
        "--valid-source": "valid_source",
        "--valid-target": "valid_target",
    }
    for option, name in names.items():
        options += [option, getattr(files, name)]
    for key, value in SETTINGS.items():
        options += ["--set", f"{key}={value}"]
    return options


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles) -> Path:
    directory = tmp_path_factory.mktemp("trained") / "model"
    done = ssmt("train", "--output", directory, *training_options(toy_files), "--max-updates", 300)
    assert "300 updates are made" in done.stderr
    return directory


@pytest.fixture(scope="module")
def valid(toy_files: TrainingFiles) -> tuple[list[str], list[str]]:
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines() for path in (toy_files.valid_source, toy_files.valid_target)
    )
    return sources, targets


def test_it_learns_unseen_combinations_with_any_beam(trained: Path, valid: tuple[list[str], list[str]]) -> None:
    """A confident model must not lose by a larger beam, which the original's stopping rule makes it do."""
    sources, targets = valid
    model = Translator.load(trained)
    for search in ("marginal", "dynamic"):
        for beam in (1, 5):
            texts = model.translate(sources, beam=beam, search=search).texts  # type: ignore[arg-type]
            right = sum(text == target for text, target in zip(texts, targets, strict=True))
            assert right >= 11, (search, beam, texts)


def test_it_finds_the_morphemes(trained: Path, valid: tuple[list[str], list[str]]) -> None:
    """Subjects are prefixes of every verb: the one cut that this little data teaches beyond doubt."""
    segmented = Translator.load(trained).segment(*valid)
    assert sum(segments[0] in ("ni", "wu", "a", "ti") for segments in segmented) >= 10, segmented


def test_the_directory_and_its_log(trained: Path) -> None:
    expected = {"config.json", "model.safetensors", "source.model", "alphabet.json", "lexicon.txt", "log.jsonl"}
    assert expected <= {path.name for path in trained.iterdir()}
    lines = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    training = [line for line in lines if "loss" in line]
    validation = [line for line in lines if "valid_bits_per_character" in line]
    assert [line["update"] for line in validation] == [100, 200, 300]
    assert validation[-1]["valid_bits_per_character"] < 0.3
    assert validation[-1]["valid_chrf"] > 90
    assert {"bits_per_character", "characters_per_second", "learning_rate", "minutes", "epoch"} <= training[0].keys()
    assert any("average_bits_per_character" in line for line in lines)


def test_translate_as_lines_come(trained: Path, valid: tuple[list[str], list[str]]) -> None:
    sources, targets = valid
    done = ssmt("translate", trained, stdin="\n".join([sources[0], "", sources[1]]) + "\n")
    assert done.stdout == f"{targets[0]}\n\n{targets[1]}\n"
    command = [sys.executable, "-c", "from ssmt.cli import main; main()", "translate", str(trained)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for source, target in zip(sources[:3], targets, strict=False):  # an answer before the next line is written
            process.stdin.write(source + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == target + "\n"


def test_a_pipe_by_its_name_is_read_once(trained: Path, valid: tuple[list[str], list[str]]) -> None:
    sources, targets = valid
    done = ssmt("translate", trained, "--input", "/dev/stdin", stdin="\n".join(sources[:2]) + "\n")
    assert done.stdout == f"{targets[0]}\n{targets[1]}\n"


@pytest.mark.parametrize(("line", "interrupt", "status"), [("I see a bird.", True, 130), ("a" * 1001, False, 2)])
def test_it_can_end_while_it_waits_for_input(trained: Path, line: str, interrupt: bool, status: int) -> None:
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # pytest may ignore it
    command = [sys.executable, "-c", f"{heeding}; from ssmt.cli import main; main()", "translate", str(trained)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, encoding="utf-8", **streams) as process:  # type: ignore[call-overload]
        process.stdin.write(line + "\n")
        process.stdin.flush()
        if interrupt:
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == status
        assert "Fatal" not in process.stderr.read()


def test_prefixes_without_a_line_are_refused(trained: Path, tmp_path: Path) -> None:
    prefixes, output = tmp_path / "prefixes", tmp_path / "output"
    prefixes.write_text("n\nw\n", encoding="utf-8")
    done = ssmt("translate", trained, "--prefix", prefixes, "--output", output, stdin="I see a bird.\n", status=2)
    assert "standard input has 1 lines but" in done.stderr
    assert not output.exists()


def test_json_and_scores_agree(trained: Path, valid: tuple[list[str], list[str]], tmp_path: Path) -> None:
    sources, _ = valid
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("\n".join([*sources, ""]) + "\n", encoding="utf-8")  # an empty line at the end
    ssmt("translate", trained, "--input", source, "--json", "--n-best", 3, "--output", output)
    records = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert len(records) == len(sources) + 1
    assert records[-1]["translation"] == ""
    assert all("".join(record["segments"]) == record["translation"] for record in records)
    assert {record["score_type"] for record in records} == {"marginal"}
    assert all(len({one["translation"] for one in record["n_best"]}) == 3 for record in records[:-1])

    target = tmp_path / "target"
    target.write_text("".join(record["translation"] + "\n" for record in records), encoding="utf-8")
    scored = ssmt("score", trained, "--source", source, "--target", target).stdout.split("\n")
    assert scored[len(sources)] == "", "an empty source line gives an empty line"
    assert [float(number) for number in scored[: len(sources)]] == pytest.approx(
        [record["score"] for record in records[:-1]], abs=1e-4
    )
    path = ssmt("score", trained, "--source", source, "--target", target, "--best-path", "--json").stdout
    for line, marginal in zip(path.splitlines(), scored[:-2], strict=False):
        record = json.loads(line)
        assert record["score_type"] == "path"
        assert record["score"] <= float(marginal) + 1e-5

    segmented = ssmt("segment", trained, "--source", source, "--target", target, "--json", "--n-best", 2).stdout
    for line, record in zip(segmented.splitlines(), records[:-1], strict=False):
        found = json.loads(line)
        assert found["segments"] == record["segments"]
        assert found["n_best"][0]["score"] >= found["n_best"][1]["score"]


def test_segment_methods(trained: Path, valid: tuple[list[str], list[str]], tmp_path: Path) -> None:
    sources, targets = valid
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    target.write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")
    plain = ssmt("segment", trained, "--source", source, "--target", target, "--separator", "|").stdout.splitlines()
    assert [line.replace("|", "") for line in plain] == targets
    assert any("|" in line for line in plain)
    everything = ssmt(
        "segment",
        trained,
        "--source",
        source,
        "--target",
        target,
        "--method",
        "posterior",
        "--threshold",
        1,
        "--separator",
        "|",
    ).stdout.splitlines()
    assert [line.replace("|", "") for line in everything] == targets
    assert sum(map(len, everything)) < sum(map(len, plain)), "few boundaries are certain"
    rows = ssmt("segment", trained, "--source", source, "--target", target, "--posteriors").stdout.splitlines()
    for row, text in zip(rows, targets, strict=True):
        _, posteriors = row.split("\t")
        numbers = [float(number) for number in posteriors.split(" ")]
        assert len(numbers) == len(text)
        assert numbers[-1] == 1.0
        assert all(number == 1.0 for number, character in zip(numbers, text, strict=True) if character in " .-2")
    words = ssmt("segment", trained, "--target", "-", stdin="nibona\n\nwubizile\n").stdout
    assert words.replace("-", "") == "nibona\n\nwubizile\n"
