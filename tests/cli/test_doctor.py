"""`ssmt doctor`: says what is there, ends with 1 when something needed is not."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata

import pytest
import torch

from ssmt.cli import doctor
from tests.cli.test_bad_input import Ssmt

REQUIRES = [
    "torch>=2.10",
    "pyyaml>=6.0",
    'matplotlib>=3.8; extra == "plots"',
    'no-such-package>=1.0; extra == "absent"',
    'pytest>=8; extra == "dev"',
]


def requiring(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: [*REQUIRES, *more])


def test_everything_is_said(ssmt: Ssmt, monkeypatch: pytest.MonkeyPatch) -> None:
    requiring(monkeypatch)
    found = ssmt("doctor", "--json")
    assert found.status == 0
    said = json.loads(found.out)
    assert said["python"] == platform.python_version()
    assert said["packages"]["torch"] == {"version": metadata.version("torch"), "wanted": ">=2.10", "problem": None}
    assert said["packages"]["pyyaml"]["problem"] is None, "imported as yaml"
    assert said["extras"].keys() == {"plots", "absent"}, "that of developers is none of a user's business"
    assert said["extras"]["plots"]["packages"]["matplotlib"]["problem"] is None
    assert said["devices"]["cpu"]["name"]
    assert said["threads"]["torch"] == torch.get_num_threads()
    assert said["disk"]["free"] > 0
    assert said["problems"] == []


def test_missing_extra_is_no_problem_but_has_its_command(ssmt: Ssmt, monkeypatch: pytest.MonkeyPatch) -> None:
    requiring(monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    found = ssmt("doctor")
    assert found.status == 0
    assert "no-such-package is not installed: pip install 'ssmt[absent]'" in found.out
    assert "Everything that is needed is here" in found.out


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("no-such-package>=1.0", "no-such-package: is not installed; pip install 'no-such-package>=1.0'"),
        ("numpy>=99", "numpy: is version .*, but >=99 is needed; pip install 'numpy>=99'"),
    ],
)
def test_missing_requirement_ends_with_status_1(
    ssmt: Ssmt, monkeypatch: pytest.MonkeyPatch, requirement: str, problem: str
) -> None:
    requiring(monkeypatch, requirement)
    found = ssmt("doctor", "--json")
    assert found.status == 1
    (said,) = json.loads(found.out)["problems"]
    assert re.fullmatch(problem, said), said
    assert ssmt("doctor").status == 1


def test_broken_library_is_a_problem(ssmt: Ssmt, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError(f"lib{name}.so: cannot open shared object file")

    requiring(monkeypatch)
    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    found = ssmt("doctor", "--json")
    assert found.status == 1
    said = json.loads(found.out)
    assert "cannot be imported (libtorch.so: cannot open" in said["problems"][0]
    assert said["devices"] == {}, "what torch would say is unknown"
    assert ssmt("doctor").status == 1


@pytest.mark.parametrize(
    ("version", "wanted", "is_enough"),
    [("2.13.0+cpu", ">=2.10", True), ("2.9.1", ">=2.10", False), ("1.0", "", True), ("3.8", "<4,>=3.8", True)],
)
def test_versions_compare_by_their_numbers(version: str, wanted: str, is_enough: bool) -> None:
    assert (doctor._numbers(version) >= doctor._lowest(wanted)) == is_enough
