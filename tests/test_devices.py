"""Names of devices: those of this machine, spelt as torch spells them."""

from __future__ import annotations

import pytest

from ssmt.devices import choose_device, total_memory
from ssmt.errors import UserError


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "auto"])
def test_devices_that_are_there(name: str) -> None:
    assert choose_device(name).type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["cpu:00", "cpu:1", "cpu:", "cpu:٠", "cpu:-1", "cuda:99", "", ":", "x", "cpu:0:0"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="this machine has"):
        choose_device(name)


def test_the_machine_has_memory() -> None:
    assert total_memory() > 1 << 20
