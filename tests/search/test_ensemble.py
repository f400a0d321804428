"""Several models as one, against the enumeration of all strings."""

from __future__ import annotations

import math
import shutil
from itertools import product
from pathlib import Path

import pytest
import torch

from ssmt.directory import load_description, save_weights
from ssmt.ensemble import EnsembleTranslator
from ssmt.errors import UserError
from ssmt.model.ssmt import SSMT
from ssmt.registry import build
from ssmt.translator import Translator
from tests.cli.test_bad_input import Ssmt, refused, ssmt  # noqa: F401 (a fixture)
from tests.models import batch_of, random_model, translator

SOURCE = "the cat sees"
LONGEST = 4


def log_probabilities(model: SSMT, strings: list[str]) -> dict[str, float]:
    with torch.no_grad():
        scores = model.log_probability(batch_of(model, [(SOURCE, string) for string in strings])).tolist()
    return dict(zip(strings, scores, strict=True))


@pytest.mark.parametrize("network", [{}, {"lexicon": False}, {"characters": False, "ngram_inputs": True}])
def test_the_score_is_the_product_of_mean_probabilities(network: dict[str, bool]) -> None:
    """Of each model, p(y_j | prefix) by the definition: sums over segmentations, over all that a segment may become."""
    models = [random_model(seed=seed, **network) for seed in (1, 2)]
    ensemble = EnsembleTranslator([translator(model) for model in models])
    found = ensemble.translate([SOURCE], beam=4, n_best=3, max_length=LONGEST)
    for text, score in zip(found.texts[0], found.scores[0], strict=True):
        conditionals = []
        for model in models:
            masses = [_mass(model, text[:k]) for k in range(len(text) + 1)]
            ended = log_probabilities(model, [text])[text]
            conditionals.append([b - a for a, b in zip(masses, [*masses[1:], ended], strict=True)])
        expected = sum(
            math.log(sum(math.exp(of_model[k]) for of_model in conditionals) / 2) for k in range(len(text) + 1)
        )
        assert score == pytest.approx(expected, abs=1e-4), text


def _mass(model: SSMT, prefix: str) -> float:
    """log p of all strings that begin so: by sums over the segmentations of the prefix and what may follow its last
    segment. Written from the definition: the mass that ends a segment here, and that which goes on."""
    if not prefix:
        return 0.0
    scores = _lattice(model, prefix)  # (T, L) log p of segments of the prefix
    T = len(prefix)
    alpha = [1.0] + [0.0] * T
    for start in range(T):
        for length in range(1, scores.shape[1] + 1):
            if start + length <= T:
                alpha[start + length] += alpha[start] * math.exp(scores[start, length - 1])
    going_on = sum(alpha[start] * _longer(model, prefix, start) for start in range(T) if alpha[start])
    return math.log(alpha[T] + going_on)


def _lattice(model: SSMT, text: str) -> torch.Tensor:
    with torch.no_grad():
        return model.lattice(batch_of(model, [(SOURCE, text)]))[0]


def _longer(model: SSMT, prefix: str, start: int) -> float:
    """Of a segment that starts in a prefix, the probability that it reaches over its end."""
    begun = prefix[start:]
    total = 0.0
    for more in range(1, model.segments.longest - len(begun) + 1):
        for letters in product("ab", repeat=more):
            text = prefix + "".join(letters)
            length = len(text) - start
            if " " not in text[start:]:
                total += math.exp(_lattice(model, text)[start, length - 1])
    return total


def test_a_model_with_itself_is_itself() -> None:
    model = random_model(seed=4)
    alone, twice = translator(model), EnsembleTranslator([translator(model)] * 2)
    sources = [SOURCE, "a dog runs", ""]
    one, two = (each.translate(sources, beam=3, n_best=3) for each in (alone, twice))
    assert one.texts == two.texts
    for scores, others in zip(one.scores, two.scores, strict=True):
        assert scores == pytest.approx(others, abs=1e-5)
    assert one.segments == two.segments
    drawn = [each.translate(sources, search="sample", n_best=4, seed=5).texts for each in (alone, twice)]
    assert drawn[0] == drawn[1]


def test_only_what_averages_strings_is_there() -> None:
    ensemble = EnsembleTranslator([translator(random_model(seed=seed)) for seed in (1, 2)])
    with pytest.raises(UserError, match="has no search 'dynamic'; it has marginal, sample"):
        ensemble.translate([SOURCE], search="dynamic")
    with pytest.raises(UserError, match="Several models together translate"):
        ensemble.score([SOURCE], ["ab"])


def test_the_verb_takes_several_models_of_one_vocabulary(
    ssmt: Ssmt,  # noqa: F811
    model_directory: Path,
    tmp_path: Path,
) -> None:
    other = Path(shutil.copytree(model_directory, tmp_path / "other"))
    torch.manual_seed(7)
    save_weights(other, build(*load_description(other)).state_dict())
    (tmp_path / "s").write_text("I see a bird.\n\nwe call 2 cows.\n")
    options = ["-i", tmp_path / "s", "--max-length", 12]
    together = ssmt("translate", model_directory, other, *options).out.splitlines()
    expected = EnsembleTranslator([Translator.load(path, "cpu") for path in (model_directory, other)])
    texts = expected.translate((tmp_path / "s").read_text().splitlines(), max_length=12).texts
    assert together == texts
    lexicon = other / "lexicon.txt"
    lexicon.write_text(lexicon.read_text().replace("\t", "\t1", 1))
    save_weights(other, build(*load_description(other)).state_dict())
    refused(ssmt("translate", model_directory, other, *options), "other: is of another kind or vocabulary than")


def test_a_run_without_weights_is_the_model_that_it_begins_with(model_directory: Path, tmp_path: Path) -> None:
    """Whatever its own vocabulary is going to be."""
    shutil.copytree(model_directory, tmp_path / "new" / "from")
    for path in (tmp_path / "new" / "from").iterdir():
        if path.is_file() and path.name != "model.safetensors":
            shutil.copy(path, tmp_path / "new")
    alphabet = tmp_path / "new" / "alphabet.json"
    alphabet.write_text(alphabet.read_text(encoding="utf-8").replace('"a"', '"\u0101"'), encoding="utf-8")
    ensemble = EnsembleTranslator.of([tmp_path / "new", model_directory], "cpu")
    alone = Translator.load(model_directory, "cpu")
    assert ensemble.translate([SOURCE], max_length=5).texts == alone.translate([SOURCE], max_length=5).texts
