"""Decoding step by step gives the states of the whole sequence, however the cache is reordered."""

from __future__ import annotations

import pytest
import torch

from ssmt.config import NetworkConfig
from ssmt.model.transformer import Decoder, Encoder
from tests.models import SMALL

PAD, EOS = 0, 1


def networks(**changes: object) -> tuple[Encoder, Decoder]:
    torch.manual_seed(0)
    config = NetworkConfig(**{**SMALL, **changes})
    return Encoder(12, config, PAD).eval(), Decoder(9, config, PAD, EOS).eval()


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"norm": "post", "position_offset": 2}])
def test_steps_equal_states(changes: dict[str, object]) -> None:
    encoder, decoder = networks(**changes)
    memory = encoder(torch.tensor([[3, 4, 5, 1], [6, 1, 0, 0]]))
    target = torch.randint(2, 9, (2, 40))
    expected = decoder.states(target, memory)
    cache = decoder.start(memory, 1)
    previous = decoder.previous(target)
    for place in range(40):  # beyond the room first allotted
        state = decoder.step(previous[:, place], cache)
        torch.testing.assert_close(state, expected[:, place], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_reordered_rows_continue_their_origin() -> None:
    encoder, decoder = networks()
    memory = encoder(torch.tensor([[3, 4, 5, 1], [6, 7, 1, 0]]))
    cache = decoder.start(memory, 2)
    first = torch.tensor([EOS, EOS, EOS, EOS])
    second = torch.tensor([2, 3, 4, 5])
    decoder.step(first, cache)
    decoder.step(second, cache)
    cache.reorder(torch.tensor([1, 1, 3, 2]))
    state = decoder.step(torch.tensor([6, 7, 8, 2]), cache)
    targets = torch.tensor([[3, 6, 0], [3, 7, 0], [5, 8, 0], [4, 2, 0]])
    expected = decoder.states(targets, memory.select(torch.tensor([0, 0, 1, 1])))[:, 2]
    torch.testing.assert_close(state, expected, atol=1e-5, rtol=1e-4)

    cache.select_sentences(torch.tensor([1]))
    cache.reorder(torch.tensor([3, 2]))
    state = decoder.step(torch.tensor([4, 5]), cache)
    targets = torch.tensor([[4, 2, 4, 0], [5, 8, 5, 0]])
    expected = decoder.states(targets, memory.select(torch.tensor([1, 1])))[:, 3]
    torch.testing.assert_close(state, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_rows_of_different_lengths() -> None:
    encoder, decoder = networks()
    memory = encoder(torch.tensor([[3, 4, 1]]))
    cache = decoder.start(memory, 2)
    cache.position = torch.zeros(2, dtype=torch.int64)
    both = torch.tensor([True, True])
    decoder.step(torch.tensor([EOS, EOS]), cache, both)
    decoder.step(torch.tensor([2, 3]), cache, torch.tensor([True, False]))  # only the first row reads
    state = decoder.step(torch.tensor([4, 5]), cache, both)
    expected = decoder.states(torch.tensor([[2, 4, 0], [5, 0, 0]]), memory.select(torch.tensor([0, 0])))
    torch.testing.assert_close(state[0], expected[0, 2], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state[1], expected[1, 1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_padding_of_the_source_changes_nothing() -> None:
    encoder, decoder = networks()
    target = torch.tensor([[2, 3, 4]])
    alone = decoder.states(target, encoder(torch.tensor([[3, 4, 1]])))
    padded = decoder.states(target, encoder(torch.tensor([[3, 4, 1, PAD, PAD]])))
    torch.testing.assert_close(alone, padded, atol=1e-6, rtol=1e-5)
