"""Bad input on the command line: status 2, a message with what, where and what to do, no traceback, nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from ssmt.cli import main
from ssmt.evaluation.morphology import cuts_above
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator

needs_dev_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Ssmt = Callable[..., Outcome]


@pytest.fixture
def ssmt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ssmt:
    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ssmt", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run


def refused(outcome: Outcome, *fragments: str) -> None:
    """Status 2 and one message that has all of these, as patterns, on whatever lines a terminal breaks it."""
    message = re.sub(r"[\s│╭╰─╮╯]+", " ", outcome.err)
    assert outcome.status == 2, message
    assert "Traceback" not in message
    for fragment in fragments:
        assert re.search(fragment, message), f"{fragment!r} is not in {message!r}"


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@contextmanager
def no_space_after(size: int) -> Iterator[None]:
    """Writing a file beyond `size` bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_message_about_very_much_is_no_flood(ssmt: Ssmt, tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    variants = "".join(f'<tuv xml:lang="l{number}"><seg>a</seg></tuv>' for number in range(10_000))
    path.write_text(f'<tmx><header srclang="en"/><body><tu>{variants}</tu></body></tmx>')
    outcome = ssmt("clean", "--pairs", path, "--output", tmp_path / "new.tsv")
    refused(outcome, r"a\.tmx, line 1: no pair of en with another language; it has l0, l1,", r"\[\.\.\.\]", "l9999 $")
    assert len(outcome.err) < 5000


# Training


class Inputs:
    """Copies of the toy files that a test can spoil."""

    def __init__(self, directory: Path, files: TrainingFiles) -> None:
        self.directory = directory
        self.paths: dict[str, Path] = {}
        for name in ("source", "target", "valid_source", "valid_target"):
            self.paths[name] = Path(shutil.copy(getattr(files, name), directory / f"{name}.txt"))

    def replace_line(self, name: str, number: int, line: bytes) -> None:
        lines = self.paths[name].read_bytes().split(b"\n")
        lines[number - 1] = line
        self.paths[name].write_bytes(b"\n".join(lines))

    def arguments(self, output: Path, *others: object) -> list[object]:
        given = [(f"--{name.replace('_', '-')}", path) for name, path in self.paths.items()]
        tiny = ["--set", "network.width=8", "--set", "network.feedforward=8"]
        for option, value in (("--preset", "tiny"), ("--max-updates", "1")):
            tiny += [] if option in others else [option, value]
        return ["train", "--output", output, *(part for pair in given for part in pair), *tiny, *others]


@pytest.fixture
def inputs(tmp_path: Path, toy_files: TrainingFiles) -> Inputs:
    (tmp_path / "inputs").mkdir()
    return Inputs(tmp_path / "inputs", toy_files)


def test_languages_are_recorded_and_checked(inputs: Inputs, ssmt: Ssmt, tmp_path: Path) -> None:
    bad = inputs.arguments(tmp_path / "run", "--target-language", "is zulu")
    refused(ssmt(*bad), "'is zulu' is no code of a language")
    done = ssmt(*inputs.arguments(tmp_path / "run", "--source-language", "no", "--target-language", "zul_Latn"))
    assert done.status == 0, done.err
    text = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["text"]
    assert (text["source_language"], text["target_language"]) == ("no", "zul_Latn")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "run"


def shorten(inputs: Inputs, name: str) -> None:
    inputs.paths[name].write_bytes(b"\n".join(inputs.paths[name].read_bytes().split(b"\n")[:7]) + b"\n")


SPOILED: dict[str, tuple[Callable[[Inputs], object], tuple[str, ...]]] = {
    "shorter target": (
        lambda inputs: shorten(inputs, "target"),
        (r"source\.txt has 60 lines but .*target\.txt has 7", "Line 8 is the first"),
    ),
    "shorter source": (
        lambda inputs: shorten(inputs, "valid_source"),
        (r"valid_source\.txt has 7 lines but .*valid_target\.txt has 12", "Line 8 is the first"),
    ),
    "not UTF-8": (
        lambda inputs: inputs.replace_line("target", 5, b"caf\xe9"),
        (r"/target\.txt, line 5: not UTF-8", "iconv"),
    ),
    "empty line": (
        lambda inputs: inputs.replace_line("source", 9, b""),
        (r"/source\.txt, line 9: is empty", "text.skip_bad_lines=true"),
    ),
    "blank line": (
        lambda inputs: inputs.replace_line("valid_target", 3, b" \t"),
        (r"valid_target\.txt, line 3: is empty", "text.skip_bad_lines=true"),
    ),
    "long line": (
        lambda inputs: inputs.replace_line("target", 4, b"x" * 10_000),
        (r"/target\.txt, line 4: has 10,000 characters", "text.longest_target", "skip_bad_lines"),
    ),
    "empty files": (
        lambda inputs: [inputs.paths[name].write_bytes(b"") for name in ("source", "target")],
        (r"source\.txt: is empty",),
    ),
    "missing file": (
        lambda inputs: inputs.paths["valid_source"].unlink(),
        (r"valid_source\.txt: there is no such file",),
    ),
    "directory": (
        lambda inputs: inputs.paths.update(target=inputs.directory),
        (r"inputs: is a directory, a text file is needed",),
    ),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_train_refuses_bad_text_and_writes_nothing(ssmt: Ssmt, inputs: Inputs, output: Path, kind: str) -> None:
    spoil, fragments = SPOILED[kind]
    spoil(inputs)
    refused(ssmt(*inputs.arguments(output)), *fragments)
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (
            ["--set", "training.lerning_rate=1"],
            [r"setting training\.lerning_rate=1", r"did you mean 'training\.learning_rate'"],
        ),
        (["--set", "training.seed"], ["expected key=value"]),
        (["--set", "network.heads=3"], ["width 8 must be even and divisible by heads 3"]),
        (["--preset", "tinny"], ["tinny", "tiny.*small.*base"]),
        (["--config", "absent.yaml"], [r"absent\.yaml: there is no such file"]),
        (["--max-updates", "0"], ["--max-updates"]),
        (["--max-updates", "many"], ["--max-updates"]),
        (["--max-minutes", "0"], [r"training\.max_minutes"]),
        (["--threads", "0"], ["--threads"]),
        (["--device", "abacus"], ["device abacus: this machine has .*cpu"]),
        (["--device", "cpu:"], ["device cpu:: this machine has"]),
        (["--set", "network.character_width=-1"], [r"network\.character_width: .*greater than or equal to 1"]),
        (["--seed", str(2**64)], [r"training\.seed: .*less than"]),
        (["--unknown-option"], ["--unknown-option"]),
    ],
)
def test_train_refuses_bad_options_and_writes_nothing(
    ssmt: Ssmt, inputs: Inputs, output: Path, arguments: list[str], fragments: list[str]
) -> None:
    refused(ssmt(*inputs.arguments(output, *arguments)), *fragments)
    assert not output.exists()


