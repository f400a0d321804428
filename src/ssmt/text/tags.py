"""Symbols that say what is asked for: a language, or where a text comes from. None of them is ever read in a text."""

from __future__ import annotations

from collections.abc import Iterable


def language_symbol(code: str) -> str:
    """What asks for a target language: in front of a target, or of a source. (No code can make it `<unk>` or `<pad>`,
    which are languages too.)"""
    return f"<2{code}>"


def origin_symbol(origin: str) -> str:
    """What says in front of a source where it comes from."""
    return f"<of {origin}>"


def languages_among(symbols: Iterable[str]) -> tuple[str, ...]:
    """The languages that symbols ask for, by their codes."""
    return tuple(symbol[2:-1] for symbol in symbols if len(symbol) > 3 and symbol.startswith("<2"))
