"""Marginal decoding: exact prefix masses, exact scores, the true best string, whatever the batch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from ssmt.model.ssmt import SSMT
from ssmt.search.job import Request
from ssmt.search.marginal import MarginalScorer
from tests.literal import LiteralModel
from tests.models import SOURCES, batch_of, random_model, translator

BY_PROBABILITY: dict[str, Any] = {"length_penalty": 0, "repetition_penalty": 0}
VARIANTS = [
    pytest.param({}, id="default"),
    pytest.param({"proper": False}, id="improper"),
    pytest.param({"lexicon": False}, id="characters only"),
    pytest.param({"characters": False}, id="lexicon only"),
    pytest.param({"decoder_layers": 4, "character_layers": 2}, id="layers over words"),
    pytest.param({"ngram_inputs": True}, id="n-gram inputs"),
    pytest.param({"lexicon_by_first_character": True}, id="lexicon by first character"),
    pytest.param(
        {"ngram_inputs": True, "lexicon_by_first_character": True, "characters": False}
        | {"decoder_layers": 3, "character_layers": 1, "character_attention": False},
        id="words first",
    ),
    pytest.param({"letters": "abdogs ", "copies": True}, id="copies"),
    pytest.param({"letters": "abdogs ", "copies": True, "longest": 2, "lexicon": False}, id="copies, L=2"),
    pytest.param(
        {"letters": "abdogs ", "copies": True, "ngram_inputs": True, "lexicon_by_first_character": True}
        | {"characters": False, "decoder_layers": 3, "character_layers": 1, "character_attention": False},
        id="copies, words first",
    ),
    pytest.param({"coverage": True}, id="coverage"),
    pytest.param(
        {
            "letters": "abdogs ",
            "copies": True,
            "ngram_inputs": True,
            "lexicon_by_first_character": True,
            "coverage": True,
        }
        | {"characters": False, "decoder_layers": 3, "character_layers": 1, "character_attention": False},
        id="coverage, copies, words first",
    ),
    pytest.param({"longest": 1, "entries": (), "ngram_inputs": True}, id="L=1"),
    pytest.param({"longest": 5, "entries": ("abab", "bb", "aaaaa")}, id="L=5"),
]


@torch.inference_mode()
@pytest.mark.parametrize("variant", VARIANTS)
def test_masses_are_the_probabilities_of_prefixes(variant: dict[str, Any]) -> None:
    model = random_model(**variant)
    source, text = SOURCES[0], "abba ab aaabab b" + " a dog dodogs" * ("d" in variant.get("letters", ""))
    literal = LiteralModel(model, source)
    memory = model.encode(torch.tensor(model.vocabulary.encode_sources([source])))
    alphabet = model.vocabulary.alphabet
    scorer = MarginalScorer(model, memory, 1, Request.of_lengths(model.vocabulary.start, torch.tensor([1000])))
    prefix: tuple[int, ...] = ()
    for character in [*alphabet.encode(text).tolist(), None]:
        masses = scorer.extensions()[0]
        by_length = scorer.masses_by_length().sum(dim=0)[0].log() + scorer.total
        torch.testing.assert_close(by_length[literal.generable()], masses[literal.generable()])
        for id in literal.generable():
            extended = (*prefix, id)
            expected = literal.alpha(extended)[-1] if id == alphabet.eos else literal.prefix_mass(extended)
            assert masses[id].item() == pytest.approx(math.log(expected), abs=1e-4)
        if character is not None:
            scorer.advance(torch.tensor([0]), torch.tensor([character]))
            prefix = (*prefix, character)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("beam", [1, 4])
def test_the_score_is_the_score_of_the_output(variant: dict[str, Any], beam: int) -> None:
    model = translator(random_model(**variant))
    texts, segments, scores = model.translate(SOURCES, beam=beam)
    assert all("".join(few) == text for few, text in zip(segments, texts, strict=True))
    assert scores == pytest.approx(model.score(SOURCES, texts), abs=1e-4)


def test_a_large_alphabet_has_no_table_of_its_trie(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = translator(random_model(ngram_inputs=True)).translate(SOURCES)
    monkeypatch.setattr("ssmt.text.lexicon.DENSE_TRIE_CELLS", 0)
    found = translator(random_model(ngram_inputs=True)).translate(SOURCES)
    assert found.texts == expected.texts
    assert found.scores == pytest.approx(expected.scores, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_beam_finds_the_best_string(seed: int) -> None:
    """Against the enumeration of all strings of at most six characters over three letters."""
    model = translator(random_model(letters="abc", seed=seed, entries=("ab", "cab", "bc")))
    strings = ["".join(letters) for n in range(7) for letters in itertools.product("abc", repeat=n)]
    source = SOURCES[seed]
    scores = model.score([source] * len(strings), strings)
    ranked = sorted(zip(scores, strings, strict=True), reverse=True)
    found = model.n_best_translations([source], n_best=5, beam=729, max_length=6, **BY_PROBABILITY)[0]
    assert [one.text for one in found] == [text for _, text in ranked[:5]]
    assert [one.score for one in found] == pytest.approx([score for score, _ in ranked[:5]], abs=1e-4)


def test_n_best_are_distinct_and_sorted() -> None:
    found = translator(random_model()).n_best_translations(SOURCES, n_best=4, beam=4, **BY_PROBABILITY)
    for few in found:
        assert len({one.text for one in few}) == len(few) == 4
        assert [one.score for one in few] == sorted((one.score for one in few), reverse=True)


def test_the_score_of_a_long_path_is_the_sum_of_its_segments_to_the_last_digit() -> None:
    network = random_model(seed=5)
    text = "ab ba aab " * 60
    (found,) = translator(network).n_best_segmentations(["a dog"], [text], 1)[0]
    batch = batch_of(network, [("a dog", text)])
    with torch.no_grad():
        scores = network.lattice(batch)[0]
    position, total = 0, 0.0
    for segment in [*found.segments, "."]:  # `</s>` last
        total += float(scores[position, len(segment) - 1])
        position += len(segment)
    assert found.score == pytest.approx(total, abs=1e-9)


def test_segments_are_the_best_path_of_the_string() -> None:
    model = translator(random_model())
    texts, segments, _ = model.translate(SOURCES)
    assert segments == model.segment(SOURCES, texts)


def silence_unknown(network: SSMT, bias: float = -50.0) -> None:
    unk = network.vocabulary.alphabet.unk
    with torch.no_grad():
        network.segments.characters.output.bias[unk] = bias
        network.segments.entries.bias[network.segments.lexicon.entries.index((unk,))] = bias


def test_unknown_characters_are_never_generated() -> None:
    network = random_model()
    silence_unknown(network, bias=50.0)  # on the contrary: by far the most probable symbol
    for search in ("marginal", "dynamic", "mixture", "sample"):
        texts = translator(network).translate(SOURCES, search=search, max_length=8).texts
        assert all(set(text) <= set("ab ") for text in texts)


@torch.inference_mode()
def test_samples_follow_the_distribution_over_strings() -> None:
    network = random_model(letters="ab", entries=("ab",), sharpness=1.5)
    silence_unknown(network)  # it is never generated, so its share would go to the others
    model = translator(network)
    source, n = SOURCES[1], 4000
    found = model.n_best_translations([source], n_best=n, search="sample", max_length=60)[0]
    for text in ("", "a", "b", "ab"):
        p = math.exp(model.score([source], [text])[0])
        share = sum(one.text == text for one in found) / n
        assert share == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n) + 1e-3)
    few = [one for one in found if len(one.text) < 60][:50]
    assert [one.score for one in few] == pytest.approx(
        model.score([source] * len(few), [o.text for o in few]), abs=1e-4
    )


def test_low_temperature_samples_are_greedy() -> None:
    model = translator(random_model())
    greedy = model.translate(SOURCES, beam=1, max_length=15, **BY_PROBABILITY).texts
    assert model.translate(SOURCES, search="sample", temperature=0.001, max_length=15).texts == greedy
