"""Subword Segmental Machine Translation: one model that learns to translate and where to cut words.

import ssmt

model = ssmt.train("train.en", "train.zu", "dev.en", "dev.zu", "runs/zulu", max_minutes=15)
model = ssmt.Translator.load("runs/zulu")  # and later
texts, segments, scores = model.translate(["Ministers discussed the report."])
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ssmt.version import __version__ as __version__

__all__ = ["Translator", "__version__", "train"]

# Threads that spin while they wait take the cores away from those that they wait for, if the machine has other work
# too (docs/performance.md has by how much). Read once, when torch is loaded; so it is set here, before that, unless
# whoever runs us has chosen.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Each of several processes would warn that DistributedDataParallel was asked to look for weights that a batch does not
# use and found none; errors of connections come as exceptions all the same. Read when torch is loaded, too.
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

if TYPE_CHECKING:
    from ssmt.interface import train
    from ssmt.translator import Translator


def __getattr__(name: str) -> object:
    """What brings torch along is imported when first asked for: `ssmt --help` need not wait for it."""
    if name == "Translator":
        from ssmt.translator import Translator

        return Translator
    if name == "train":
        from ssmt.interface import train

        return train
    raise AttributeError(f"module 'ssmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
