"""Runs that begin with a model: the same or a larger vocabulary, whole or in parts, some of them frozen."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch

from ssmt import Translator
from ssmt.config import Config, DataConfig, changed, compose, compose_from
from ssmt.directory import load_config, load_description, load_model
from ssmt.errors import UserError
from ssmt.lattice import NEG_INF
from ssmt.model.extension import begin_with, rows_made_of
from ssmt.model.ssmt import SSMT
from ssmt.model.subword import SubwordTransformer
from ssmt.progress import Reporter
from ssmt.registry import build
from ssmt.text.batch import make_batch
from ssmt.text.vocabulary import Vocabulary
from ssmt.training import run, start
from ssmt.training.log import read_log
from tests.cli.test_bad_input import Ssmt, no_space_after, refused, ssmt  # noqa: F401 (a fixture)
from tests.models import random_model
from tests.test_kinds import SIZES
from tests.test_languages import data as data
from tests.test_languages import sentences
from tests.training.runs import Messages

CPU = torch.device("cpu")
QUICK = [
    "training.max_updates=20",
    "training.validate_every=10",
    "segmenter.max_updates=20",
    "training.chrf_sentences=4",
]


def only(data: DataConfig, *, named: bool) -> DataConfig:
    """The first language alone, with a name or without."""
    corpus = data.train[0].model_copy(update={} if named else {"target_language": None})
    return DataConfig(train=(corpus,), valid=(corpus,))


@pytest.fixture(scope="module", params=["ssmt", "bpe", "ulm", "dpe"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: DataConfig) -> Path:
    """A model of the first language, trained a little."""
    directory = tmp_path_factory.mktemp("old") / request.param
    kinds = {"ssmt": ["network.ngram_inputs=true", "network.lexicon_by_first_character=true"]}
    settings = [*SIZES, *QUICK, f"model={request.param}", *kinds.get(request.param, []), "network.nested_subwords=true"]
    run.begin(only(data, named=False), directory, compose("tiny", None, settings), Reporter())
    run.train(directory, CPU, Reporter())
    return directory


def continued(old: Path, *settings: str, **begun: object) -> Config:
    return compose_from(load_config(old), None, [f"start={json.dumps({'model': str(old), **begun})}", *settings])


def pairs_of(place: int) -> tuple[list[str], list[str]]:
    rows = sentences()[::5]
    return [row[0] for row in rows], [row[1 + place] for row in rows]


def test_before_the_first_update_every_translation_and_score_is_the_same_bit_for_bit(
    old: Path,
    data: DataConfig,
    tmp_path: Path,
) -> None:
    """The vocabulary is larger by characters, lexicon entries and languages."""
    run.begin(data, tmp_path / "new", continued(old, "text.lexicon_size=150"), Reporter())
    before, after = Translator.load(old, "cpu"), Translator.load(tmp_path / "new", "cpu")
    sources, targets = pairs_of(0)
    assert after.translate(sources, n_best=3, beam=4) == before.translate(sources, n_best=3, beam=4)
    assert after.score(sources, targets, allow_unknown=True) == before.score(sources, targets, allow_unknown=True)
    assert after.segment(sources, targets) == before.segment(sources, targets)


def test_with_the_same_vocabulary_the_network_itself_is_the_same(old: Path, data: DataConfig, tmp_path: Path) -> None:
    run.begin(only(data, named=False), tmp_path / "new", continued(old), Reporter())
    part = tmp_path / "new"
    known = load_model(old, CPU)[0]
    if not (part / "source.model").exists():  # dpe: its first model
        part, known = part / "segmenter", load_model(old / "segmenter", CPU)[0]
    vocabulary, config = load_description(part)
    network = build(vocabulary, config)
    start.begin(network, part, config)
    weights = known.state_dict()
    assert network.state_dict().keys() == weights.keys()
    assert all(torch.equal(weight, weights[name]) for name, weight in network.state_dict().items())


def test_a_larger_network_with_its_new_symbols_shut_is_the_old_one(old: Path, data: DataConfig, tmp_path: Path) -> None:
    """In float64, where the order of sums, which grows with the vocabulary, hardly matters. That rows are where they
    belong cannot be seen better: one in the wrong place would change everything."""
    run.begin(data, tmp_path / "new", continued(old, "text.lexicon_size=150"), Reporter())
    part, original = tmp_path / "new", old
    if not (part / "source.model").exists():
        part, original = part / "segmenter", old / "segmenter"
    vocabulary, config = load_description(part)
    network = build(vocabulary, config)
    start.begin(network, part, config)
    known = load_model(original, CPU)[0].double().eval()
    network = network.double().eval()
    assert vocabulary.sizes[1] > known.vocabulary.sizes[1]
    kinds = {"target": {*known.vocabulary.rows("target")}}
    with torch.no_grad():
        if isinstance(network, SSMT):
            assert isinstance(vocabulary, Vocabulary)
            assert len(vocabulary.lexicon) > len(known.vocabulary.rows("entries"))
            assert len(vocabulary.lexicon) == 150 or config.text.lexicon == "bpe"
            kinds["entries"] = {*known.vocabulary.rows("entries")}
            for name, weight in network.state_dict().items():
                kind = network.ROWS.get(name)
                if kind in kinds and name.endswith(".bias"):
                    new = [symbol not in kinds[kind] for symbol in vocabulary.rows(kind)]  # type: ignore[index]
                    weight[torch.tensor(new)] = -1e9
        else:
            assert isinstance(network, SubwordTransformer)
            shut = torch.tensor([symbol not in kinds["target"] for symbol in vocabulary.rows("target")])
            output = network.logits
            network.logits = lambda states: output(states).masked_fill(shut, NEG_INF)  # type: ignore[method-assign]
    sources, targets = pairs_of(0)
    languages = ["aa"] * len(sources)  # its symbol began as </s>
    results = []
    for model in (known, network):
        vocabulary = model.vocabulary
        encoded = vocabulary.source.encode(sources)  # without tags, which the old model has not
        starts = languages if vocabulary.starts else None
        batch = make_batch(encoded, vocabulary.encode_targets(targets), vocabulary.batch_symbols, languages=starts)
        with torch.no_grad():
            results.append(model.log_probability(batch))
    assert results[1].tolist() == pytest.approx(results[0].tolist(), rel=1e-6)  # some sums are float32


def test_what_was_learnt_before_helps(old: Path, data: DataConfig, tmp_path: Path) -> None:
    valid = only(data, named=False)
    messages = Messages()
    limits = ["training.max_updates=4", "training.validate_every=2", "segmenter.max_updates=4"]
    run.begin(valid, tmp_path / "new", continued(old, *limits), messages)
    shutil.copytree(tmp_path / "new", tmp_path / "copy")
    moved = old.rename(old.with_name("moved"))  # the run has all that it needs
    try:
        run.train(tmp_path / "new", CPU, messages)
    finally:
        moved.rename(old)
    fresh = changed(continued(old, *limits), {"start": {"model": None}}, "test")
    run.begin(valid, tmp_path / "fresh", fresh, messages)
    run.train(tmp_path / "fresh", CPU, messages)
    first = [
        next(entry["valid_bits_per_character"] for entry in read_log(tmp_path / name) if "valid_chrf" in entry)
        for name in ("new", "fresh")
    ]
    assert first[0] < first[1] - 0.3
    record = json.loads((tmp_path / "new" / "config.json").read_text())["start"]
    assert record["model"] == str(old)
    assert len(record["digest"]) == 64
    # Stopped and gone on with, it makes the same updates.
    run.adopt(tmp_path / "copy", lambda config: changed(config, {"training": {"max_updates": 2}}, "test"))
    run.train(tmp_path / "copy", CPU, messages)
    run.adopt(tmp_path / "copy", lambda config: changed(config, {"training": {"max_updates": 4}}, "test"))
    run.train(tmp_path / "copy", CPU, messages)
    weights = [load_model(tmp_path / name, CPU)[0].state_dict() for name in ("new", "copy")]
    if load_config(old).model != "dpe":  # whose first stage was over after the first session
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_what_a_run_came_from_is_known_when_its_limits_change(old: Path, data: DataConfig, tmp_path: Path) -> None:
    run.begin(only(data, named=False), tmp_path / "new", continued(old), Reporter())
    parts = [part for part in (tmp_path / "new", tmp_path / "new" / "segmenter") if part.exists()]
    before = [load_config(part).start.digest for part in parts]
    run.adopt(tmp_path / "new", lambda config: changed(config, {"training": {"max_updates": 70}}, "test"))
    assert [load_config(part).start.digest for part in parts] == before
    assert None not in before


def test_a_frozen_part_stays_and_the_others_learn(old: Path, data: DataConfig, tmp_path: Path) -> None:
    parts = ["encoder.layers", "decoder.layers.0.feedforward"]
    config = continued(old, "training.max_updates=2", "segmenter.max_updates=2", freeze=parts)
    run.begin(only(data, named=False), tmp_path / "new", config, Reporter())
    run.train(tmp_path / "new", CPU, Reporter())
    before, after = (load_model(path, CPU)[0].state_dict() for path in (old, tmp_path / "new"))
    for name, weight in before.items():
        frozen = any(name.startswith(f"{part}.") for part in parts)
        if weight.shape == after[name].shape and weight.numel() > 1:
            assert torch.equal(weight, after[name]) == frozen, name


def test_a_spoilt_part_of_a_model_is_refused_before_it_is_copied(old: Path, data: DataConfig, tmp_path: Path) -> None:
    """A file that says that it has 64 GiB would be copied to its end; that of a first model too."""
    shutil.copytree(old, tmp_path / "old")
    (part, *_) = sorted((tmp_path / "old").rglob("source.model"))  # of dpe, the first model's
    os.truncate(part, 1 << 36)
    with pytest.raises(UserError, match=r"source\.model"):
        run.begin(only(data, named=False), tmp_path / "new", continued(tmp_path / "old"), Reporter())


def test_a_part_can_be_taken_alone(old: Path, data: DataConfig, tmp_path: Path) -> None:
    """The rest is as in a run from nothing; the source's vocabulary is learnt anew where the encoder is not taken."""
    kind = load_config(old).model
    if kind == "dpe":
        pytest.skip("its vocabulary is there after two stages; bpe has the same network")
    take = ["decoder", "segments"] if kind == "ssmt" else ["decoder"]
    settings = ["text.shared_vocabulary=false", f"text.source_vocabulary={24 if kind == 'ulm' else 50}"]
    run.begin(only(data, named=False), tmp_path / "new", continued(old, *settings, take=take), Reporter())
    vocabulary, config = load_description(tmp_path / "new")
    known, _ = load_model(old, CPU)
    assert len(vocabulary.source) < len(known.vocabulary.source)
    assert vocabulary.rows("target") == known.vocabulary.rows("target")
    torch.manual_seed(5)
    network = build(vocabulary, config)
    start.begin(network, tmp_path / "new", config)
    torch.manual_seed(5)
    fresh = build(vocabulary, config).state_dict()
    for name, weight in network.state_dict().items():
        expected = known.state_dict()[name] if name.partition(".")[0] in take else fresh[name]
        if name == "segments.copies.pointer.bias":  # of subwords that both know
            of_known = dict(zip(known.vocabulary.source.pieces, expected.tolist(), strict=True))
            of_all = zip(vocabulary.source.pieces, fresh[name].tolist(), strict=True)
            expected = torch.tensor([of_known.get(piece, bias) for piece, bias in of_all])
        assert torch.equal(weight, expected), name


