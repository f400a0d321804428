"""n-gram inputs, the lexicon by first character, and the body whose word layers come first: against plain formulas,
enumeration, and one another."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ssmt.model.classes import LexiconClasses
from ssmt.model.ngrams import by_end
from ssmt.model.transformer import LEAST
from ssmt.model.words import WordDecoder
from ssmt.text.lexicon import ABSENT
from tests.model.test_segments import model_log_prob
from tests.models import SOURCES, batch_of, legal_segments, random_model, translator

NGRAMS, CLASSES = {"ngram_inputs": True}, {"lexicon_by_first_character": True}
FIRST = {"decoder_layers": 3, "character_layers": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "ngrams": NGRAMS,
    "classes": CLASSES,
    "classes alone": CLASSES | {"characters": False},
    "words, ngrams": NGRAMS | {"decoder_layers": 4, "character_layers": 2},
    "words first": NGRAMS | CLASSES | FIRST,
    "words first, no attention": NGRAMS | CLASSES | FIRST | {"character_attention": False, "character_feedforward": 8},
    "words first, no ngrams": FIRST | {"character_attention": False},
    "copies": {"copies": True},
    "coverage": {"decoder_layers": 3, "coverage": True},
    "words first, coverage": NGRAMS | CLASSES | FIRST | {"character_attention": False, "coverage": True},
}
PAIRS = [
    ("the cat sees a dog", "ab ba aab"),
    ("cats run", "b"),
    ("run dog", ""),
    ("a dog runs", "aaabbb ba"),
    ("a", " b "),
]
every_variant = pytest.mark.parametrize("network", VARIANTS.values(), ids=VARIANTS)


@torch.no_grad()
def test_ngram_inputs_are_the_entries_that_end_before_a_position() -> None:
    model = random_model(**NGRAMS)
    batch = batch_of(model, PAIRS)
    lexicon, ngrams = model.vocabulary.lexicon, model.decoder.embedding.ngrams
    assert ngrams is not None
    found = ngrams(batch.previous)
    for b, (_, text) in enumerate(PAIRS):
        ids = [*model.vocabulary.alphabet.encode(text)]
        for j in range(len(ids) + 1):
            ending = [tuple(ids[j - n : j]) for n in (2, 3) if j >= n]
            entries = [lexicon.entries.index(gram) for gram in ending if gram in lexicon.entries]
            torch.testing.assert_close(found[b, j], ngrams.entries.weight[entries].sum(dim=0))


def test_segments_by_end() -> None:
    ids = torch.tensor([[[1, 2], [3, 4], [5, ABSENT]]])
    assert by_end(ids).tolist() == [[[1, ABSENT], [3, 2], [5, 4]]]


@torch.no_grad()
@pytest.mark.parametrize("longest", [1, 2, 4])
@pytest.mark.parametrize("parts", [{}, {"characters": False}])
def test_classes_and_entries_sum_to_one(longest: int, parts: dict[str, bool]) -> None:
    entries = [s for s in ("ab", "ba", "aab") if len(s) <= longest]
    model = random_model(longest=longest, entries=entries, **parts, **CLASSES)
    state = torch.randn(16, generator=torch.Generator().manual_seed(7))
    segments = legal_segments(model.vocabulary.alphabet, longest)
    assert sum(math.exp(model_log_prob(model, state, 4, one)) for one in segments) == pytest.approx(1.0, abs=1e-5)
    assert model.segments.entry_log_probs(state[None]).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_log_probs_by_class_and_their_gradients_equal_the_plain_formula() -> None:
    lexicon = random_model().vocabulary.lexicon
    torch.manual_seed(0)
    classes = LexiconClasses(lexicon, 5).double()
    V, first_of = len(lexicon), torch.tensor([entry[0] for entry in lexicon.entries])
    states, weight, bias = (torch.randn(*n, dtype=torch.float64, requires_grad=True) for n in ((40, 5), (V, 5), (V,)))
    ids = torch.randint(V, (40, 1)).repeat(1, 3)
    first = first_of[ids[:, 0]]
    for row, column in itertools.product(range(40), (1, 2)):
        of_class = (first_of == first[row]).nonzero().squeeze(1).tolist()
        ids[row, column] = [*of_class, ABSENT][(row * column) % (len(of_class) + 1)]
    gradient = torch.randn(40, 3, dtype=torch.float64).masked_fill(ids == ABSENT, 0.0)

    logits = states @ weight.T + bias
    same = first_of == first_of.unsqueeze(1)  # (V, V)
    normaliser = torch.stack([logits.masked_fill(~same[v], -math.inf).logsumexp(dim=1) for v in range(V)], dim=1)
    possible = torch.zeros(len(lexicon.alphabet), dtype=torch.bool).index_fill_(0, first_of, True)
    class_logits = classes.logits(states).masked_fill(~possible, -math.inf)
    plain = F.log_softmax(class_logits, dim=1)[:, first_of] + logits - normaliser  # (n, V)
    torch.testing.assert_close(classes.log_probs(states, logits), plain)
    expected = plain.gather(1, ids.clamp(min=0)).masked_fill(ids == ABSENT, 0.0)
    found = classes.selected_log_probs(states, weight, bias, first, ids).masked_fill(ids == ABSENT, 0.0)
    torch.testing.assert_close(found, expected)
    parameters = [states, weight, bias, *classes.parameters()]
    for one, other in zip(
        torch.autograd.grad((found * gradient).sum(), parameters),
        torch.autograd.grad((expected * gradient).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@torch.no_grad()
@every_variant
def test_a_score_does_not_depend_on_the_batch(network: dict[str, Any]) -> None:
    model = random_model(**network)
    together = model.log_probability(batch_of(model, PAIRS))
    for pair, expected in zip(PAIRS, together.tolist(), strict=True):
        assert model.log_probability(batch_of(model, [pair])).item() == pytest.approx(expected, abs=1e-4)


@every_variant
def test_a_large_beam_finds_the_best_string(network: dict[str, Any]) -> None:
    """Against the enumeration of all strings of at most five characters over two letters and the blank."""
    model = translator(random_model(letters="ab ", entries=("ab", "bab", "ba"), **network))
    strings = ["".join(letters) for n in range(6) for letters in itertools.product("ab ", repeat=n)]
    scores = model.score([SOURCES[0]] * len(strings), strings)
    ranked = sorted(zip(scores, strings, strict=True), reverse=True)
    by_probability = {"length_penalty": 0, "repetition_penalty": 0}
    found = model.n_best_translations(SOURCES[:1], n_best=5, beam=243, max_length=5, **by_probability)[0]
    assert [one.text for one in found] == [text for _, text in ranked[:5]]
    assert [one.score for one in found] == pytest.approx([score for score, _ in ranked[:5]], abs=1e-4)


@every_variant
@pytest.mark.parametrize("search", ["marginal", "dynamic", "mixture", "sample"])
def test_searches_do_not_depend_on_the_batch(network: dict[str, Any], search: Any) -> None:
    model = translator(random_model(seed=5, **network))
    options: dict[str, Any] = {"search": search, "beam": 3, "n_best": 2, "max_length": 12}
    texts = [f"{one} {other}" for one, other in itertools.product(SOURCES, SOURCES)][:20]
    together = model.translate(texts, **options, batch_characters=4000)
    alone = model.translate(texts, **options, batch_characters=1)
    assert alone.texts == together.texts
    for few, others in zip(alone.scores, together.scores, strict=True):
        assert few == pytest.approx(others, abs=1e-4)


@every_variant
def test_training_lowers_the_loss_and_reaches_every_parameter(network: dict[str, Any]) -> None:
    model = random_model(**{"dropout": 0.1, **network}).train()
    batch = batch_of(model, PAIRS)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(25):
        loss = model(batch).minimised
        optimiser.zero_grad()
        loss.backward()
        missing = [name for name, p in model.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
        assert not missing
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


# Guidance

OF_BODIES = ("ngrams", "words, ngrams", "words first", "words first, no attention", "coverage", "words first, coverage")
BODIES = {name: VARIANTS[name] for name in OF_BODIES}
every_body = pytest.mark.parametrize("network", BODIES.values(), ids=BODIES)


@torch.no_grad()
@every_body
def test_a_plan_is_attention_to_the_source_that_knows_no_more_than_states(network: dict[str, Any]) -> None:
    model = random_model(**network)
    batch = batch_of(model, PAIRS)
    memory = model.encode(batch.source)
    assert memory is not None
    states, plans, read = model.decoder.planned_states(batch.previous, memory)
    assert len(plans) == (1 if type(model.decoder) is WordDecoder else 2)  # the last layer's, or those of all that plan
    assert (read is not None) == network.get("coverage", False)
    torch.testing.assert_close(states, model.decoder.states(batch.previous, memory))
    cut = batch.previous[:, :4]
    of_cut = model.decoder.planned_states(cut, memory).plans
    for plan, shorter in zip(plans, of_cut, strict=True):
        attention = plan.exp() - LEAST
        torch.testing.assert_close(attention.sum(dim=2), torch.ones(batch.target.shape))
        assert attention.masked_select(~memory.mask.unsqueeze(1)).abs().max() < 1e-6
        torch.testing.assert_close(shorter, plan[:, :4])
    without = model.decoder.planned_states(cut, None)
    assert without.plans == []
    assert without.read is None


@every_body
def test_guidance_is_the_cross_entropy_of_attention_and_alignment(network: dict[str, Any]) -> None:
    model = random_model(**network).train()
    batch = batch_of(model, PAIRS)
    assert batch.source is not None
    memory = model.encode(batch.source)
    plain = model(batch)
    assert torch.equal(plain.minimised, plain.nats)
    alignment = torch.rand(*batch.target.shape, batch.source.shape[1], generator=torch.Generator().manual_seed(1))
    for row, length in enumerate(batch.target_lengths.tolist()):
        alignment[row, length:] = 0.0
    model.alignment_weight = 0.3
    guided = model(replace(batch, alignment=alignment))
    _, plans, read = model.decoder.planned_states(batch.previous, memory)
    expected = 0.0
    for plan in [*plans, *([] if read is None else [read])]:
        for row, length in enumerate(batch.target_lengths.tolist()):
            for place in range(length - (plan is read)):
                expected -= float(alignment[row, place] @ plan[row, place].detach())
    torch.testing.assert_close(guided.nats, plain.nats)
    assert float(guided.minimised - guided.nats) == pytest.approx(0.3 * expected, rel=1e-3)  # a symbol is a character


@torch.no_grad()
@every_body
def test_guidance_does_not_depend_on_the_batch(network: dict[str, Any]) -> None:
    model = random_model(**network)

    def cost(pairs: list[tuple[str, str]]) -> float:
        """With an alignment to the first subword alone, `</s>` included."""
        batch = batch_of(model, pairs)
        assert batch.source is not None
        alignment = torch.zeros(*batch.target.shape, batch.source.shape[1])
        alignment[:, :, 0] = batch.target != model.vocabulary.target_pad
        _, cost = model.decoded(replace(batch, alignment=alignment), model.encode(batch.source))
        return float(cost)

    model.alignment_weight = 1.0
    assert cost(PAIRS) == pytest.approx(sum(cost([pair]) for pair in PAIRS), rel=1e-4)
