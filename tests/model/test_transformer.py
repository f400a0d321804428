"""Decoding step by step gives the states of the whole sequence, however the cache is reordered."""

from __future__ import annotations

import math

import pytest
import torch

from ssmt.config import NetworkConfig
from ssmt.model.body import Memory
from ssmt.model.layers import Embedding
from ssmt.model.ngrams import NgramInputs
from ssmt.model.ssmt import SSMT
from ssmt.model.transformer import LEAST, Decoder, DecoderLayer, Encoder, in_logarithms
from ssmt.text.alphabet import Alphabet
from ssmt.text.lexicon import Lexicon
from ssmt.text.subwords import Subwords
from ssmt.text.vocabulary import Vocabulary
from tests.models import SMALL, source_subwords

ALPHABET = Alphabet.of_characters("\n abc")
PAD, EOS = ALPHABET.pad, ALPHABET.eos
PLAIN: dict[str, object] = {}
WORDS: dict[str, object] = {"decoder_layers": 4, "character_layers": 2}
WORDS_FIRST: dict[str, object] = {"decoder_layers": 3, "character_layers": 1}
NO_ATTENTION = WORDS_FIRST | {"character_attention": False, "character_feedforward": 12}
BODIES = {"characters": PLAIN, "words": WORDS, "words first": WORDS_FIRST, "words first, no attention": NO_ATTENTION}
bodies = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)


def of_sentences(memory: Memory, sentences: torch.Tensor) -> Memory:
    return Memory(*(part[sentences] for part in memory))


def networks(**changes: object) -> tuple[Encoder, Decoder]:
    torch.manual_seed(0)
    config = NetworkConfig(**{**SMALL, **changes})
    ngrams = NgramInputs(Lexicon.of_texts(ALPHABET, ["ab", "abc", "ca"]), config.width) if changes else None
    embedding = Embedding(len(ALPHABET), config, PAD, ngrams)
    vocabulary = Vocabulary(source_subwords(), ALPHABET, Lexicon.of_texts(ALPHABET, []))
    decoder = SSMT.body(embedding, vocabulary, config)
    assert isinstance(decoder, Decoder)
    return Encoder(source_subwords(), config).eval(), decoder.eval()


def after_start(target: torch.Tensor) -> torch.Tensor:
    """What the decoder reads: `</s>`, then the target but its last symbol."""
    return torch.nn.functional.pad(target[:, :-1], (1, 0), value=EOS)


@torch.no_grad()
@bodies
@pytest.mark.parametrize("changes", [{}, {"norm": "post", "position_offset": 2}])
def test_steps_equal_states(changes: dict[str, object], body: dict[str, object]) -> None:
    encoder, decoder = networks(**changes, **body)
    memory = encoder(torch.tensor([[3, 4, 5, 1], [6, 1, 2, 2]]))
    target = torch.randint(2, 9, (2, 40))
    expected = decoder.states(after_start(target), memory)
    cache = decoder.start(memory, 2, 1)
    previous = after_start(target)
    for place in range(40):  # beyond the room first allotted
        state = decoder.step(previous[:, place], cache)
        torch.testing.assert_close(state, expected[:, place], atol=1e-5, rtol=1e-4)


