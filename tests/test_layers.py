"""Imports go one way only: no cycle between modules, and none against the order of layers.

Every import counts, also those inside functions and those for types alone: a layer that needs another to describe
itself knows it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import ssmt

PACKAGE = Path(ssmt.__file__).parent
# From the ground up; modules of one layer may not import each other, those of one package may.
LAYERS: list[set[str]] = [
    {"errors", "version"},
    {"files", "streams", "devices"},
    {"outputs"},
    {"progress"},
    {"tensors", "config"},
    {"text"},
    {"lattice"},
    {"model"},
    {"search"},
    {"segmentation"},
    {"registry"},
    {"directory"},
    {"translator", "training"},
    {"records", "ensemble"},
    {"evaluation", "interop", "interface", "serve", "backtranslation"},
    {"demo"},
    {"cli"},
    {"", "__main__"},  # the package itself, which names what users import; and `python -m ssmt`
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports; `from ssmt.search import beam` imports a module too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("ssmt.") in MODULES else str(node.module) for name in full]
        for name in names:
            if name == "ssmt" or name.startswith("ssmt."):
                inside = name.removeprefix("ssmt").removeprefix(".")
                assert inside in MODULES, f"{path}: imports {name}, which is no module"
                yield inside


GRAPH = {name: set(imported(path)) for name, path in MODULES.items()}


def layer(module: str) -> str:
    return module.partition(".")[0]


def test_every_module_has_a_layer() -> None:
    assert {layer(module) for module in MODULES} == set(LEVEL)


def test_no_module_imports_itself_by_a_detour() -> None:
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        raise AssertionError(f"imports in a circle: {' -> '.join(error.args[1])}") from None


def test_nothing_is_imported_from_a_higher_layer() -> None:
    against = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in sorted(others)
        if layer(module) != layer(other) and LEVEL[layer(module)] <= LEVEL[layer(other)]
    ]
    assert against == []


def test_help_needs_no_torch() -> None:
    """What the command line imports to print its help, followed through the top of every module."""
    seen: set[str] = set()
    waiting = ["cli"]
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        for node in top.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]  # type: ignore[attr-defined]
            assert not any(name.partition(".")[0] == "torch" for name in names), f"{module} imports torch"
            for name in names:
                if name.startswith("ssmt"):
                    for alias in node.names:  # type: ignore[attr-defined]
                        full = f"{name}.{alias.name}".removeprefix("ssmt.")
                        waiting.append(full if full in MODULES else name.removeprefix("ssmt").removeprefix("."))
