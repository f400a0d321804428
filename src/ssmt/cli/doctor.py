"""`ssmt doctor`: what this machine has, and what is missing."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import sys
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssmt.cli.shared import Verb, app, write_json
from ssmt.version import __version__

# How a distribution is imported, where that is not its own name.
MODULES = {
    "pyyaml": "yaml",
    "subword-nmt": "subword_nmt",
    "python-multipart": "python_multipart",
    "prometheus-client": "prometheus_client",
}
NOT_FOR_USERS = ("dev",)  # extras


@app.command(cls=Verb)
def doctor(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what this machine has and what is missing: versions, devices, threads, memory, disk, extras.

    Ends with status 1 if something that is needed is missing.
    """
    machine = examine()
    if json_:
        write_json(sys.stdout, machine)
    else:
        _print(machine)
    raise typer.Exit(1 if machine["problems"] else 0)


def examine() -> dict[str, Any]:
    """Everything there is to say, as plain data."""
    needed, extras = _requirements()
    packages = {name: _package(name, wanted) for name, wanted in needed.items()}
    problems = [
        f"{name}: {package['problem']}; pip install '{name}{package['wanted']}'"
        for name, package in packages.items()
        if package["problem"]
    ]
    machine: dict[str, Any] = {
        "ssmt": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": packages,
        "extras": {
            extra: {
                "packages": {name: _package(name, wanted) for name, wanted in wants.items()},
                "install": f"pip install 'ssmt[{extra}]'",
            }
            for extra, wants in extras.items()
        },
        "memory": _memory(),
        "disk": {"directory": os.getcwd(), "free": shutil.disk_usage(".").free},
    }
    machine |= (
        _devices()
        if not packages.get("torch", {}).get("problem")
        else {"devices": {}, "default_device": None, "threads": {}}
    )
    return machine | {"problems": problems}


def _requirements() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """What the installed program says it needs, and what its extras need: versions wanted, by name."""
    needed: dict[str, str] = {}
    extras: dict[str, dict[str, str]] = {}
    for line in metadata.requires("ssmt") or []:
        requirement, _, marker = line.partition(";")
        name, wanted = re.fullmatch(r"\s*([\w.-]+)(.*?)\s*", requirement).groups()  # type: ignore[union-attr]
        extra = re.search(r"""extra\s*==\s*['"](\w+)['"]""", marker)
        if extra is None:
            needed[name] = wanted
        elif extra[1] not in NOT_FOR_USERS:
            extras.setdefault(extra[1], {})[name] = wanted
    return needed, extras


def _package(name: str, wanted: str) -> dict[str, Any]:
    """Its version, and what is wrong with it, if anything is. It is imported: a broken library shows only then."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return {"version": None, "wanted": wanted, "problem": "is not installed"}
    problem = None
    if _numbers(version) < _lowest(wanted):
        problem = f"is version {version}, but {wanted} is needed"
    else:
        try:
            importlib.import_module(MODULES.get(name, name))
        except Exception as error:  # whatever an import can throw is what we are here to show
            problem = f"cannot be imported ({error})"
    return {"version": version, "wanted": wanted, "problem": problem}


def _numbers(version: str) -> tuple[int, ...]:
    """The release numbers at the beginning of a version."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _lowest(wanted: str) -> tuple[int, ...]:
    """The lower bound in a requirement; () where it has none."""
    match = re.search(r">=\s*([\d.]+)", wanted)
    return _numbers(match[1]) if match else ()


def _devices() -> dict[str, Any]:
    """The devices that a model can run on, best first, with their memory and whether they have bf16."""
    import torch

    from ssmt.devices import choose_device, has_bf16

    devices: dict[str, Any] = {}
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        about = torch.cuda.get_device_properties(number)
        bf16 = has_bf16(torch.device("cuda", number))
        devices[f"cuda:{number}"] = {"name": about.name, "memory": about.total_memory, "bf16": bf16}
    if torch.backends.mps.is_available():
        devices["mps"] = {"name": "Apple GPU", "memory": None, "bf16": torch.backends.mps.is_macos_or_newer(14, 0)}
    has_mkldnn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    bf16 = has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    devices["cpu"] = {"name": _processor(), "memory": None, "bf16": bool(bf16)}
    return {
        "devices": devices,
        "default_device": str(choose_device("auto")),
        "threads": {"cores": os.cpu_count(), "torch": torch.get_num_threads()},
    }


def _processor() -> str:
    """The processor's name, as well as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            names = [line.partition(":")[2].strip() for line in stream if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> dict[str, int | None]:
    """Bytes of main memory, and of it what is still to be had; none where the system does not say."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total: int | None = page * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = None
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in stream}
        available: int | None = 1024 * kilobytes["MemAvailable"]
    except (OSError, KeyError):
        available = None
    return {"total": total, "available": available}


def _print(machine: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, text: str, style: str = "") -> None:
        table.add_row(name, Text(text, style))  # no markup: the names of extras stand in brackets

    row("ssmt", machine["ssmt"])
    row("Python", f"{machine['python']}, {machine['executable']}")
    row("system", machine["system"])
    for name, package in machine["packages"].items():
        row(name, package["problem"] or package["version"], "red" if package["problem"] else "")
    table.add_row()
    for name, device in machine["devices"].items():
        memory = f", {_size(device['memory'])}" if device["memory"] else ""
        taken = name in (machine["default_device"], f"{machine['default_device']}:0")
        default = ", which --device auto takes" if taken else ""
        row(f"device {name}", f"{device['name']}{memory}, {'has' if device['bf16'] else 'no'} bf16{default}")
    if machine["threads"]:
        row("threads", f"{machine['threads']['torch']}, of {machine['threads']['cores']} cores")
    if total := machine["memory"]["total"]:
        available = machine["memory"]["available"]
        row("memory", _size(total) + (f", {_size(available)} available" if available else ""))
    row("disk", f"{_size(machine['disk']['free'])} free in {machine['disk']['directory']}")
    table.add_row()
    for extra, needed in machine["extras"].items():
        packages = needed["packages"].items()
        missing = "; ".join(f"{name} {package['problem']}" for name, package in packages if package["problem"])
        versions = ", ".join(f"{name} {package['version']}" for name, package in packages)
        row(f"extra {extra}", f"{missing}: {needed['install']}" if missing else versions, "yellow" if missing else "")
    console = Console(highlight=False)
    console.print(table)
    console.print()
    for problem in machine["problems"]:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    if not machine["problems"]:
        console.print("Everything that is needed is here.")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB"
