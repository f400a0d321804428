"""Weights of a model as the beginning of another one, which may know more symbols.

A symbol that both know keeps its rows, wherever they are now. A new one begins as the mean of what it is made of: a
lexicon entry of its characters, a character of all characters, a language of those that are known (or of `</s>`, with
which every target began). A new n-gram of the inputs begins as nothing: it is added to characters that are there; and
so does a new subword within others. A new subword of the source is copied as readily as in a new network; what could
not be copied before never is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ssmt.errors import UserError
from ssmt.model.translation import TranslationModel
from ssmt.text.alphabet import EOS
from ssmt.text.tags import languages_among


def is_part(name: str, parts: Sequence[str]) -> bool:
    """Whether a weight belongs to one of some parts, named by the beginnings of their weights' names."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def require_parts(parts: Sequence[str], network: TranslationModel) -> None:
    names = [name for name, _ in network.named_parameters()]
    for part in parts:
        if not any(is_part(name, [part]) for name in names):
            known = sorted({".".join(name.split(".")[:depth]) for name in names for depth in (1, 2)})
            raise UserError(f"The network has no part {part!r}; its parts are {', '.join(known)} and what is in them")


def freeze(network: TranslationModel, parts: Sequence[str]) -> None:
    """Keep parts of a network as they are."""
    require_parts(parts, network)
    for name, parameter in network.named_parameters():
        if is_part(name, parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UserError("Every part of the network is frozen; nothing would be trained")


def begin_with(network: TranslationModel, other: TranslationModel, parts: Sequence[str] = ()) -> None:
    """Give a network the weights of another one: of some parts, or of all where none is named."""
    require_parts(parts, network)
    # A weight that two parts share has two names here, and one in a model's file.
    weights = {name: weight.detach() for name, weight in other.named_parameters(remove_duplicate=False)}
    state = network.state_dict()
    wanted = [name for name in state if not parts or is_part(name, parts)]
    if more := [name for name in weights if is_part(name, parts) and name not in state]:
        raise UserError(
            f"The model that training begins with has the weight {more[0]!r}, for which these settings have no place. "
            f"Give the network the settings that it has there, or take less of it"
        )
    for name in wanted:
        if name not in weights:
            raise UserError(f"The model that training begins with has no weight {name!r}")
        begun = weights[name]
        if kind := network.ROWS.get(name):
            symbols, known = network.vocabulary.rows(kind), other.vocabulary.rows(kind)
            begun = _extended(begun, symbols, known)
            is_known = {*known}.__contains__
            new = [row for row, symbol in enumerate(symbols) if not is_known(symbol)]
            if kind == "copied":
                begun[new] = state[name][new]
            elif kind in ("ngrams", "nested", "nested target"):
                begun[new] = 0.0
            elif name.endswith(".bias") and new:  # all new ones together weigh about as one of what they are made of
                begun[new] -= math.log1p(len(new))
        if begun.shape != state[name].shape:
            raise UserError(
                f"The weight {name!r} of the model that training begins with has shape {tuple(begun.shape)}, and these "
                f"settings ask for {tuple(state[name].shape)}"
            )
        state[name] = begun
    network.load_state_dict(state)


def _extended(weight: Tensor, symbols: Sequence[str], known: Sequence[str]) -> Tensor:
    """The rows of `symbols`, from those of the `known` ones. (A table of inputs has one row more, for none of them.)"""
    result = weight.new_empty(len(symbols), *weight.shape[1:])
    for row, rows in enumerate(rows_made_of(symbols, known)):
        # One row is itself, bit for bit; a mean would be rounded.
        result[row] = weight[rows[0]] if len(rows) == 1 else weight[rows].mean(dim=0)
    return torch.cat([result, weight[len(known) :]])


def rows_made_of(symbols: Sequence[str], known: Sequence[str]) -> list[list[int]]:
    """For each symbol, the rows of known ones whose mean it begins as."""
    row_of = {symbol: row for row, symbol in enumerate(known)}
    characters = [row for symbol, row in row_of.items() if len(symbol) == 1] or list(row_of.values())
    languages = [row for symbol, row in row_of.items() if languages_among([symbol])]

    def of(symbol: str) -> list[int]:
        if symbol in row_of:
            return [row_of[symbol]]
        if languages_among([symbol]):
            return languages or ([row_of[EOS]] if EOS in row_of else characters)
        inside = [row_of[character] for character in symbol if character in row_of]
        is_text = not (symbol.startswith("<") and symbol.endswith(">"))  # no segment has other than word characters
        return inside if inside and is_text and len(symbol) > 1 else characters

    return [of(symbol) for symbol in symbols]
