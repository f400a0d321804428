"""The allocator setting does what it says: memory that is freed stays with the process, and is used again."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from ssmt.training.memory import keep_freed_memory
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
assert keep_freed_memory() or not {kept}
torch.ones(20_000_000)  # 80 MB, freed at once
before = faults()
for _ in range(5):
    torch.ones(20_000_000)
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_used_again() -> None:
    def page_faults(program: str) -> int:
        return int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)

    kept = page_faults(PROGRAM.format(kept=True))
    given_back = page_faults(PROGRAM.format(kept=False).replace("keep_freed_memory() or", "True or"))
    assert kept < given_back / 4
