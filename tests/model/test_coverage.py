"""What of the source is said: against a plain transcription, and what a decoder that keeps account of it does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ssmt.model.coverage import BEFORE, BEHIND, MOST_SAID, SHARPNESS, Coverage
from ssmt.model.transformer import LEAST, Decoder
from tests.models import batch_of, random_model, stir

FIRST: dict[str, Any] = {"decoder_layers": 3, "character_layers": 1, "character_attention": False}
PAIRS = [("the cat sees a dog", "ab ba aab"), ("cats run", "b"), ("run dog", "aa b ab a")]


def test_a_token_is_told_of_by_what_is_said_of_it_and_around_it() -> None:
    torch.manual_seed(0)
    coverage = Coverage(heads=2)
    stir(coverage)
    looked = torch.rand(2, 3, 7)
    said = looked.cumsum(dim=1) * 2
    told = coverage(looked, said)
    assert told.shape == (2, 2, 3, 7)

    def at(values: list[float], place: int) -> float:
        return values[place] if 0 <= place < len(values) else 0.0

    for b in range(2):
        for t in range(3):
            seen = looked[b, t].tolist()
            sums = [min(x, MOST_SAID) for x in said[b, t].tolist()]
            for s in range(7):
                features = [at(seen, place) for place in range(s - BEFORE, s + BEHIND + 1)]
                features += [at(sums, place) for place in (s - 1, s, s + 1)]
                inner = torch.tanh(coverage.inner(torch.tensor(features)))
                torch.testing.assert_close(told[b, :, t, s], SHARPNESS * coverage.outer(inner))


def test_in_a_new_network_it_tells_nothing_and_learns_to() -> None:
    torch.manual_seed(0)
    coverage = Coverage(heads=3)
    told = coverage(torch.rand(1, 2, 5), torch.rand(1, 2, 5))
    assert not told.any()
    told[0, 1, 0, 2].backward()
    gradient = coverage.outer.weight.grad
    assert gradient is not None
    assert gradient[1].any()


@pytest.mark.parametrize("network", [{"decoder_layers": 3}, FIRST], ids=["characters", "words"])
def test_what_is_said_changes_where_later_layers_look(network: dict[str, Any]) -> None:
    """With the same weights, a decoder that is told looks elsewhere; the first layer, which tells, does not."""
    told, untold = random_model(coverage=True, **network), random_model(**network)
    untold.load_state_dict({name: x for name, x in told.state_dict().items() if ".coverage." not in name})
    batch = batch_of(told, PAIRS)
    planned, others = (
        model.decoder.planned_states(batch.previous, model.encode(batch.source)) for model in (told, untold)
    )
    assert others.read is None
    assert len(planned.plans) == 2
    for plan, other in zip(planned.plans, others.plans[-2:], strict=True):
        assert (plan - other).abs().max() > 0.05
    assert planned.read is not None
    if network is not FIRST:  # it is where the first layer looks at the position after
        torch.testing.assert_close(planned.read[:, :-1], others.plans[0][:, 1:])


@torch.no_grad()
def test_over_words_what_is_said_is_known_of_a_word_once_it_is_closed() -> None:
    """All characters of a word are told of what the state after it looks at; of a last word there is none."""
    model = random_model(coverage=True, **FIRST)
    batch = batch_of(model, PAIRS)
    memory = model.encode(batch.source)
    read = model.decoder.planned_states(batch.previous, memory).read
    assert read is not None
    for row, (_, text) in enumerate(PAIRS):
        words = text.split(" ")
        begin = 0
        for number, word in enumerate(words):
            of_word = read[row, begin : begin + len(word) + 1]  # with its blank
            torch.testing.assert_close(of_word, of_word[:1].expand_as(of_word))
            if number == len(words) - 1:
                assert not of_word.any()
            else:
                assert (of_word[0].exp().sum() - 1 - LEAST * read.shape[2]).abs() < 1e-5
            begin += len(word) + 1


@pytest.mark.parametrize("layers", [1, 2])
def test_one_layer_has_nobody_to_tell(layers: int) -> None:
    decoder = random_model(coverage=True, decoder_layers=layers).decoder
    assert isinstance(decoder, Decoder)
    assert (decoder.coverage is not None) == (layers > 1)


@torch.no_grad()
def test_steps_add_up_what_is_said() -> None:
    """Step by step, the first layer's attention adds up to what whole targets have."""
    model = random_model(coverage=True, **FIRST)
    batch = batch_of(model, PAIRS)
    memory = model.encode(batch.source)
    cache = model.decoder.start(memory, len(PAIRS), 1)
    states = [model.decoder.step(batch.previous[:, place], cache) for place in range(batch.previous.shape[1])]
    whole = model.decoder.states(batch.previous, memory)
    for row, length in enumerate(batch.target_lengths.tolist()):
        torch.testing.assert_close(torch.stack(states, dim=1)[row, :length], whole[row, :length], atol=2e-5, rtol=1e-4)
    said = cache.words.said  # type: ignore[attr-defined]
    words = [len(text.split(" ")) for _, text in PAIRS]  # the last one is not closed, but the empty one in front is
    assert said.sum(dim=1).tolist() == pytest.approx(words, abs=1e-4)
