"""Subword Segmental Machine Translation: one model that learns to translate and where to cut words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssmt.version import __version__ as __version__

__all__ = ["Translator", "__version__"]

if TYPE_CHECKING:
    from ssmt.translator import Translator


def __getattr__(name: str) -> object:
    """`Translator` is imported when first asked for: it brings torch along, for which `ssmt --help` need not wait."""
    if name == "Translator":
        from ssmt.translator import Translator

        return Translator
    raise AttributeError(f"module 'ssmt' has no attribute {name!r}")