def test_the_encoder_alone_leaves_the_target_to_be_learnt_anew(old: Path, data: DataConfig, tmp_path: Path) -> None:
    """Also with nested subwords; and whichever kind the encoder is of."""
    kind = load_config(old).model
    if kind == "dpe":
        pytest.skip("its vocabulary is there after two stages; bpe has the same network")
    known = load_description(old)[0]
    other = data.train[1].model_copy(update={"target_language": None})
    text = DataConfig(train=(other,), valid=(other,))
    settings = ["text.shared_vocabulary=false", "text.subword_vocabulary=60"]
    run.begin(text, tmp_path / "same", continued(old, *settings, take=["encoder"]), Reporter())
    run.begin(text, tmp_path / "fresh", compose("tiny", None, [*SIZES, *QUICK, f"model={kind}", *settings]), Reporter())
    vocabulary, config = load_description(tmp_path / "same")
    assert vocabulary.source.pieces == known.source.pieces
    fresh = load_description(tmp_path / "fresh")[0]
    assert vocabulary.rows("target") == fresh.rows("target") != known.rows("target")
    start.begin(build(vocabulary, config), tmp_path / "same", config)


def test_a_model_of_several_languages_goes_on_with_one(tmp_path: Path, data: DataConfig) -> None:
    run.begin(data, tmp_path / "both", compose("tiny", None, [*SIZES, *QUICK]), Reporter())
    run.train(tmp_path / "both", CPU, Reporter())
    one = only(data, named=True)
    run.begin(one, tmp_path / "one", continued(tmp_path / "both", "training.max_updates=1"), Reporter())
    run.train(tmp_path / "one", CPU, Reporter())
    assert Translator.load(tmp_path / "one", "cpu").languages == ("aa", "bb")
    third = one.train[0].model_copy(update={"target_language": "cc"})
    more = DataConfig(train=(third,), valid=(third, one.valid[0]))
    run.begin(more, tmp_path / "more", continued(tmp_path / "both", "training.max_updates=1"), Reporter())
    run.train(tmp_path / "more", CPU, Reporter())
    assert Translator.load(tmp_path / "more", "cpu").languages == ("aa", "bb", "cc")
    with pytest.raises(UserError, match="translates into aa, bb: say what the target language is"):
        run.begin(only(data, named=False), tmp_path / "none", continued(tmp_path / "both"), Reporter())
    with pytest.raises(UserError, match=r"does not know cc \(start.extend\)"):
        run.begin(more, tmp_path / "none", continued(tmp_path / "both", extend=False), Reporter())
    assert not (tmp_path / "none" / "config.json").exists()


