"""An imported model against the original code's own numbers, which lie beside the repository (see the README there)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ssmt import Translator, lattice
from ssmt.interop.fairseq import import_fairseq
from ssmt.lattice import NEG_INF
from ssmt.model.ssmt import SSMT
from ssmt.search.decode import search_batch
from ssmt.search.job import Request
from ssmt.search.marginal import MarginalScorer
from ssmt.search.open_segments import SegmentSearch
from ssmt.search.options import SearchOptions
from ssmt.search.table import SEARCHES
from ssmt.text.batch import Batch, make_batch, padded
from ssmt.text.lexicon import ABSENT

ORACLE = Path(__file__).resolve().parents[2].parent / "shared" / "oracle"
pytestmark = pytest.mark.skipif(not ORACLE.is_dir(), reason="the original's numbers are not beside the repository")

MASKED = -9e5  # the original writes about -1e6 where a segment is impossible
TOLERANCE = 1e-4
NAMES: dict[str, Any] = {"seg": "segments", "char": "characters", "none": "none"}


@cache
def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ORACLE / name).read_text(encoding="utf-8").splitlines()]


def cases() -> list[dict[str, Any]]:
    return records("cases.jsonl")


def detailed_cases() -> list[dict[str, Any]]:
    return [case for case in cases() if case.get("seg_logp")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("imported") / "model"
    names = ("checkpoint_best.pt", "dict.en.txt", "char_dict.zu.txt", "lex_dict.zu.txt", "bpe.codes")
    import_fairseq(*(ORACLE / name for name in names), output)
    return output


@pytest.fixture(scope="module")
def translator(directory: Path) -> Translator:
    return Translator.load(directory, "cpu")


@pytest.fixture(scope="module")
def model(translator: Translator) -> SSMT:
    return translator.model


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def batch_of(model: SSMT, *chosen: dict[str, Any]) -> Batch:
    sources, targets = [case["source_ids"] for case in chosen], [case["target_ids"] for case in chosen]
    return make_batch(sources, targets, model.vocabulary.batch_symbols)


def test_symbols_are_in_the_originals_order(model: SSMT) -> None:
    symbols = json.loads((ORACLE / "vocab.json").read_text(encoding="utf-8"))
    assert list(model.vocabulary.alphabet.symbols) == symbols["chars"]
    assert sorted(model.vocabulary.lexicon.texts) == sorted(symbols["lexicon"])


def test_source_ids_from_raw_and_from_split_text(model: SSMT) -> None:
    source, ids = model.vocabulary.source, [case["source_ids"] for case in cases()]
    assert source.encode([case["source_raw"] for case in cases()]) == ids
    assert source.encode_split([" ".join(case["source_bpe"]) for case in cases()]) == ids


def test_codes_split_the_whole_corpus_as_it_was_split(model: SSMT) -> None:
    raw, split = (
        (ORACLE / "corpus" / name).read_text(encoding="utf-8").splitlines() for name in ("valid.raw.en", "valid.en")
    )
    assert model.vocabulary.source.encode(raw) == model.vocabulary.source.encode_split(split)


def test_forward_table_and_total(model: SSMT) -> None:
    for case in cases():
        batch = batch_of(model, case)
        table = lattice.forward_table(model.lattice(batch))[0].tolist()
        assert table == pytest.approx(case["log_alpha"], abs=TOLERANCE), case["index"]
        assert table[-1] == pytest.approx(case["loglik"], abs=TOLERANCE), case["index"]


def test_total_whatever_the_batch(model: SSMT) -> None:
    found = model.log_probability(batch_of(model, *cases())).tolist()
    assert found == pytest.approx([case["loglik"] for case in cases()], abs=TOLERANCE)


def test_gates(model: SSMT) -> None:
    for case in cases():
        batch = batch_of(model, case)
        log_gate, _ = model.segments.log_gates(model.states(batch)[0])
        expected = case["log_char_gate"][: len(log_gate)]
        assert log_gate.tolist() == pytest.approx(expected, abs=TOLERANCE), case["index"]


def test_states_of_encoder_and_decoder(model: SSMT) -> None:
    details = np.load(ORACLE / "details.npz")
    for case in detailed_cases():
        batch = batch_of(model, case)
        memory = model.encode(batch.source)
        states = model.decoder.states(batch.previous, memory)[0].numpy()
        assert memory.states[0].numpy() == pytest.approx(details[f"{case['index']}/encoder_out"], abs=TOLERANCE)
        assert states == pytest.approx(details[f"{case['index']}/history"][: len(states)], abs=TOLERANCE)


def test_segment_scores(model: SSMT) -> None:
    for case in detailed_cases():
        scores = model.lattice(batch_of(model, case))[0].tolist()
        for start, length, expected in case["seg_logp"]:
            found = scores[start][length - 1]
            if expected < MASKED:
                assert found == pytest.approx(NEG_INF)
            else:
                assert found == pytest.approx(expected, abs=TOLERANCE), (case["index"], start, length)


def test_lexicon_scores(model: SSMT) -> None:
    for case in detailed_cases():
        batch = batch_of(model, case)
        log_probs = model.segments.entry_log_probs(model.states(batch)[0])
        within = (batch.target_lengths - torch.arange(batch.target.shape[1])).clamp(max=model.segments.longest)
        entries = model.vocabulary.lexicon.trie.ids_of_segments(batch.target[0], within, model.segments.longest)
        for start, length, expected in case["lex_logp"]:
            entry = int(entries[start, length - 1])
            assert (entry == ABSENT) == (expected < MASKED)
            if entry != ABSENT:
                assert float(log_probs[start, entry]) == pytest.approx(expected, abs=TOLERANCE)


def test_best_segmentations(model: SSMT) -> None:
    reliable = [
        case for case in cases() if case["viterbi_reliable"]
    ]  # the original is wrong for targets shorter than L
    assert len(reliable) == 55
    batch = batch_of(model, *reliable)
    totals, ends = lattice.best_path(model.lattice(batch), batch.target_lengths)
    for case, total, row in zip(reliable, totals.tolist(), ends, strict=True):
        assert row.nonzero().squeeze(-1).tolist() == case["viterbi_ends"], case["index"]
        assert total == pytest.approx(case["viterbi_sum"], abs=TOLERANCE)


def test_where_the_originals_segmentation_is_wrong_ours_is_better(model: SSMT) -> None:
    for case in (case for case in cases() if not case["viterbi_reliable"]):
        batch = batch_of(model, case)
        scores = model.lattice(batch)
        total, _ = lattice.best_path(scores, batch.target_lengths)
        theirs = torch.zeros_like(batch.target, dtype=torch.bool)
        theirs[0, case["viterbi_ends"]] = True
        assert float(total) >= float(lattice.path_score(scores, theirs))


def test_score_and_segment_of_raw_text(translator: Translator) -> None:
    pairs = [case["source_raw"] for case in cases()], [case["target"] for case in cases()]
    scores = translator.score(*pairs, allow_unknown=True)
    assert scores == pytest.approx([case["loglik"] for case in cases()], abs=TOLERANCE)
    segments = translator.segment(*pairs, allow_unknown=True)
    for case, found in zip(cases(), segments, strict=True):
        if case["viterbi_reliable"] and model_knows(translator, case["target"]):
            assert found == case["viterbi_segments"][:-1], case["index"]


def model_knows(translator: Translator, text: str) -> bool:
    return not translator.vocabulary.alphabet.unknown_characters(text)


def test_scores_of_every_next_character(model: SSMT) -> None:
    """`con` and `end` of Appendix A for a prefix and its last boundary."""
    is_word = model.segments.get_buffer("is_word")
    alphabet = model.vocabulary.alphabet
    for case in records("steps.jsonl"):
        search = SegmentSearch(model, rows=1)
        cache = model.decoder.start(model.encode(torch.tensor([case["source_ids"]])), 1, 1)
        for position, symbol in enumerate(case["prefix_ids"]):
            previous = torch.tensor([symbol])
            state = model.decoder.step(previous, cache)
            if position == case["prev_seg_end"]:
                open = search.begin(state, previous.unsqueeze(1), torch.tensor([0]))
            elif position > case["prev_seg_end"]:
                open = search.read(open, previous)
        length = len(case["prefix_ids"]) - 1 - case["prev_seg_end"]
        may_end = is_word | (torch.arange(len(is_word)) != alphabet.eom) & (length == 0)
        may_go_on = is_word & (length + 1 < model.segments.longest)
        every = torch.arange(len(is_word))
        for found, legal, expected in (
            (search.extended(open)[0][0].masked_fill(~may_go_on, NEG_INF), may_go_on, case["con"]),
            (search.endings(open, torch.zeros_like(every), every), may_end, case["end"]),
        ):
            theirs = torch.tensor(expected)
            assert torch.equal(theirs > MASKED, legal)
            legal = legal & (
                torch.arange(len(legal)) != alphabet.pad
            )  # `<pad>` by the lexicon alone: we never write it
            assert torch.allclose(found[legal], theirs[legal], rtol=0, atol=TOLERANCE)


def settings() -> list[Any]:
    """Beam, normalisation, averaging, shortest output, and a stride through the 40 sources, for the sake of time."""
    return [
        pytest.param(1, "seg-seg", False, 1, 1, id="beam 1"),
        pytest.param(5, "seg-seg", False, 1, 1, id="beam 5"),
        pytest.param(1, "char-char", False, 1, 2, id="beam 1 by characters"),
        pytest.param(5, "char-char", False, 1, 2, id="beam 5 by characters"),
        pytest.param(5, "none-none", False, 1, 3, id="not normalised"),
        pytest.param(5, "seg-none", False, 1, 3, id="normalised but at the end"),
        pytest.param(5, "seg-seg", True, 1, 3, id="averaged"),
        pytest.param(1, "seg-seg", False, 12, 2, id="beam 1, 12 characters at least"),
        pytest.param(5, "seg-seg", False, 12, 3, id="beam 5, 12 characters at least"),
    ]


@pytest.mark.parametrize(("beam", "normalisation", "averaged", "shortest", "stride"), settings())
def test_dynamic_decoding(
    model: SSMT, beam: int, normalisation: str, averaged: bool, shortest: int, stride: int
) -> None:
    wanted = (beam, normalisation, averaged, shortest)
    keys = ("beam", "normalize_type", "average_next_scores", "min_len")
    chosen = [case for case in records("decode.jsonl") if tuple(case[key] for key in keys) == wanted][::stride]
    in_search, at_end = normalisation.split("-")
    options = SearchOptions(
        "dynamic", beam, beam, min_length=shortest, normalise=NAMES[in_search], stop="paper", average_next=averaged
    )
    if at_end != in_search:
        options = replace(options, final_normalise=NAMES[at_end])
    vocabulary = model.vocabulary
    source = padded(vocabulary.source.encode([case["source_raw"] for case in chosen]), vocabulary.source_pad)
    lengths = torch.tensor([case["max_len"] for case in chosen])
    request = Request.of_lengths(model.vocabulary.start, lengths, shortest)
    found = search_batch(model, MarginalScorer, SEARCHES["dynamic"], source, request, options)
    for case, few in zip(chosen, found, strict=True):
        ours = {(tuple(one.symbols), tuple(one.ends or ())): one for one in few}
        theirs = {(tuple(one["ids"][1:-1]), tuple(one["eoms"][1:-1])): one for one in case["hypotheses"]}
        assert set(ours) == set(theirs), case["index"]
        assert next(iter(ours)) == next(iter(theirs)), case["index"]  # the first of each list
        for key, one in ours.items():
            assert one.score == pytest.approx(theirs[key]["sum_lprob"], abs=TOLERANCE)
            assert one.rank == pytest.approx(theirs[key]["score"], abs=TOLERANCE)


def test_dynamic_decoding_of_raw_text(translator: Translator) -> None:
    chosen = [case for case in records("decode.jsonl") if case["beam"] == 5 and case["normalize_type"] == "seg-seg"][:6]
    found = translator.n_best_translations(
        [case["source_raw"] for case in chosen], n_best=5, search="dynamic", stop="paper", max_length=150
    )
    for case, few in zip(chosen, found, strict=True):
        assert sorted(one.text for one in few) == sorted(one["text"] for one in case["hypotheses"])
        assert few[0].segments == case["hypotheses"][0]["segments"][:-1]


def test_marginal_decoding_scores_as_the_lattice_does(translator: Translator) -> None:
    sources = [case["source_raw"] for case in cases()[:8]]
    found = translator.translate(sources)
    assert found.scores == pytest.approx(translator.score(sources, found.texts), abs=TOLERANCE)


def test_every_tensor_of_the_weights_is_accounted_for(model: SSMT) -> None:
    """What computes nothing is dropped; everything else is there, or folded into something that is."""
    theirs = np.load(ORACLE / "weights.npz")
    unused = {name for name in theirs if name.endswith(("version", "_float_tensor"))}
    unused |= {"decoder.output_projection.weight"}
    count = sum(theirs[name].size for name in theirs if name not in unused)
    first_lexicon_layer = sum(theirs[f"decoder.lex_decoder.transform.{part}"].size for part in ("weight", "bias"))
    second_bias = theirs["decoder.char_decoder.lstm.bias_hh_l0"].size
    tensors: list[Tensor] = list(model.state_dict().values())
    assert sum(tensor.numel() for tensor in tensors) == count - first_lexicon_layer - second_bias
