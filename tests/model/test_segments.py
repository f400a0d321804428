"""Segment scores against a literal restatement of Eq. 3, and the sum over all legal segments."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ssmt.lattice import NEG_INF
from ssmt.model.characters import _LSTMCell
from ssmt.model.copies import cut_into_units
from ssmt.model.segments import selected_log_probs
from ssmt.model.ssmt import SSMT
from ssmt.text.alphabet import Alphabet
from ssmt.text.lexicon import ABSENT
from tests.literal import LiteralModel
from tests.models import SOURCES, batch_of, legal_segments, random_model

VARIANTS = [
    pytest.param({}, id="default"),
    pytest.param({"proper": False}, id="improper"),
    pytest.param({"lexicon": False}, id="characters only"),
    pytest.param({"characters": False}, id="lexicon only"),
    pytest.param({"character_width": 10}, id="narrow LSTM"),
]
COPIES: dict[str, Any] = {"letters": "abdogs ", "copies": True}


def literal_log_prob(model: SSMT, state: Tensor, previous: int, segment: tuple[int, ...]) -> float:
    """log p(segment | state), written down from Eq. 3 with torch's own LSTM cell and no batching."""
    segments, alphabet = model.segments, model.vocabulary.alphabet
    embedding = model.character_embedding
    share = torch.sigmoid(segments.gate(state)).item() if segments.gate is not None else None
    p_char = p_lex = 0.0
    if segments.characters is not None:
        spelling = segments.characters
        width = spelling.start.out_features
        cell = nn.LSTMCell(embedding.shape[1], width)
        with torch.no_grad():
            cell.weight_ih.copy_(spelling.input.weight)
            cell.bias_ih.copy_(spelling.input.bias)
            cell.weight_hh.copy_(spelling.recurrent.weight)
            cell.bias_hh.zero_()
        hidden, memory = spelling.start(state), torch.zeros(width)
        log_p = 0.0
        for place, symbol in enumerate([*segment, alphabet.eom]):
            read = previous if place == 0 else segment[place - 1]
            hidden, memory = (x.squeeze(0) for x in cell(embedding[read][None], (hidden[None], memory[None])))
            logits = spelling.output(hidden).tolist()
            if not spelling.proper:
                possible = range(len(alphabet))
            elif place == 0:
                possible = [i for i in range(len(alphabet)) if i not in (alphabet.pad, alphabet.eom)]
            elif place == model.segments.longest or not alphabet.is_word[segment[place - 1]]:
                possible = [alphabet.eom]
            else:
                possible = [i for i in range(len(alphabet)) if alphabet.is_word[i] or i == alphabet.eom]
            log_p += logits[symbol] - math.log(sum(math.exp(logits[i]) for i in possible))
        p_char = math.exp(log_p)
    if segments.entries is not None and segment in segments.lexicon.entries:
        p_lex = F.softmax(segments.entries(state), dim=-1)[segments.lexicon.entries.index(segment)].item()
    if share is None:
        return math.log(p_char + p_lex) if p_char + p_lex else -math.inf
    return math.log(share * p_char + (1 - share) * p_lex)


def model_log_prob(model: SSMT, state: Tensor, previous: int, segment: tuple[int, ...]) -> float:
    """The same through the batched code: a target that begins with the segment."""
    T = len(segment)
    states = torch.randn(1, T, state.shape[0])
    states[0, 0] = state
    before = torch.tensor([[previous, *segment[:-1]]])
    scores = model.segments(torch.tensor([segment]), torch.tensor([T]), before, states, model.character_embedding)
    return scores[0, 0, T - 1].item()


@torch.no_grad()
@pytest.mark.parametrize("network", VARIANTS)
def test_scores_are_those_of_equation_3(network: dict[str, object]) -> None:
    model = random_model(**network)
    alphabet = model.vocabulary.alphabet
    for number, segment in enumerate(legal_segments(alphabet, model.segments.longest)):
        state = torch.randn(16, generator=torch.Generator().manual_seed(number))
        previous = number % 3 + 4
        expected = literal_log_prob(model, state, previous, segment)
        found = model_log_prob(model, state, previous, segment)
        if expected == -math.inf:
            assert found <= NEG_INF / 2
        else:
            assert found == pytest.approx(expected, abs=2e-4)


@torch.no_grad()
@pytest.mark.parametrize("longest", [1, 2, 4])
@pytest.mark.parametrize("parts", [{}, {"lexicon": False}, {"characters": False}])
def test_proper_segments_sum_to_one(longest: int, parts: dict[str, bool]) -> None:
    model = random_model(longest=longest, entries=[s for s in ("ab", "ba", "aab") if len(s) <= longest], **parts)
    state = torch.randn(16, generator=torch.Generator().manual_seed(7))
    total = sum(
        math.exp(model_log_prob(model, state, 4, segment))
        for segment in legal_segments(model.vocabulary.alphabet, longest)
    )
    assert total == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("source", [*SOURCES, ""])