# Rows


def test_rows_are_means_of_what_symbols_are_made_of() -> None:
    known = ["<pad>", "</s>", "a", "b", "ab", "<2zu>"]
    new = ["a", "<2xh>", "ba", "č", "ač", "čč", "</s>", "<of bt>"]
    assert rows_made_of(new, known) == [[2], [5], [3, 2], [2, 3], [2], [2, 3], [1], [2, 3]]
    assert rows_made_of(["<2xh>"], known[:-1]) == [[1]]


def test_new_entries_begin_as_the_mean_of_their_characters(
    tmp_path: Path, data: DataConfig, toy_config: Config
) -> None:
    plain = only(data, named=False)
    run.begin(plain, tmp_path / "old", changed(toy_config, {"training": {"max_updates": 1}}, "test"), Reporter())
    vocabulary, config = load_description(tmp_path / "old")
    assert isinstance(vocabulary, Vocabulary)
    other = build(vocabulary, config)
    alphabet = vocabulary.alphabet.extended("ž")
    wider = Vocabulary(
        vocabulary.source,
        alphabet,
        type(vocabulary.lexicon).of_texts(alphabet, ["tiz", "nbo", *vocabulary.lexicon.texts]),
    )
    network = build(wider, config)
    begin_with(network, other)
    row = {text: place for place, text in enumerate(wider.lexicon.texts)}
    was = {text: place for place, text in enumerate(vocabulary.lexicon.texts)}
    before, after = other.state_dict(), network.state_dict()
    for text in was:
        assert torch.equal(after["segments.entries.weight"][row[text]], before["segments.entries.weight"][was[text]])
    mean = torch.stack([before["segments.entries.weight"][was[c]] for c in "nbo"]).mean(dim=0)
    assert torch.allclose(after["segments.entries.weight"][row["nbo"]], mean)
    new = len(row) - len(was)
    bias = torch.stack([before["segments.entries.bias"][was[c]] for c in "nbo"]).mean() - math.log1p(new)
    assert after["segments.entries.bias"][row["nbo"]].item() == pytest.approx(bias.item(), abs=1e-6)


