"""The log of a run."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from ssmt.training.log import RunLog, read_log
from ssmt.training.state import State


def write(directory: Path, resumed_at: int, updates: list[int]) -> None:
    log = RunLog(directory, State(update=resumed_at))
    for update in updates:
        log.write(update, loss=update / 2, improved=update % 2 == 0)
    log.close()


def updates_of(directory: Path) -> list[int]:
    return [line["update"] for line in read_log(directory)]


def test_numbers_are_json_lines_at_once(tmp_path: Path) -> None:
    log = RunLog(tmp_path, State())
    log.write(50, loss=1.5, improved=True, best=math.inf)
    line = {"update": 50, "loss": 1.5, "improved": True, "best": None}  # JSON has no infinity
    assert [json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines()] == [line]
    log.close()
    assert read_log(tmp_path) == [line]


def test_lines_beyond_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    write(tmp_path, 0, [50, 100, 150, 200])
    write(tmp_path, 120, [150, 200, 250])
    assert updates_of(tmp_path) == [50, 100, 150, 200, 250]
    write(tmp_path, 250, [])
    assert updates_of(tmp_path) == [50, 100, 150, 200, 250]
    write(tmp_path, 0, [])
    assert updates_of(tmp_path) == []
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    "garbage",
    [
        *('{"update": 150, "lo', '{"upd', "\0\0\0", "7", "null", '{"loss": 1}', '{"update": "x"}', "\n\n"),
        *('{"update": true}', '{"update": 1e999}', f'{{"update": 1{"0" * 400}}}', '{"update": 1, "minutes": null}'),
        *(
            '{"update": 1, "loss": "x"}',
            '{"update": 1, "loss": -1e300}',
            f'{{"update": 1, "loss": {"[" * 800}{"]" * 800}}}',
        ),
    ],
    ids=range(15),
)
def test_what_a_crash_leaves_is_dropped(tmp_path: Path, garbage: str) -> None:
    write(tmp_path, 0, [50, 100])
    with open(tmp_path / "log.jsonl", "a") as stream:
        stream.write(garbage)
    assert updates_of(tmp_path) == [50, 100]
    write(tmp_path, 100, [150])
    assert updates_of(tmp_path) == [50, 100, 150]


def test_bytes_that_are_not_utf8_are_dropped(tmp_path: Path) -> None:
    write(tmp_path, 0, [50])
    with open(tmp_path / "log.jsonl", "ab") as stream:
        stream.write(b"\xff\xfe\x80")
    write(tmp_path, 50, [100])
    assert updates_of(tmp_path) == [50, 100]


def test_what_will_be_measured_again_is_written_once(tmp_path: Path) -> None:
    """A run can end just after it has written what its last checkpoint does not know yet."""
    log = RunLog(tmp_path, State())
    log.write(50, valid_chrf=1.0)
    log.write(100, loss=1.0)
    log.write(100, valid_chrf=2.0)
    log.write(100, average_chrf=3.0, averaged=2)
    log.close()

    def kept(**state: int) -> list[str]:
        copy = tmp_path / str(state)
        copy.mkdir()
        (copy / "log.jsonl").write_bytes((tmp_path / "log.jsonl").read_bytes())
        RunLog(copy, State(**state)).close()
        return [f"{line['update']} {list(line)[1]}" for line in read_log(copy)]

    assert kept(update=100, validated_at=50) == ["50 valid_chrf", "100 loss"]
    assert kept(update=100, validated_at=100) == ["50 valid_chrf", "100 loss", "100 valid_chrf"]
    everything = ["50 valid_chrf", "100 loss", "100 valid_chrf", "100 average_chrf"]
    assert kept(update=100, validated_at=100, finished_at=100) == everything
    assert kept(update=150, validated_at=100) == everything
    assert kept(update=60, validated_at=50) == ["50 valid_chrf"]
