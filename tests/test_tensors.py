"""Files of tensors: what is saved comes back, damage of any kind is recognised, a failing write changes nothing."""

from __future__ import annotations

import math
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ssmt.errors import UserError
from ssmt.tensors import DamagedError, load, save

STATE: dict[str, Any] = {"update": 120, "best": None, "seconds": 1.25, "note": 'é "quoted" \u2028'}


def some_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "model.weight": torch.randn(2, 3, generator=generator),
        "model.transposed": torch.randn(3, 2, generator=generator).T,  # not contiguous
        "optimiser.0.step": torch.tensor(7.0),
        "random.cpu": torch.arange(20, dtype=torch.uint8),
        "half": torch.randn(3, generator=generator).bfloat16(),
        "counts": torch.tensor([2**40, -1]),
        "mask": torch.tensor([True, False]),
        "empty": torch.zeros(0, 4),
        "special": torch.tensor([math.nan, math.inf, -0.0]),
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert found[name].contiguous().reshape(-1).view(torch.uint8).tolist() == (
            tensor.contiguous().reshape(-1).view(torch.uint8).tolist()
        ), name


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "one.safetensors"
    save(path, some_tensors(), STATE)
    return path


def test_tensors_and_state_come_back_bit_for_bit(saved: Path) -> None:
    found = load(saved)
    assert_same(found.tensors, some_tensors())
    assert found.state == STATE
    assert os.listdir(saved.parent) == [saved.name]


def test_truncation_at_any_length_is_recognised(saved: Path) -> None:
    content = saved.read_bytes()
    for length in range(len(content)):
        saved.write_bytes(content[:length])
        with pytest.raises(DamagedError, match=r"one\.safetensors"):
            load(saved)
    saved.write_bytes(content + b"\0")
    with pytest.raises(DamagedError):
        load(saved)


def test_a_changed_byte_anywhere_is_recognised(saved: Path) -> None:
    """Only blanks between the parts of the header can change without notice: what is read is then the same."""
    content = saved.read_bytes()
    rng = random.Random(1)
    recognised = 0
    for position in range(len(content)):
        changed_to = content[position] ^ (1 << rng.randrange(8))
        saved.write_bytes(content[:position] + bytes([changed_to]) + content[position + 1 :])
        try:
            found = load(saved)
        except DamagedError:
            recognised += 1
            continue
        assert content[position : position + 1].isspace(), (position, content[position], changed_to)
        assert_same(found.tensors, some_tensors())
        assert found.state == STATE
    assert recognised > 0.95 * len(content)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('\\"update\\": 120', '\\"update\\": 720'),
        ('"dtype":"F32","shape":[2,3]', '"dtype":"F32","shape":[3,2]'),
        ('"dtype":"F32","shape":[2,3]', '"dtype":"I32","shape":[2,3]'),
        ('"half"', '"hale"'),
    ],
)
def test_a_plausible_header_that_is_wrong_is_recognised(saved: Path, before: str, after: str) -> None:
    content = saved.read_bytes()
    assert content.count(before.encode()) >= 1
    saved.write_bytes(content.replace(before.encode(), after.encode(), 1))
    with pytest.raises(DamagedError):
        load(saved)


def test_files_that_are_no_checkpoints_are_recognised(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    with pytest.raises(DamagedError):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(DamagedError):
        load(path)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(DamagedError):
        load(path)


@contextmanager
def no_space_after(size: int) -> Iterator[None]:
    """Writing a file beyond `size` bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_failing_write_leaves_the_old_file_and_no_temporary(saved: Path) -> None:
    content = saved.read_bytes()
    with (
        no_space_after(2000),
        pytest.raises(UserError, match=r"one\.safetensors: cannot be written \(.*File too large"),
    ):
        save(saved, {"big": torch.zeros(10_000)}, {})
    assert saved.read_bytes() == content
    assert os.listdir(saved.parent) == [saved.name]


def test_files_of_tensors_can_be_read_by_whom_their_neighbours_can(tmp_path: Path) -> None:
    (tmp_path / "neighbour").touch()
    save(tmp_path / "weights", {"a": torch.zeros(2)}, {})
    assert (tmp_path / "weights").stat().st_mode == (tmp_path / "neighbour").stat().st_mode


def test_what_the_machine_lacks_is_no_damage(saved: Path) -> None:
    """A run that took a whole checkpoint for a damaged one would put it aside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unused = [os.open(os.devnull, os.O_RDONLY) for _ in range(9)]  # what files would get; those between are in use
    for number in unused:
        os.close(number)
    answers = []
    for limit in unused:  # leaves room for none, for one, for two ... files
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            assert_same(load(saved).tensors, some_tensors())
            answers.append("it is read")
        except UserError as error:
            answers.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(answers) == {f"{saved}: cannot be read (Too many open files)", "it is read"}
    assert answers[-1] == "it is read"
