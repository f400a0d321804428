"""Below the command line nothing speaks of its flags: messages serve people who call Python, too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ssmt

ROOT = Path(ssmt.__file__).parent
LIBRARY = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def texts(path: Path) -> list[str]:
    """Strings that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in said]
    return [node.value for node in strings if isinstance(node.value, str)]


@pytest.mark.parametrize("name", [name for name in LIBRARY if not name.startswith("cli/")])
def test_no_text_of_the_library_has_a_flag(name: str) -> None:
    flags = [text for text in texts(ROOT / name) if re.search(r"(?<![\w(;:-])--[a-z][a-z-]+", text)]
    assert flags == []
