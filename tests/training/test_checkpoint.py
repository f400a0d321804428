"""The checkpoints of a run: which are kept, which is used, what is averaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from ssmt.errors import UserError
from ssmt.training.checkpoint import Checkpoints
from tests.test_tensors import no_space_after


def saved_updates(directory: Path, updates: list[int]) -> Checkpoints:
    checkpoints = Checkpoints(directory)
    for update in updates:
        checkpoints.save(update, {"x": torch.tensor([float(update)])}, {"update": update})
    return checkpoints


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_newest_is_used_and_two_are_kept(tmp_path: Path) -> None:
    checkpoints = saved_updates(tmp_path / "checkpoints", [9, 10, 200, 1000])
    found, problems = checkpoints.latest()
    assert found is not None
    assert found == checkpoints.load("update-00001000.safetensors")
    assert (found.stored.state, found.stored.tensors["x"].tolist(), problems) == ({"update": 1000}, [1000.0], [])
    assert names(tmp_path / "checkpoints") == ["update-00000200.safetensors", "update-00001000.safetensors"]


def test_a_damaged_one_gives_way_to_the_one_before(tmp_path: Path) -> None:
    checkpoints = saved_updates(tmp_path, [1, 2])
    newest = tmp_path / "update-00000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    found, problems = checkpoints.latest()
    assert found is not None
    assert found.stored.state == {"update": 1}
    assert len(problems) == 1
    assert newest.name in problems[0]
    assert names(tmp_path) == ["update-00000001.safetensors", "update-00000002.damaged"]
    checkpoints.save(2, {"x": torch.zeros(1)}, {"update": 2})  # training comes to the same update again
    assert names(tmp_path) == ["update-00000001.safetensors", "update-00000002.damaged", newest.name]


def test_when_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    checkpoints = saved_updates(tmp_path, [1, 2])
    for path in tmp_path.iterdir():
        path.write_bytes(b"x" * 100)
    found, problems = checkpoints.latest()
    assert found is None
    assert len(problems) == 2
    assert Checkpoints(tmp_path / "absent").latest() == (None, [])


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    checkpoints = saved_updates(tmp_path, [1])
    (tmp_path / ".update-00000002.safetensors.4711.tmp").write_bytes(b"half")
    assert checkpoints.latest()[0] is not None
    assert names(tmp_path) == ["update-00000001.safetensors"]


def test_a_full_disk_keeps_the_checkpoints_that_are_there(tmp_path: Path) -> None:
    checkpoints = saved_updates(tmp_path, [1, 2])
    with no_space_after(1000), pytest.raises(UserError, match="cannot be written"):
        checkpoints.save(3, {"x": torch.zeros(10_000)}, {})
    assert names(tmp_path) == ["update-00000001.safetensors", "update-00000002.safetensors"]


# Averages


def test_the_average_is_the_mean_of_the_last(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    generator = torch.Generator().manual_seed(2)
    weights = [
        {"a": torch.randn(4, 5, generator=generator), "b": torch.randn(3, generator=generator)} for _ in range(5)
    ]
    assert checkpoints.average(3, weights[0]) is None
    for update, tensors in enumerate(weights, start=1):
        checkpoints.save_validated(update, tensors, keep=4)
        if update == 1:
            assert checkpoints.average(3, weights[0]) is None, "one model has no average"
    assert len(names(tmp_path)) == 4
    found = checkpoints.average(3, weights[0])
    assert found is not None
    for name in ("a", "b"):
        expected = torch.stack([tensors[name] for tensors in weights[-3:]]).double().mean(0)
        assert found[name].dtype == torch.float32
        torch.testing.assert_close(found[name].double(), expected, rtol=1e-6, atol=1e-7)
    assert checkpoints.latest() == (None, []), "only weights: nothing to go on from"


def test_a_damaged_model_is_left_out_of_the_average(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for update, value in enumerate((1.0, 2.0, 9.0), start=1):
        checkpoints.save_validated(update, {"x": torch.tensor([value])}, keep=4)
    damaged = tmp_path / "validated-00000002.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-2])
    checkpoints.save_validated(4, {"x": torch.tensor([[7.0]])}, keep=4)  # of another network
    found = checkpoints.average(4, {"x": torch.zeros(1)})
    assert found is not None
    assert found["x"].tolist() == [5.0]
    shutil.copy(damaged, tmp_path / "validated-00000003.safetensors")
    assert checkpoints.average(4, {"x": torch.zeros(1)}) is None
