"""Beam search over subwords against the same written down slowly, and against all there is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from ssmt.config import Config, TextConfig, changed
from ssmt.model.subword import SubwordTransformer
from ssmt.registry import KINDS
from ssmt.search.job import Hypothesis
from ssmt.search.options import SearchOptions
from ssmt.text.pieces import Pieces
from ssmt.text.subwords import unmarked
from ssmt.text.vocabulary import SubwordVocabulary
from ssmt.translator import Translator
from tests.models import SMALL, SOURCES, source_subwords, stir_copies, stir_coverage

LINES = ["▁ab a ▁b", "▁a b", "▁ba ▁ab", "▁b ▁ba ab"]  # pieces ▁ a b ab ▁a ▁b ▁ab ▁ba: many ways to write a text
Ids = tuple[int, ...]


class LiteralSubwords:
    """One model with one source sentence; a hypothesis is computed from its beginning at every step."""

    def __init__(self, model: SubwordTransformer, source: str) -> None:
        self.model, self.target = model, model.vocabulary.target
        (self.source,) = model.vocabulary.encode_sources([source])
        self.memory = model.encode(torch.tensor([self.source]))

    def next(self, prefix: Ids) -> list[float]:
        states = self.model.decoder.states(torch.tensor([[self.model.vocabulary.start, *prefix]]), self.memory)
        state = states[0, -1]
        generated = torch.log_softmax(self.model.logits(state).double(), dim=-1).exp().tolist()
        copies = self.model.copies
        if copies is None:
            return [math.log(p) for p in generated]
        pointer, weights, most = copies.pointer, dict[int, float](), 0
        read = (self.model.vocabulary.start, *prefix)
        pieces = [self.model.vocabulary.source.pieces[token] if token > 2 else "" for token in self.source]
        for place, token in enumerate(self.source):
            piece = self.model.vocabulary.source.pieces[token]
            if token > 2 and piece in self.target.pieces[3:]:
                key = pointer.key(self.memory.states[0, place])
                matched = 0
                while matched < min(6, place, len(read)):
                    before = pieces[place - 1 - matched]
                    if before not in self.target.pieces[3:] or self.target.pieces[read[-1 - matched]] != before:
                        break
                    matched += 1
                most = max(most, matched)
                logit = state @ key / math.sqrt(len(key)) + pointer.bias[token] + pointer.goes_on[matched]
                id = self.target.pieces.index(piece)
                weights[id] = weights.get(id, 0.0) + math.exp(logit.item())
        c = torch.sigmoid(pointer.gate(state) + pointer.gate_goes_on[most]).item() if weights else 0.0
        total = sum(weights.values()) or 1.0
        return [math.log(c * weights.get(id, 0.0) / total + (1 - c) * p) for id, p in enumerate(generated)]

    def written(self, prefix: Ids) -> str:
        return "".join(self.target.pieces[id] for id in prefix)

    def extensions(self, prefix: Ids, most: int, least: int, wanted: str) -> Iterator[tuple[int, float]]:
        """Symbols that may follow, with their log-probability; `wanted` is what the text must begin with."""
        scores = self.next(prefix)
        wanted = "▁" + wanted.replace(" ", "▁") if wanted else ""
        text = unmarked(self.written(prefix))
        if self.written(prefix).startswith(wanted) and len(text) >= least:
            yield self.target.eos, scores[self.target.eos]
        for id in range(3, len(self.target)):
            longer = self.written((*prefix, id))
            fits = longer.startswith(wanted) or wanted.startswith(longer)
            if longer.startswith("▁") and len(unmarked(longer)) <= most and fits:
                yield id, scores[id]

    def search(self, beam: int, penalty: float, most: int, least: int, wanted: str) -> dict[str, float]:
        """Texts with the rank of their best derivation, best first."""
        beams: list[tuple[float, Ids]] = [(0.0, ())]
        finished: dict[str, float] = {}
        step = 0
        while beams:
            step += 1
            pool = sorted(
                (
                    (score + p, (*ids, id))
                    for score, ids in beams
                    for id, p in self.extensions(ids, most, least, wanted)
                ),
                key=lambda one: -one[0],
            )
            for score, ids in pool[:beam]:
                if ids[-1] == self.target.eos:
                    text, rank = unmarked(self.written(ids[:-1])), score / step**penalty
                    finished[text] = max(rank, finished.get(text, -math.inf))
            finished = dict(sorted(finished.items(), key=lambda item: -item[1])[:beam])
            beams = [one for one in pool[: 2 * beam] if one[1][-1] != self.target.eos][:beam]
            enough = len(finished) >= (beam if penalty else 1)
            if enough and beams and max(finished.values()) >= beams[0][0] / step**penalty:
                break
        return finished

    def everything(self, most: int) -> dict[str, float]:
        """Every text of up to `most` characters with the log-probability of its best derivation."""
        best: dict[str, float] = {}
        stack: list[tuple[float, Ids]] = [(0.0, ())]
        while stack:
            score, ids = stack.pop()
            for id, p in self.extensions(ids, most, 0, ""):
                if id == self.target.eos:
                    text = unmarked(self.written(ids))
                    best[text] = max(score + p, best.get(text, -math.inf))
                else:
                    stack.append((score + p, (*ids, id)))
        return best


@pytest.fixture(scope="module", params=[{}, {"copies": True}, {"coverage": True}], ids=["plain", "copies", "coverage"])
def model(request: pytest.FixtureRequest) -> SubwordTransformer:
    torch.manual_seed(5)
    vocabulary = SubwordVocabulary(source_subwords(), Pieces.of_lines(LINES, 100))
    settings = {"model": "bpe", "network": {**SMALL, **request.param}}
    network = SubwordTransformer(vocabulary, changed(Config(), settings, "test")).eval()
    stir_coverage(network)
    if network.copies is not None:
        stir_copies(network.copies)
        assert set(vocabulary.source.pieces[3:]) & set(vocabulary.target.pieces[3:])
    with torch.no_grad():
        network.decoder.embedding.tokens.weight.mul_(1.5)  # less even distributions
        network.decoder.embedding.tokens.weight[vocabulary.target.eos] = 0  # tied to the input, it would win at once
    return network


def texts(model: SubwordTransformer, found: list[Hypothesis]) -> dict[str, float]:
    return {model.vocabulary.decode(one.symbols): one.rank for one in found}


@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(
    ("most", "least", "prefix"), [(6, 0, ""), (5, 4, ""), (6, 0, "b a"), (3, 2, "aab"), (2, 0, "abba")]
)
@torch.inference_mode()
def test_beam_search_is_the_literal_one(
    model: SubwordTransformer, beam: int, penalty: float, most: int, least: int, prefix: str
) -> None:
    options = SearchOptions(beam=beam, length_penalty=penalty, repetition_penalty=0.0, min_length=least)
    sources = SOURCES[:3]
    found = KINDS["bpe"].translate(model, sources, replace(options, max_length=most), 1.0, [prefix] * 3)
    for source, few in zip(sources, found, strict=True):
        expected = LiteralSubwords(model, source).search(beam, penalty, max(most, len(prefix)), least, prefix)
        assert texts(model, few) == pytest.approx(expected, abs=1e-5)


@torch.inference_mode()
def test_a_wide_beam_finds_the_best_of_all(model: SubwordTransformer) -> None:
    options = SearchOptions(beam=200, n_best=5, length_penalty=0.0, repetition_penalty=0.0)
    sources = SOURCES[:2]
    for source, few in zip(
        sources, KINDS["bpe"].translate(model, sources, replace(options, max_length=4), 1.0), strict=True
    ):
        everything = LiteralSubwords(model, source).everything(4)
        best = dict(sorted(everything.items(), key=lambda item: -item[1])[:5])
        assert texts(model, few[:5]) == pytest.approx(best, abs=1e-5)


def test_a_text_in_other_subwords_is_scored_in_its_own(model: SubwordTransformer) -> None:
    """The pieces leave many ways to write a text, and the beam takes whichever; what is reported is the text's own."""

    class Halves:
        """Cuts every word in single characters."""

        score_type = "path"
        cuts_anywhere = False

        def n_best(self, sources: list[str], given: list[str], n: int, batch_characters: int) -> list[list[object]]:
            return [[type("Cut", (), {"segments": list(text)})()] for text in given]

    config = Config(model="dpe", text=TextConfig(length_ratio=1.0))
    translator = Translator(model, config, Halves())  # type: ignore[arg-type]
    found = translator.n_best_translations(SOURCES, n_best=3, max_length=6)
    searched = KINDS["bpe"].translate(model, SOURCES, SearchOptions(n_best=3, max_length=6), 1.0)
    differ = 0
    for source, few, hypotheses in zip(SOURCES, found, searched, strict=True):
        assert translator.score([source] * len(few), [one.text for one in few]) == pytest.approx(
            [one.score for one in few]
        )
        differ += sum(abs(one.score - own.score) > 1e-3 for one, own in zip(few, hypotheses, strict=False))
        for one in few:
            assert one.segments == list(one.text)
    assert differ > 5, "the beam writes most of these texts otherwise"


def test_the_usual_length_penalty(model: SubwordTransformer) -> None:
    options = SearchOptions(beam=4)
    usual, explicit, other = (
        KINDS["bpe"].translate(model, SOURCES, replace(options, length_penalty=penalty, max_length=8), 1.0)
        for penalty in (None, 1.5, 1.0)
    )
    assert usual == explicit
    assert usual != other
