"""Names of devices: those of this machine, spelt as torch spells them."""

from __future__ import annotations

import re

import pytest
import torch

from ssmt.devices import SMALL_NETWORK, choose_device, threads_for, total_memory
from ssmt.errors import UserError


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "auto"])
def test_devices_that_are_there(name: str) -> None:
    assert choose_device(name).type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["cpu:00", "cpu:1", "cpu:", "cpu:٠", "cpu:-1", "cuda:99", "", ":", "x", "cpu:0:0"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="this machine has"):
        choose_device(name)


@pytest.mark.parametrize(
    ("parameters", "chosen", "threads", "said"),
    [
        (1000, None, 1, r"threads: 1 of 3 \(more .*"),
        (1000, "3", 3, "threads: 3"),
        (SMALL_NETWORK, None, 3, "threads: 3"),
    ],
)
def test_a_small_network_has_one_thread_unless_someone_has_chosen(
    monkeypatch: pytest.MonkeyPatch, parameters: int, chosen: str | None, threads: int, said: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("ssmt.devices.ALL_THREADS", 3)
    if chosen:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with threads_for(parameters, torch.device("cpu")) as words:
            assert torch.get_num_threads() == threads
        assert re.fullmatch(said, words)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_machine_has_memory() -> None:
    assert total_memory() > 1 << 20