@pytest.mark.parametrize("longest", [1, 2, 3])
def test_segments_with_copies_sum_to_one(source: str, longest: int) -> None:
    entries = [entry for entry in ("ab", "ba", "aab") if len(entry) <= longest]
    model = random_model(longest=longest, entries=entries, **COPIES)
    literal = LiteralModel(model, source)
    units = model.units(literal.memory)
    state = literal.state(())
    total = 0.0
    for segment in legal_segments(model.vocabulary.alphabet, longest):
        targets = torch.tensor([segment]), torch.tensor([len(segment)])
        before = torch.tensor([[model.vocabulary.start, *segment[:-1]]])
        states = state.expand(1, len(segment), -1)
        scores = model.segments(*targets, before, states, model.character_embedding, units)
        found = math.exp(scores[0, 0, -1 if longest == 1 else len(segment) - 1])
        assert found == pytest.approx(literal.end((), segment), abs=1e-6)
        total += found
    assert total == pytest.approx(1.0, abs=1e-5)


def test_what_can_be_copied_is_cut_as_segments_are() -> None:
    alphabet = Alphabet.of_characters("abcd-12 ")

    def cut(text: str) -> list[str]:
        return [alphabet.decode(unit) for unit in cut_into_units(text, alphabet, 3)]

    assert cut("abcdab") == ["abc", "dab"]
    assert cut("2-ab1") == ["2", "-", "ab", "1"]
    assert cut("abx") == cut("a b") == cut("") == []


@torch.no_grad()
def test_improper_segments_lose_mass() -> None:
    model = random_model(proper=False)
    state = torch.randn(16, generator=torch.Generator().manual_seed(7))
    segments = legal_segments(model.vocabulary.alphabet, 3)
    assert sum(math.exp(model_log_prob(model, state, 4, segment)) for segment in segments) < 0.99


@torch.no_grad()
def test_illegal_segments_have_no_score() -> None:
    model = random_model()
    batch = batch_of(model, [("a cat", "ab aba"), ("cats run", "b")])
    scores = model.lattice(batch)
    legal = [2, 1, 1, 3, 2, 1, 1]  # "ab aba</s>" with L = 3
    for place, longest in enumerate(legal):
        assert (scores[0, place, :longest] > NEG_INF / 2).all()
        assert (scores[0, place, longest:] < NEG_INF / 2).all()
    assert (scores[1, 2:] < NEG_INF / 2).all()


def test_selected_log_probs_and_their_gradients_equal_the_plain_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssmt.model.segments.CHUNK_ELEMENTS", 30)  # several chunks
    torch.manual_seed(0)
    states = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(-1, 7, (11, 4))

    def plain() -> Tensor:
        chosen = F.log_softmax(states @ weight.T + bias, dim=1).gather(1, ids.clamp(min=0))
        return torch.where(ids == ABSENT, NEG_INF, chosen)

    found = selected_log_probs(states, weight, bias, ids)
    torch.testing.assert_close(found, plain())
    upstream = torch.randn(11, 4, dtype=torch.float64)
    ours = torch.autograd.grad((found * upstream)[ids != ABSENT].sum(), (states, weight, bias))
    theirs = torch.autograd.grad((plain() * upstream)[ids != ABSENT].sum(), (states, weight, bias))
    torch.testing.assert_close(ours, theirs)


def test_the_lstm_cell_has_the_right_derivative() -> None:
    torch.manual_seed(0)
    gates = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    cell = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_LSTMCell.apply, (gates, cell))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_spelling_again_for_the_gradient_is_spelling_the_same(monkeypatch: pytest.MonkeyPatch, dropout: float) -> None:
    model = random_model(dropout=dropout).train()
    batch = batch_of(model, [("the cat sees a dog", "abba ab aaabab b"), ("a dog runs", "ba abab")])

    def gradients() -> list[Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        model(batch).minimised.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    whole = gradients()
    monkeypatch.setattr("ssmt.model.characters.STARTS_AT_A_TIME", 5)
    spelt_again = gradients()
    monkeypatch.setattr("ssmt.model.characters.checkpoint", lambda spell, *parts, use_reentrant: spell(*parts))
    torch.testing.assert_close(spelt_again, gradients())
    if dropout == 0:  # parts draw other numbers
        torch.testing.assert_close(spelt_again, whole, rtol=1e-4, atol=1e-5)
