"""Some of the cases of `make fuzz`: whatever is in a directory, a file or an option, the answer is a result, or a
message with status 2, in bounded time and memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fuzz.cases import SORTS
from tests.fuzz.runner import failures, import_everything
from tests.fuzz.world import build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and limited as Linux does it")
CASES = 200


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import_everything()
    directory = tmp_path_factory.mktemp("fuzz") / "world"
    build(directory)
    return directory


@pytest.mark.parametrize("sort", [make.__name__ for make, _ in SORTS])
def test_whatever_it_is_given_the_program_answers(world: Path, sort: str) -> None:
    weight = {make.__name__: weight for make, weight in SORTS}[sort] / sum(weight for _, weight in SORTS)
    found = [failure for failure in failures(world, range(round(CASES * weight)), 0, sort) if failure]
    assert not found, "\n".join(map(str, found))