@torch.no_grad()
@bodies
def test_reordered_rows_continue_their_origin(body: dict[str, object]) -> None:
    encoder, decoder = networks(**body)
    memory = encoder(torch.tensor([[3, 4, 5, 1], [6, 7, 1, 2]]))
    cache = decoder.start(memory, 2, 2)
    first = torch.tensor([EOS, EOS, EOS, EOS])
    second = torch.tensor([2, 3, 4, 5])
    decoder.step(first, cache)
    decoder.step(second, cache)
    cache.reorder(torch.tensor([1, 1, 3, 2]))
    state = decoder.step(torch.tensor([6, 7, 8, 2]), cache)
    targets = torch.tensor([[3, 6, 0], [3, 7, 0], [5, 8, 0], [4, 2, 0]])
    expected = decoder.states(after_start(targets), of_sentences(memory, torch.tensor([0, 0, 1, 1])))[:, 2]
    torch.testing.assert_close(state, expected, atol=1e-5, rtol=1e-4)

    cache.select_sentences(torch.tensor([1]))
    cache.reorder(torch.tensor([3, 2]))
    state = decoder.step(torch.tensor([4, 5]), cache)
    targets = torch.tensor([[4, 2, 4, 0], [5, 8, 5, 0]])
    expected = decoder.states(after_start(targets), of_sentences(memory, torch.tensor([1, 1])))[:, 3]
    torch.testing.assert_close(state, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@bodies
def test_rows_of_different_lengths(body: dict[str, object]) -> None:
    encoder, decoder = networks(**body)
    memory = encoder(torch.tensor([[3, 4, 1]]))
    cache = decoder.start(memory, 1, 2, in_step=False)
    both = torch.tensor([True, True])
    decoder.step(torch.tensor([EOS, EOS]), cache, both)
    blank = ALPHABET.symbols.index(" ")
    decoder.step(torch.tensor([2, blank]), cache, torch.tensor([True, False]))  # only the first row reads
    state = decoder.step(torch.tensor([4, 5]), cache, both)
    expected = decoder.states(
        after_start(torch.tensor([[2, 4, 0], [5, 0, 0]])), of_sentences(memory, torch.tensor([0, 0]))
    )
    torch.testing.assert_close(state[0], expected[0, 2], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state[1], expected[1, 1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
@bodies
def test_padding_of_the_source_changes_nothing(body: dict[str, object]) -> None:
    encoder, decoder = networks(**body)
    target = torch.tensor([[2, 3, 4]])
    alone = decoder.states(after_start(target), encoder(torch.tensor([[3, 4, 1]])))
    padded = decoder.states(after_start(target), encoder(torch.tensor([[3, 4, 1, Subwords.pad, Subwords.pad]])))
    torch.testing.assert_close(alone, padded, atol=1e-6, rtol=1e-5)


@torch.no_grad()
@bodies
def test_a_state_has_read_what_is_before_it_and_nothing_else(body: dict[str, object]) -> None:
    encoder, decoder = networks(**body)
    memory = encoder(torch.tensor([[3, 4, 1]]))
    target = torch.randint(2, 9, (1, 20))
    states = decoder.states(after_start(target), memory)
    for place in range(20):
        other = target.clone()
        other[:, place:] = torch.randint(2, 9, (1, 20 - place))
        torch.testing.assert_close(decoder.states(after_start(other), memory)[:, : place + 1], states[:, : place + 1])
        other = target.clone()
        other[:, place] = (target[:, place] - 1) % 7 + 2  # another one of 2..8
        changed = (decoder.states(after_start(other), memory) - states).abs().sum(dim=-1) > 1e-6  # (1, T)
        assert changed[:, place + 1 :].all()


@torch.no_grad()
def test_middle_layers_run_once_a_word() -> None:
    encoder, decoder = networks(**WORDS)
    memory = encoder(torch.tensor([[3, 4, 1]]))
    lengths: list[int] = []
    decoder.decoder_layers()[1].register_forward_hook(lambda layer, inputs, output: lengths.append(output.shape[1]))
    decoder.states(after_start(torch.tensor([[*ALPHABET.encode("abc ab c").tolist(), EOS]])), memory)
    assert lengths == [3]  # before the first word, and after each blank


@torch.no_grad()
def test_a_plan_is_where_a_layer_looks_and_is_followed_with_a_weight_a_head() -> None:
    torch.manual_seed(0)
    config = NetworkConfig(width=8, heads=2, feedforward=16)
    planner, follower = (
        DecoderLayer(config, self_attention=False, follows_plan=follows).eval() for follows in (False, True)
    )
    states, x = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    memory = Memory(states, mask, torch.zeros(mask.shape, dtype=torch.int64))

    planned, looked = planner.looking(x, memory)
    torch.testing.assert_close(planned, planner(x, memory))
    assert looked is not None
    plan = in_logarithms(looked)
    torch.testing.assert_close(plan.exp().sum(dim=2), torch.full((2, 3), 1 + 5 * LEAST))
    torch.testing.assert_close(plan[1, :, 3:].exp(), torch.full((3, 2), LEAST))

    assert follower.plan_weight is not None
    follower.plan_weight.copy_(torch.tensor([0.0, 2.0]))
    attention = follower.cross_attention
    keys, values = attention.keys_values(states)
    logits = attention.split(attention.query(follower.cross_residual.enter(x))) @ keys.transpose(2, 3) / 2
    logits = logits + torch.stack([torch.zeros_like(plan), 2 * plan], dim=1)
    weights = logits.masked_fill(~mask[:, None, None, :], -math.inf).softmax(dim=3)
    crossed = x + attention.output((weights @ values).transpose(1, 2).flatten(2))
    expected = crossed + follower.feedforward(follower.feedforward_residual.norm(crossed))
    torch.testing.assert_close(follower(x, memory, plan), expected)
    following, followed = follower.looking(x, memory, plan)
    torch.testing.assert_close(following, expected)
    torch.testing.assert_close(followed, weights.mean(dim=1))
    assert planner.looking(x, None)[1] is None