def test_train_refuses_a_device_that_is_absent(ssmt: Ssmt, inputs: Inputs, output: Path) -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    refused(ssmt(*inputs.arguments(output, "--device", absent)), f"device {absent}: this machine has .*cpu")
    assert not output.exists()


def test_train_refuses_bad_config_files(ssmt: Ssmt, inputs: Inputs, output: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("training:\n  seed: 1\n  lerning_rate: 3\n")
    refused(ssmt(*inputs.arguments(output, "--config", config)), r"settings\.yaml", r"'training\.learning_rate'")
    config.write_text("training:\n  seed: [1\n")
    refused(ssmt(*inputs.arguments(output, "--config", config)), r"settings\.yaml, line \d: not YAML")
    config.write_text("training: !!python/object/apply:os.mkdir [evidence]\n")
    refused(ssmt(*inputs.arguments(output, "--config", config)), r"settings\.yaml, line 1: not YAML")
    assert not output.exists()


def test_a_new_run_says_which_files_it_needs(ssmt: Ssmt, output: Path, toy_files: TrainingFiles) -> None:
    refused(ssmt("train", "--output", output, "--source", toy_files.source), "needs --target, --valid-source")
    refused(ssmt("train", "--output", output, "--resume"), "needs --source", "run holds no run to resume")
    assert not output.exists()


def test_a_run_is_never_overwritten(ssmt: Ssmt, inputs: Inputs, tmp_path: Path, model_directory: Path) -> None:
    directory = Path(shutil.copytree(model_directory, tmp_path / "model"))
    before = tree(directory)
    refused(ssmt(*inputs.arguments(directory)), "model: already holds a run", "Resume it", "another directory")
    assert tree(directory) == before


def test_files_of_the_users_are_never_overwritten(ssmt: Ssmt, inputs: Inputs, output: Path) -> None:
    """The output is a directory with a data/train of its own, in which the training text may well lie."""
    (output / "data" / "train").mkdir(parents=True)
    inputs.paths["source"] = inputs.paths["source"].rename(output / "data" / "train" / "english.txt")
    before = tree(output)
    refused(ssmt(*inputs.arguments(output)), "data/train: exists and was not made by ssmt", "another directory")
    assert tree(output) == before
    (output / "lexicon.txt").write_text("my own")
    before = tree(output)
    refused(ssmt(*inputs.arguments(output)), r"run: has lexicon\.txt, which a run would replace", "another directory")
    assert tree(output) == before


def test_an_output_that_cannot_be_made_is_refused(ssmt: Ssmt, inputs: Inputs) -> None:
    refused(ssmt(*inputs.arguments(inputs.paths["source"])), r"source\.txt: cannot be made \(File exists\)")
    refused(ssmt(*inputs.arguments(inputs.paths["source"] / "run")), r"run: cannot be made \(Not a directory\)")


@pytest.mark.parametrize("size", [0, 100, 1000])
def test_no_space_for_the_data_is_a_message(ssmt: Ssmt, inputs: Inputs, output: Path, size: int) -> None:
    before = tree(inputs.directory)
    with no_space_after(size):
        outcome = ssmt(*inputs.arguments(output))
    refused(outcome, r"run.*cannot be written \(")
    assert not output.exists()
    assert tree(inputs.directory) == before


def test_no_space_for_the_weights_is_a_message_and_the_run_goes_on_later(
    ssmt: Ssmt, inputs: Inputs, output: Path
) -> None:
    settings = [
        "--set",
        "text.source_vocabulary=40",
        "--set",
        "text.lexicon_size=40",
        "--set",
        "training.chrf_sentences=0",
    ]
    with no_space_after(20_000):
        outcome = ssmt(*inputs.arguments(output, *settings))
    refused(outcome, r"safetensors: cannot be written \(.*File too large")
    assert [path for path in output.rglob("*") if path.name.endswith(".tmp")] == []
    again = ssmt("train", "--output", output, "--resume")
    assert again.status == 0, again.err
    assert (output / "model.safetensors").exists()
    # The limits and the preset can be said again; what was measured when the run began is no conflict.
    repeated = ssmt(*inputs.arguments(output, *settings, "--resume"))
    assert repeated.status == 0, repeated.err


# Segmenting and scoring


@pytest.fixture
def texts(tmp_path: Path, toy_pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    paths = tmp_path / "some.source", tmp_path / "some.target"
    for path, side in zip(paths, zip(*toy_pairs[:5], strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


def pair_arguments(texts: tuple[Path, Path]) -> list[object]:
    return ["--source", texts[0], "--target", texts[1]]


VERBS = pytest.mark.parametrize("verb", ["segment", "score"])


@VERBS
def test_a_directory_that_is_no_model_is_refused(
    ssmt: Ssmt, texts: tuple[Path, Path], tmp_path: Path, verb: str
) -> None:
    rest = [*pair_arguments(texts), "--output", tmp_path / "result"]
    refused(ssmt(verb, tmp_path / "absent", *rest), "absent: there is no such directory")
    refused(ssmt(verb, tmp_path, *rest), r": is not a model directory \(it has no config\.json\)")
    refused(ssmt(verb, texts[0], *rest), r"some\.source: ")
    assert not (tmp_path / "result").exists()


def damaged_files() -> Iterator[tuple[str, Callable[[bytes], bytes | None], str]]:
    for name in ("config.json", "model.safetensors", "source.model", "alphabet.json", "lexicon.txt"):
        if name != "config.json":
            yield name, lambda content: None, "there is no|has no|no such file"
        yield name, lambda content: b"", ""
        yield name, lambda content: content[: len(content) // 2], ""
        yield name, lambda content: b"\xff\x00garbage" + content[9:], ""
    yield "lexicon.txt", lambda content: b"".join(content.splitlines(keepends=True)[:-1]), r"shape|entries"
    yield "model.safetensors", lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "checksum"
    yield "config.json", lambda content: content.replace(b'"width": 16', b'"width": 32'), r"tensor .* has shape"
    yield "config.json", lambda content: content.replace(b'"width"', b'"widht"'), "did you mean 'network.width'"


@pytest.mark.parametrize(("name", "damage", "fragment"), list(damaged_files()))
def test_a_damaged_model_is_refused(
    ssmt: Ssmt,
    texts: tuple[Path, Path],
    tmp_path: Path,
    model_directory: Path,
    name: str,
    damage: Callable[[bytes], bytes | None],
    fragment: str,
) -> None:
    directory = Path(shutil.copytree(model_directory, tmp_path / "model"))
    content = damage((directory / name).read_bytes())
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    outcome = ssmt("score", directory, *pair_arguments(texts), "--output", tmp_path / "result")
    refused(outcome, str(directory), fragment)
    assert not (tmp_path / "result").exists()


@VERBS
@pytest.mark.parametrize(
    ("side", "line", "fragments"),
    [
        (1, "ni\u03a9bona?", (r"some\.target, line 3: the model has never seen 'Ω' \(U\+03A9\)", "allow unknown")),
        (1, "ni" * 5000, (r"some\.target, line 3: has 10,000 characters, the model takes 1,000",)),
        (0, "I see " * 2000, (r"some\.source, line 3: has 12,000 characters, the model takes 1,000",)),
        (1, None, (r"some\.source has 5 lines but .*some\.target has 4", "Line 5")),
        (0, None, (r"some\.source has 4 lines but .*some\.target has 5", "Line 5")),
        (1, "\udcff", (r"some\.target, line 3: not UTF-8", "iconv")),
    ],
)
def test_bad_lines_are_named_and_nothing_is_written(
    ssmt: Ssmt,
    texts: tuple[Path, Path],
    tmp_path: Path,
    model_directory: Path,
    verb: str,
    side: int,
    line: str | None,
    fragments: tuple[str, ...],
) -> None:
    lines = texts[side].read_text(encoding="utf-8").splitlines()
    lines[2:3] = [] if line is None else [line]
    texts[side].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    result = tmp_path / "result"
    result.write_text("old")
    refused(ssmt(verb, model_directory, *pair_arguments(texts), "--output", result), *fragments)
    assert result.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["result", "some.source", "some.target"]


@VERBS
def test_the_number_of_a_bad_line_counts_the_empty_lines_before_it(
    ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path, verb: str
) -> None:
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in texts)
    sources[1] = targets[1] = ""
    targets[3] += "Ω"
    for path, lines in zip(texts, (sources, targets), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    refused(ssmt(verb, model_directory, *pair_arguments(texts)), r"some\.target, line 4: the model has never seen")


@VERBS
def test_as_many_lines_come_out_as_go_in(
    ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path, verb: str
) -> None:
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in texts)
    sources[1], targets[1], sources[3] = "", "", " "
    for path, lines in zip(texts, (sources, targets), strict=True):
        path.write_bytes("\r\n".join(lines).encode())
    outcome = ssmt(verb, model_directory, *pair_arguments(texts))
    assert outcome.status == 0, outcome.err
    lines = outcome.out.split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False, True, False]


@VERBS
def test_unseen_characters_are_accepted_on_request(
    ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path, verb: str
) -> None:
    texts[1].write_text("niΩbona.\n" * 5, encoding="utf-8")
    outcome = ssmt(verb, model_directory, *pair_arguments(texts), "--allow-unknown")
    assert outcome.status == 0, outcome.err
    assert len(outcome.out.splitlines()) == 5
    assert verb == "score" or outcome.out.replace("-", "").splitlines() == ["niΩbona."] * 5


@VERBS
def test_outputs_that_cannot_be_written_are_refused(
    ssmt: Ssmt, texts: tuple[Path, Path], tmp_path: Path, model_directory: Path, verb: str
) -> None:
    arguments = [verb, model_directory, *pair_arguments(texts), "--output"]
    refused(ssmt(*arguments, tmp_path / "absent" / "result"), r"absent/result: cannot be written \(No such file or dir")
    refused(ssmt(*arguments, tmp_path), ": is a directory; name a file in it")
    result = tmp_path / "result"
    result.write_text("old")
    with no_space_after(8):
        outcome = ssmt(*arguments, result)
    refused(outcome, r"result: cannot be written \(File too large\); what was there before is untouched")
    assert result.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["result", "some.source", "some.target"]


@needs_dev_full
def test_a_full_device_as_output_is_refused(ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path) -> None:
    outcome = ssmt("score", model_directory, *pair_arguments(texts), "--output", "/dev/full")
    refused(outcome, r"/dev/full: cannot be written \(No space left on device\)")


def run_process(arguments: list[object], **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from ssmt.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, check=False, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


@needs_dev_full
def test_a_full_standard_output_is_refused(texts: tuple[Path, Path], model_directory: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = run_process(["score", model_directory, *pair_arguments(texts)], stdout=full)
    assert process.returncode == 2
    assert process.stderr.decode() == "error: standard output: cannot be written (No space left on device)\n"


@pytest.mark.parametrize(
    ("descriptor", "arguments", "message"),
    [
        (0, ["clean", "--pairs", "-", "--output", "new.tsv"], "error: standard input: .*\n"),
        (1, ["--version"], "error: Bad file descriptor\n"),
        (1, ["clean", "--pairs", "pairs.tsv", "--output", "-"], "error: standard output: cannot be written .*\n"),
        (2, ["clean", "--pairs", "nowhere", "--output", "-"], ""),
    ],
)
def test_a_closed_stream_is_refused(tmp_path: Path, descriptor: int, arguments: list[object], message: str) -> None:
    (tmp_path / "pairs.tsv").write_text("we see a bird\tsibona inyoni\n")
    process = run_process(arguments, preexec_fn=lambda: os.close(descriptor), cwd=tmp_path)
    assert process.returncode == 2
    assert re.fullmatch(message, process.stderr.decode())


def test_a_locale_without_the_characters_does_not_matter(texts: tuple[Path, Path], model_directory: Path) -> None:
    arguments = ["segment", model_directory, "--target", texts[1], "--separator", "·"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = run_process(arguments, stdout=subprocess.PIPE, env=environment)
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode("utf-8").replace("·", "") == texts[1].read_text(encoding="utf-8")


@VERBS
def test_both_inputs_cannot_be_standard_input(ssmt: Ssmt, model_directory: Path, verb: str) -> None:
    refused(ssmt(verb, model_directory, "--source", "-", "--target", "-"), "Only one of the two files")


def test_options_that_exclude_each_other(ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path) -> None:
    arguments = ["segment", model_directory, *pair_arguments(texts)]
    refused(ssmt(*arguments, "--method", "posterior", "--n-best", 2), "--n-best goes with --method viterbi")
    refused(ssmt(*arguments, "--threshold", 2), "--threshold")
    refused(ssmt(*arguments, "--threshold", 0.5), "--threshold goes with --method posterior")
    refused(ssmt(*arguments, "--method", "guess"), "--method", "viterbi.*posterior")


def test_a_device_that_is_absent(ssmt: Ssmt, texts: tuple[Path, Path], model_directory: Path) -> None:
    refused(ssmt("score", model_directory, *pair_arguments(texts), "--device", "abacus"), "device abacus: .*cpu")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--threads", 100_000], "--threads 100000: this machine has"),
        (["--device", "cpu:00"], "device cpu:00"),
        (["--length-penalty", 1000], "length_penalty is 1000"),
        (["--length-penalty", -1000], "length_penalty is -1000"),
        (["--max-length", 10**31], "max_length is"),
        (["--beam", 10**9], "beam is 1000000000"),
        (["--n-best", 10**9], "n_best is 1000000000"),
    ],
)
def test_numbers_out_of_bounds_are_refused(
    ssmt: Ssmt, tmp_path: Path, model_directory: Path, options: list[object], fragment: str
) -> None:
    (tmp_path / "in").write_text("we see.\n")
    refused(ssmt("translate", model_directory, "-i", tmp_path / "in", *options), fragment)


def test_a_threshold_cuts_alike_in_segment_and_morphology(ssmt: Ssmt, tmp_path: Path, model_directory: Path) -> None:
    """At the very value of a posterior, both cut."""
    text = "tibona inyoni."
    posteriors = Translator.load(model_directory, "cpu").boundary_posteriors(None, [text])[0]
    inside = posteriors[2]
    assert 0 < inside < 1
    segments = Translator.load(model_directory, "cpu").segment(None, [text], method="posterior", threshold=inside)[0]
    assert 3 in accumulate(map(len, segments))
    assert 3 in cuts_above([np.array([0.0, *posteriors])], inside)[0]