# What is refused


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no /dev/zero")
def test_a_device_in_the_place_of_a_file_is_not_copied(old: Path, data: DataConfig, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(old, tmp_path / "old"))
    place = copy / "segmenter" if (copy / "segmenter").exists() else copy
    (place / "target.txt").unlink(missing_ok=True)
    (place / "target.txt").symlink_to("/dev/zero")
    with no_space_after(1 << 24), pytest.raises(UserError, match=r"target\.txt: is no plain file"):
        run.begin(data, tmp_path / "new", continued(copy), Reporter())


def test_the_command_line_takes_it_and_refuses_what_cannot_be(
    ssmt: Ssmt,  # noqa: F811
    model_directory: Path,
    toy_files: object,
    tmp_path: Path,
) -> None:
    options = ["--output", tmp_path / "new", "--max-updates", 1, "--from", model_directory]
    for name in ("source", "target", "valid_source", "valid_target"):
        options += [f"--{name.replace('_', '-')}", getattr(toy_files, name)]
    refused(ssmt("train", *options, "--preset", "tiny"), "a run --from a model has that model's settings")
    refused(ssmt("train", *options, "--set", "network.heads=4"), "has its network .network.heads was 2, now 4")
    refused(ssmt("train", *options, "--freeze", "encoders"), "has no part 'encoders'; its parts are decoder, ")
    everything = ["--freeze", "encoder", "--freeze", "decoder", "--freeze", "segments"]
    refused(ssmt("train", *options, *everything, "--output", tmp_path / "all"), "is given 2 times")
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    refused(ssmt("train", *options, *everything), "Every part of the network is frozen")
    shutil.rmtree(tmp_path / "new")
    refused(ssmt("train", *options[:-10], "--take", "encoder", *options[-8:]), "go with --from")
    assert ssmt("train", *options, "--freeze", "encoder").status == 0
    assert ssmt("train", "--output", tmp_path / "new", "--resume", "--max-updates", 2).status == 0


def test_a_part_is_taken_whole_or_not_at_all() -> None:
    """A decoder without what it was trained with would be another one."""
    covering, other = random_model(coverage=True), random_model()
    with pytest.raises(UserError, match=r"has the weight 'decoder\.coverage\.inner\.weight', for which these settings"):
        begin_with(other, covering, ["decoder"])
    with pytest.raises(UserError, match=r"has no weight 'decoder\.coverage"):
        begin_with(covering, other, ["decoder"])
    begin_with(other, covering, ["decoder.embedding", "segments"])
