"""The Transformer over subwords: its losses, its tied embeddings, and the marginal of DPE's segmenter."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ssmt.config import Config, changed
from ssmt.directory import load_model, save_description, save_weights
from ssmt.model.copies import recent_symbols
from ssmt.model.subword import SHARED, SubwordTransformer
from ssmt.text.batch import Batch, make_batch
from ssmt.text.pieces import Pieces
from ssmt.text.subwords import MARK, TargetSubwords
from ssmt.text.vocabulary import SubwordVocabulary
from tests.models import SMALL, SOURCES, batch_of, random_model, source_subwords, stir_copies, stir_coverage

PAIRS = [("the cat sees a dog", "dogs see"), ("a cat", "a  cat "), ("run dog", "the dog sees the cats")]


def shared_vocabulary() -> SubwordVocabulary:
    subwords = TargetSubwords.train(SOURCES * 5, 40, warn=lambda message: None)
    return SubwordVocabulary(subwords, subwords)


def subword_model(vocabulary: SubwordVocabulary, smoothing: float = 0.1, **network: Any) -> SubwordTransformer:
    torch.manual_seed(1)
    settings = {"model": "bpe", "network": {**SMALL, **network}, "training": {"label_smoothing": smoothing}}
    model = SubwordTransformer(vocabulary, changed(Config(), settings, "test"))
    stir_coverage(model)
    return model


def encoded(vocabulary: SubwordVocabulary) -> Batch:
    sources, targets = zip(*PAIRS, strict=True)
    ids = vocabulary.encode_sources(sources), vocabulary.encode_targets(targets)
    return make_batch(*ids, vocabulary.batch_symbols)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_losses_are_torchs_cross_entropy(smoothing: float) -> None:
    vocabulary = shared_vocabulary()
    model, batch = subword_model(vocabulary, smoothing), encoded(vocabulary)
    logits = model.logits(model.states(batch)).transpose(1, 2)
    options = {"ignore_index": vocabulary.target_pad, "reduction": "sum"}
    losses = model(batch)
    expected = F.cross_entropy(logits, batch.target, label_smoothing=smoothing, **options)  # type: ignore[arg-type]
    nats = F.cross_entropy(logits, batch.target, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(torch.stack([losses.minimised, losses.nats]), torch.stack([expected, nats]))
    torch.testing.assert_close(model.log_probability(batch).sum(), -nats)


@torch.no_grad()
@pytest.mark.parametrize("shared", [True, False])
def test_copies_are_mixed_in(shared: bool) -> None:
    """log p of a target is the sum of what every subword has among all of them; smoothing is of what is not copied."""
    subwords = source_subwords()
    vocabulary = shared_vocabulary() if shared else SubwordVocabulary(subwords, Pieces.of_lines(["▁a ▁dog s"], 30))
    model, batch = subword_model(vocabulary, 0.5, copies=True).eval(), encoded(vocabulary)
    assert model.copies is not None
    stir_copies(model.copies)
    memory = model.encode(batch.source)
    states = model.states(batch)
    generated, units = F.log_softmax(model.logits(states), dim=-1), model.units(memory)
    assert units is not None
    log_probs = model.copies.mixed(generated, states, recent_symbols(batch.previous), units)
    torch.testing.assert_close(log_probs.logsumexp(dim=-1), torch.zeros(batch.target.shape))
    real = batch.target != vocabulary.target_pad
    chosen = log_probs.gather(2, batch.target.unsqueeze(-1)).squeeze(-1).masked_fill(~real, 0.0).sum(dim=1)
    torch.testing.assert_close(model.log_probability(batch).float(), chosen)
    assert (log_probs - generated).abs().max() > 0.1
    loss = model.train()(batch)
    flat = -generated.mean(dim=-1).masked_fill(~real, 0.0).sum()
    torch.testing.assert_close(loss.minimised, -0.5 * chosen.sum() + 0.5 * flat)


@pytest.mark.parametrize("network", [{}, {"copies": True}, {"coverage": True}], ids=str)
def test_padding_changes_nothing(network: dict[str, bool]) -> None:
    vocabulary = shared_vocabulary()
    model = subword_model(vocabulary, **network).eval()
    alone = [model.log_probability(batch_of(model, [pair])).item() for pair in PAIRS]  # type: ignore[arg-type]
    assert model.log_probability(encoded(vocabulary)).tolist() == pytest.approx(alone, abs=1e-5)


def test_one_embedding_for_both_languages_survives_saving(tmp_path: Path) -> None:
    vocabulary = shared_vocabulary()
    model, batch = subword_model(vocabulary).eval(), encoded(vocabulary)
    assert SHARED not in model.state_dict()
    config = changed(Config(), {"model": "bpe", "network": SMALL}, "test")
    save_description(tmp_path, vocabulary, config)
    save_weights(tmp_path, model.state_dict())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors", "source.model"]
    loaded, _ = load_model(tmp_path, torch.device("cpu"))
    assert isinstance(loaded, SubwordTransformer)
    assert loaded.encoder.embedding.tokens.weight is loaded.decoder.embedding.tokens.weight
    assert torch.equal(loaded.log_probability(batch), model.log_probability(batch))


@pytest.mark.parametrize("kind", ["separate", "pieces"])
def test_vocabularies_of_their_own_survive_saving(tmp_path: Path, kind: str) -> None:
    pieces = Pieces.of_lines(["▁do gs ▁see", "▁a ▁ ▁c at"], 30)
    target = TargetSubwords.train(SOURCES, 30, warn=lambda message: None) if kind == "separate" else pieces
    vocabulary = SubwordVocabulary(source_subwords(), target)
    vocabulary.save(tmp_path)
    loaded = SubwordVocabulary.load(tmp_path)
    assert not loaded.shared
    assert loaded.target.pieces == target.pieces
    assert loaded.source.encode(SOURCES) == vocabulary.source.encode(SOURCES)
    assert subword_model(loaded).encoder.embedding.tokens.weight.shape[0] == len(vocabulary.source)


def test_the_marginal_of_dpe_is_the_sum_over_all_segmentations() -> None:
    """Characters off, a BPE vocabulary as lexicon: p(text) = Σ over its segmentations of Π softmax entries."""
    texts = ["abab ab", "aab", "ba", "b a b"]
    subwords = TargetSubwords.train([*texts, "ab aab"] * 4, 12, warn=lambda message: None)
    entries = {piece.removeprefix(MARK) for piece in subwords.pieces[3:]} - {"", MARK}
    assert any(len(entry) > 1 for entry in entries)
    model = random_model("ab ", longest=4, entries=[entry for entry in entries if len(entry) <= 4], characters=False)
    alphabet = model.vocabulary.alphabet
    assert model.segments.entries is not None
    for text in texts:
        batch = batch_of(model, [("a cat", text)])
        symbols = (*alphabet.encode(text).tolist(), alphabet.eos)
        states = model.states(batch)[0]
        distributions = torch.softmax(model.segments.entries(states).double(), dim=-1).tolist()
        total = 0.0
        for cuts in itertools.product([False, True], repeat=len(symbols) - 1):
            bounds = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), len(symbols)]
            spans = list(itertools.pairwise(bounds))
            segments = [symbols[start:end] for start, end in spans]
            if any(segment not in model.segments.lexicon.entries for segment in segments):
                continue
            ids = [model.segments.lexicon.entries.index(segment) for segment in segments]
            total += math.prod(distributions[start][id] for (start, _), id in zip(spans, ids, strict=True))
        assert model.log_probability(batch).item() == pytest.approx(math.log(total), abs=1e-4)


def test_guidance_weighs_a_subword_by_characters() -> None:
    """Subwords are fewer than characters, and what guides them weighs as much."""
    model = subword_model(shared_vocabulary()).eval()
    batch = replace(encoded(model.vocabulary), characters=35)
    assert batch.source is not None
    alignment = torch.zeros(*batch.target.shape, batch.source.shape[1])
    alignment[0, 1, 2] = 1.0
    plain, model.alignment_weight = model(batch), 0.5
    guided = model(replace(batch, alignment=alignment))
    _, plans, _ = model.decoder.planned_states(batch.previous, model.encode(batch.source))
    torch.testing.assert_close(guided.nats, plain.nats)
    assert len(plans) == 2  # one of each layer
    expected = -0.5 * float(sum(plan[0, 1, 2] for plan in plans)) * 35 / int(batch.target_lengths.sum())
    assert float(guided.minimised - plain.minimised) == pytest.approx(expected, rel=1e-3)
