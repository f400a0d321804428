"""Ways to spoil what a program reads: bytes, lines, JSON, numbers, tensors, and the file itself."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from ssmt import tensors

ODD_NUMBERS: list[Any] = [
    *(0, -1, 1, 2, 3, 7, 255, 256, 65536, 10**6, 10**9, 2**31, 2**63, 2**64, 10**31, -(10**31), 10**400),
    *(0.5, -0.5, 1e-30, 1e6, 1e30, 1e308, float("nan"), float("inf"), -float("inf")),
]
ODD_VALUES: list[Any] = [*ODD_NUMBERS, None, True, False, "", "x", "none", [], {}, [1], ["a"], {"a": 1}, "\ud800", "7"]
ODD_TEXTS = [
    "",
    " ",
    "   \t ",
    "\u200b",
    "\ufeff",
    "\ufffd",
    "\x00",
    "a\x00b",
    "\x1b[31mred\x1b[0m",
    "\r",
    "a\rb",
    "\u2028a\u2029b",
    "\x85\x0b\x0c",
    "<unk> </s> <pad> <eom>",
    "▁a▁b",
    "\uf5a0\uf5a1\uf5a2\uf5a3",
    "\uf5b0\uf5b0 \uf5b1\uf5b1",
    "\ufdd0\ufdd1\uffff\U0010ffff",
    "▅▅",
    "e\u0301" * 30,
    "\u0301" * 40,
    "क्षि न्यो ก็ ဣ",
    "日本語のテキスト。",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦 🇿🇦 🏳️‍🌈",
    "a" * 999,
    "ab " * 600,
    "." * 500,
    "x" * 5000,
    "I see. " * 400,
    "we see a bird.",
    "nibona inyoni.",
    "-1",
    "NaN",
    '{"a": [1',
    "|a|b|",
    "a\tb\tc",
    "\t",
    "word\tmor-pheme",
]
ODD_BYTES = [b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x00" * 64, b"a\xffb"]


def odd_lines(rng: random.Random, most: int = 12) -> bytes:
    """A text file; now and then not UTF-8, or without an end of line."""
    lines = [rng.choice(ODD_TEXTS).replace("\n", "").encode() for _ in range(rng.randrange(1, most))]
    if rng.random() < 0.15:
        lines[rng.randrange(len(lines))] = rng.choice(ODD_BYTES)
    return rng.choice([b"\n", b"\n", b"\n", b"\r\n"]).join(lines) + rng.choice([b"\n", b"\n", b""])


# Bytes


def spoil_bytes(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    length = rng.choice([1, 1, 2, 8, 64])
    junk = rng.randbytes(length)
    return rng.choice(
        [
            content[:place],
            content[:place] + junk + content[place + length :],
            content[:place] + junk + content[place:],
            content[:place] + content[place + length :],
            content + junk,
            content * 2,
            b"",
            junk,
            rng.choice(ODD_BYTES) + content,
            content[:place] + rng.choice(ODD_BYTES) + content[place:],
        ]
    )


# Text and JSON


def spoil_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    row, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    odd = rng.choice([*(text.encode("utf-8", "surrogatepass") for text in ODD_TEXTS), *ODD_BYTES])
    match rng.randrange(9):
        case 0:
            del lines[row]
        case 1:
            lines.insert(row, lines[other])
        case 2:
            lines[row], lines[other] = lines[other], lines[row]
        case 3:
            lines[row] = odd
        case 4:
            lines.insert(row, odd + b"\t1")
        case 5:
            lines[row] = lines[row].rpartition(b"\t")[0] + b"\t" + b"9" * rng.choice([1, 20, 5000])
        case 6:
            lines[row] = b"a" * 100_000 + b"\t3"
        case 7:
            lines = lines[:row]
        case _:
            lines[row] = lines[row][: len(lines[row]) // 2]
    return b"\n".join(lines)


def spoil_json(content: bytes, rng: random.Random) -> bytes:
    """One value, somewhere inside, becomes another; or the whole is nested too deep."""
    if rng.random() < 0.1:
        return rng.choice([b"[" * 100_000, b'{"a":' * 50_000, b"9" * 6000, b"[" + b"9" * 6000 + b"]", b"NaN", b"1e999"])
    try:
        value = json.loads(content)
    except ValueError:
        return spoil_bytes(content, rng)
    places: list[tuple[Any, Any]] = []

    def walk(inside: Any) -> None:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ()
        for key in keys:
            places.append((inside, key))
            walk(inside[key])

    walk(value)
    if not places or rng.random() < 0.1:
        return json.dumps(rng.choice(ODD_VALUES)).encode()
    inside, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[rng.choice(["x", "", "symbols", "word_characters", "codes"])] = rng.choice(ODD_VALUES)
        case 2 if isinstance(inside[key], list) and inside[key]:
            inside[key] = inside[key] * 2
        case 3 if isinstance(inside[key], int | float):
            inside[key] = inside[key] * rng.choice([2, 10, 1000, 10**6, -1])
        case _:
            inside[key] = rng.choice(ODD_VALUES)
    return json.dumps(value).encode()


# Tensors


def spoil_tensors(path: Path, rng: random.Random) -> None:
    """A file of tensors whose checksum is right and whose content is not."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            content = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        state = json.loads(metadata.get("state", "{}"))
    except Exception:
        path.write_bytes(spoil_bytes(path.read_bytes(), rng))
        return
    name = rng.choice(sorted(content))
    tensor = content[name]
    match rng.randrange(12):
        case 0:
            del content[name]
        case 1:
            content[rng.choice(["x", "model.", "optimiser.x", "optimiser.9999.step", "random.", "other.x"])] = (
                tensor.clone()
            )
        case 2:
            content[name] = tensor.to(rng.choice([torch.int8, torch.bool, torch.int64, torch.float64, torch.float16]))
        case 3 | 4:
            value = rng.choice([float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 1e30, 1e20])
            content[name] = torch.full_like(tensor.float(), value)
        case 5:
            content = {key: torch.full_like(value.float(), rng.choice([1e38, 1e25])) for key, value in content.items()}
        case 6:
            content[name] = tensor.reshape(-1)[: rng.randrange(1 + tensor.numel())].clone()
        case 7:
            content[name] = torch.cat([tensor.reshape(-1), tensor.reshape(-1)])
        case 8:
            content[name] = tensor.unsqueeze(0)
        case 9 if state:
            state[rng.choice(sorted(state))] = rng.choice(ODD_VALUES)
        case 10 if state:
            del state[rng.choice(sorted(state))]
        case 11:
            state["unknown"] = rng.choice(ODD_VALUES)
        case _:
            content = {key: value * 1e15 if value.is_floating_point() else value for key, value in content.items()}
    written = json.dumps(state)
    from safetensors.torch import save_file

    content = {key: value.contiguous() for key, value in content.items()}
    checksum = str(tensors._checksum(content, written))
    kept = {"state": written, "checksum": checksum} if rng.random() < 0.9 else {}
    path.unlink()
    save_file(content, path, metadata=kept)


