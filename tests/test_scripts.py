"""No script can rot unseen: each in benchmarks/ and docs/ is run by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("folder", "tests"), [("benchmarks", "test_benchmarks.py"), ("docs", "test_documentation.py")])
def test_every_script_is_run(folder: str, tests: str) -> None:
    """Files that are no scripts are run by those that import them."""
    contents = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    scripts = {path for path, content in contents.items() if '__name__ == "__main__"' in content}
    runs = set(re.findall(r'run_script\(\s*"([^"]+)"', (ROOT / "tests" / tests).read_text(encoding="utf-8")))
    assert {path.relative_to(ROOT / folder).as_posix() for path in scripts} == runs
    imports = [
        line for content in contents.values() for line in re.findall(r"^from .* import .*", content, re.MULTILINE)
    ]
    imported = {"__init__", *(name for line in imports for name in re.findall(r"\w+", line))}
    assert [path.name for path in contents.keys() - scripts if path.stem not in imported] == []
