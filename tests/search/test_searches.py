"""What holds for every search: batches, limits, prefixes, long lines."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

from ssmt.errors import UserError
from ssmt.search.decode import search_batch
from ssmt.search.sampling import sample_strings
from ssmt.translator import Translator
from tests.models import SOURCES, random_model, translator

SEARCHES = ["marginal", "dynamic", "mixture", "sample"]


@pytest.fixture(scope="module")
def model() -> Translator:
    return translator(random_model(seed=5))


def many_sources(count: int) -> list[str]:
    rng = random.Random(2)
    words = sorted({word for source in SOURCES for word in source.split()})
    return [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("network", "count"),
    [
        pytest.param({}, 200, id="plain"),
        pytest.param({"decoder_layers": 4, "character_layers": 2}, 40, id="layers over words"),
        pytest.param({"letters": "abdogs ", "copies": True}, 40, id="copies"),
        pytest.param({"decoder_layers": 3, "character_layers": 1, "coverage": True}, 40, id="coverage of words"),
    ],
)
def test_the_output_does_not_depend_on_the_batch(search: Any, network: dict[str, Any], count: int) -> None:
    model, texts = translator(random_model(seed=5, **network)), many_sources(count)
    options: dict[str, Any] = {"search": search, "beam": 3, "n_best": 2, "max_length": 12}
    expected = model.translate(texts, **options, batch_characters=4000)
    alone = model.translate(texts, **options, batch_characters=1)
    assert alone.texts == expected.texts
    assert alone.segments == expected.segments
    for few, others in zip(alone.scores, expected.scores, strict=True):
        assert few == pytest.approx(others, abs=1e-4)
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = model.translate([texts[i] for i in order], **options, batch_characters=300)
    assert shuffled.texts == [expected.texts[i] for i in order]


@pytest.mark.parametrize("search", SEARCHES)
def test_lengths_and_prefixes_are_kept(model: Translator, search: Any) -> None:
    options: dict[str, Any] = {"search": search, "beam": 3}
    assert all(len(text) <= 7 for text in model.translate(SOURCES, **options, max_length=7).texts)
    assert all(len(text) >= 5 for text in model.translate(SOURCES, **options, max_length=9, min_length=5).texts)
    prefixes = ["ab a", "", "b", "ba ba", "", "aaab", " "]
    texts, segments, _ = model.translate(SOURCES, **options, max_length=12, prefixes=prefixes)
    assert all(text.startswith(prefix) for text, prefix in zip(texts, prefixes, strict=True))
    assert all("".join(few) == text for text, few in zip(texts, segments, strict=True))


def test_a_forced_prefix_that_the_beam_would_not_take_gives_the_same_score(model: Translator) -> None:
    texts, _, scores = model.translate(SOURCES, prefixes=["bbb bbb"] * len(SOURCES), max_length=12)
    assert scores == pytest.approx(model.score(SOURCES, texts), abs=1e-4)


def test_empty_lines_give_empty_translations(model: Translator) -> None:
    texts, segments, _ = model.translate(["", SOURCES[0], "  "])
    assert texts[0] == texts[2] == ""
    assert segments[0] == segments[2] == []
    assert texts[1] == model.translate([SOURCES[0]]).texts[0]
    assert model.translate([]).texts == []


def test_runaway_output_ends(model: Translator) -> None:
    assert all(
        len(text) <= len(source) + 20 for text, source in zip(model.translate(SOURCES).texts, SOURCES, strict=True)
    )


def test_long_sources_are_translated_in_parts_at_sentence_ends() -> None:
    model = translator(random_model(seed=5), longest_source=25)
    source = "The cat sees a dog. Cats run! A dog runs."
    parts = ["The cat sees a dog.", "Cats run! A dog runs."]
    texts, segments, scores = model.translate([source], min_length=2)
    expected = model.translate(parts, min_length=2)
    assert texts == [" ".join(expected.texts)]
    assert segments == [[*expected.segments[0], " ", *expected.segments[1]]]
    assert scores == pytest.approx([sum(expected.scores)])
    with pytest.raises(UserError, match="source 2: has a sentence of 44 characters"):
        model.translate(["A dog.", "the cat sees the dog and the dog sees a cat."])


def test_a_longer_penalty_never_shortens(model: Translator) -> None:
    short = model.translate(SOURCES, beam=8, length_penalty=0).texts
    long = model.translate(SOURCES, beam=8, length_penalty=2.0).texts
    assert sum(map(len, long)) > sum(map(len, short))


@pytest.mark.parametrize(
    ("search", "option", "value"),
    [
        ("marginal", "normalise", "none"),
        ("marginal", "stop", "paper"),
        ("marginal", "final_normalise", "none"),
        ("mixture", "average_next", True),
        ("mixture", "temperature", 0.5),
        ("dynamic", "length_penalty", 0.0),
        ("sample", "length_penalty", 1.0),
        ("mixture", "repetition_penalty", 1.0),
    ],
)
def test_an_option_that_the_search_does_not_have_is_refused(
    model: Translator, search: str, option: str, value: object
) -> None:
    message = f"The search '{search}' has no {option.replace('_', ' ')}; it is for "
    with pytest.raises(UserError, match=message):
        model.translate(["a"], search=search, **{option: value})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="stop: paper"):
        model.translate(["a"], search="dynamic", final_normalise="none")


def test_long_sources_are_cut_where_sentences_end_and_nowhere_else() -> None:
    model = translator(random_model(seed=5), longest_source=12)
    assert model._parts("a dog ran a. the cat sat. ", 1) == ["a dog ran a.", "the cat sat."]  # nothing after the last
    assert model._parts("a. b.  c. the cat sat.", 1) == ["a. b.  c.", "the cat sat."]  # gaps stay as they are
    assert model._parts("你好。再见！你好。再见！你好。", 1) == ["你好。再见！你好。再见！", "你好。"]


@pytest.mark.parametrize("search", SEARCHES)
def test_what_the_lexicon_hardly_holds_possible_can_still_be_begun_with(search: Any) -> None:
    """Prefix sums of probabilities cannot tell these entries from impossible ones, and no character model helps."""
    network = random_model(letters="abz ", entries=("ab", "za", "zb"), seed=5, characters=False)
    entries, lexicon = network.segments.entries, network.segments.lexicon
    assert entries is not None
    letter = network.vocabulary.alphabet.encode("z")[0]
    with torch.no_grad():
        entries.bias[[row for row, entry in enumerate(lexicon.entries) if entry[0] == letter]] -= 60
    model = translator(network)
    (text,) = model.translate(["a dog"], search=search, prefixes=["z"], max_length=6).texts
    assert text.startswith("z")


def test_many_hypotheses_make_smaller_batches(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def recording(network: Any, scorer: Any, search: Any, source: torch.Tensor, *rest: Any) -> Any:
        sizes.append(len(source))
        return search_batch(network, scorer, search, source, *rest)

    monkeypatch.setattr("ssmt.search.decode.search_batch", recording)
    texts = ["a dog"] * 24
    for options, expected in (
        ({"beam": 2}, [12, 12]),  # a short source counts as 20 characters and `</s>`
        ({"beam": 10}, [6, 6, 6, 6]),
        ({"search": "sample", "n_best": 20}, [3] * 8),
    ):
        sizes.clear()
        model.translate(texts, batch_characters=12 * 21, max_length=3, **options)  # type: ignore[arg-type]
        assert sizes == expected


def test_any_seed_can_be_sampled_with(model: Translator) -> None:
    (text,) = model.translate(["a dog"], search="sample", seed=2**70, max_length=5).texts
    assert len(text) <= 5


def test_what_is_not_a_number_ends_sampling() -> None:
    """No end would ever be drawn from it."""

    class Spoilt:
        eos = 0

        def extensions(self) -> torch.Tensor:
            return torch.full((2, 3), torch.nan)

        def advance(self, rows: torch.Tensor, symbols: torch.Tensor) -> None:
            raise AssertionError("it goes on")

    with pytest.raises(UserError, match="are not numbers"):
        sample_strings(Spoilt(), [1], 2, 1.0)  # type: ignore[arg-type]


def test_a_least_length_goes_before_the_usual_most() -> None:
    """And against a most one that is asked for it cannot be."""
    network = translator(random_model(seed=5))
    (text,) = network.translate(["a"], min_length=60).texts
    assert len(text) >= 60
    with pytest.raises(UserError, match="max_length is 10, and min_length 40"):
        network.translate(["a"], min_length=40, max_length=10)


@pytest.mark.parametrize("search", ["marginal", "sample"])
def test_what_the_character_model_hardly_holds_possible_has_its_score(search: str) -> None:
    """A probability of e^-120 is no float32."""
    network = random_model(letters="abz ", seed=5, lexicon=False, longest=3)
    characters = network.segments.characters
    assert characters is not None
    letter = network.vocabulary.alphabet.encode("z")[0]
    with torch.no_grad():
        characters.output.bias[letter] -= 120
    model = translator(network)
    found = model.translate(["a dog"], search=search, prefixes=["z"], max_length=6)
    assert found.texts[0].startswith("z")
    assert found.scores[0] == pytest.approx(model.score(["a dog"], found.texts)[0], abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.segment(None, ["ab"], method="posteriors"), "no method 'posteriors'.*'posterior'"),
        (lambda model: model.n_best_segmentations(None, ["ab"], 2.5), "n is 2.5; it must be a whole number"),
        (lambda model: model.n_best_segmentations(None, ["ab"], "3"), "n is '3'; it must be a whole number"),
        (lambda model: model.posterior_segmentations(None, ["ab"], math.nan), "threshold is nan; it must be a number"),
        (lambda model: model.posterior_segmentations(None, ["ab"], 5), "threshold is 5; it must be a number from 0"),
    ],
)
def test_what_no_segmentation_can_be_asked_for_is_refused(model: Translator, call: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(model)