# The file itself


def replace_file(path: Path, rng: random.Random) -> None:
    """Something else in the place of a file."""
    elsewhere = path.parent / "elsewhere"
    match rng.randrange(9):
        case 0:
            path.unlink()
            os.mkfifo(path)
        case 1:
            path.unlink()
            path.symlink_to("/dev/zero")
        case 2:
            path.unlink()
            path.symlink_to(path.name)
        case 3:
            path.unlink()
            path.mkdir()
        case 4:
            path.unlink()
        case 5:
            path.rename(elsewhere)
            path.symlink_to(elsewhere)
        case 6:
            path.unlink()
            path.symlink_to("/proc/self/mem")
        case 7:
            os.truncate(path, 1 << 36)  # sparse: 64 GiB of zeros that take no disk
        case _:
            others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
            path.write_bytes(rng.choice(others).read_bytes() if others else b"")


def mutate(path: Path, rng: random.Random) -> None:
    """Spoil a file in a way that suits it."""
    if rng.random() < 0.2:
        replace_file(path, rng)
        return
    if path.suffix == ".safetensors" and rng.random() < 0.8:
        spoil_tensors(path, rng)
        return
    ways: list[Callable[[bytes, random.Random], bytes]] = [spoil_bytes]
    if path.suffix == ".json":
        ways = [spoil_json, spoil_json, spoil_json, spoil_bytes]
    elif path.suffix in (".txt", ".jsonl", ".source", ".target", ".tsv"):
        ways = [spoil_lines, spoil_lines, spoil_bytes]
    path.write_bytes(rng.choice(ways)(path.read_bytes(), rng))
