"""Every kind of model: trained on two files, it translates, scores and segments by the same verbs."""

from __future__ import annotations

import json
import operator
from dataclasses import astuple, replace
from pathlib import Path

import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from ssmt import Translator
from ssmt.config import PRESETS, Config, NetworkConfig, compose, differences, preset_of, read_config
from ssmt.directory import load_model
from ssmt.errors import UserError
from ssmt.model.body import Body, Cache, Memory
from ssmt.model.layers import Embedding
from ssmt.model.ssmt import SSMT
from ssmt.model.transformer import Decoder, Encoder
from ssmt.model.translation import TranslationModel
from ssmt.progress import Reporter
from ssmt.registry import KINDS, kind_of
from ssmt.segmentation import Segmentation, join_segments
from ssmt.text.batch import Batch
from ssmt.text.lines import read_lines
from ssmt.text.pieces import Pieces
from ssmt.text.preparation import TrainingFiles
from ssmt.text.vocabulary import SubwordVocabulary, Vocabulary
from ssmt.training import run
from ssmt.training.log import read_log
from tests.cli.test_bad_input import Ssmt, ssmt  # noqa: F401 (a fixture)
from tests.conftest import PAPER_DECODER

SIZES = [
    "text.source_vocabulary=60",
    "text.subword_vocabulary=70",
    "text.lexicon_size=80",
    "text.longest_segment=4",
    "network.width=32",
    "network.heads=2",
    "network.feedforward=64",
    "network.encoder_layers=1",
    "network.decoder_layers=1",
    "network.dropout=0.05",
    "training.batch_characters=400",
    "training.learning_rate=0.01",
    "training.warmup_updates=50",
    "training.patience=none",
    "training.max_epochs=none",
    "training.validate_every=60",
    "training.max_updates=120",
    "segmenter.longest_segment=6",
    "segmenter.max_updates=60",
]
ABLATIONS = sorted((Path(__file__).parents[1] / "configs" / "ablation").glob("*.yaml"))


def trained(directory: Path, files: TrainingFiles, *settings: str, config: Path | None = None) -> Path:
    run.begin(files, directory, compose("tiny", config, [*SIZES, *settings]), Reporter())
    assert run.train(directory, torch.device("cpu"), Reporter()) is None
    return directory


@pytest.fixture(scope="module", params=["ssmt", "bpe", "ulm", "dpe"])
def directory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles
) -> Path:
    return trained(tmp_path_factory.mktemp("kinds") / request.param, toy_files, f"model={request.param}")


@pytest.fixture(scope="module")
def model(directory: Path) -> Translator:
    return Translator.load(directory, "cpu")


@pytest.fixture(scope="module")
def valid(toy_files: TrainingFiles) -> tuple[list[str], list[str]]:
    return read_lines(toy_files.valid_source), read_lines(toy_files.valid_target)


class Untied(TranslationModel):
    """A network that the program does not know: its output layer is its own."""

    def __init__(self, vocabulary: SubwordVocabulary, config: Config) -> None:
        super().__init__(vocabulary, config)
        source, target = vocabulary.source, vocabulary.target
        self.encoder = Encoder(source, config.network)
        self.decoder = Decoder(Embedding(len(target), config.network, target.pad), config.network)
        self.logits = torch.nn.Linear(config.network.width, len(target))
        self.padding = target.pad

    def log_probability(self, batch: Batch) -> torch.Tensor:
        logits = self.logits(self.states(batch))
        nats = F.cross_entropy(logits.mT, batch.target, ignore_index=self.padding, reduction="none")
        return -nats.sum(dim=1)


def test_a_new_kind_is_one_class_and_one_entry(
    tmp_path: Path, toy_files: TrainingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "untied", replace(KINDS["ulm"], network=Untied))
    directory = trained(tmp_path / "untied", toy_files, "model=untied", "text.subword_sampling=0.1")
    model = Translator.load(directory, "cpu")
    assert isinstance(model.model, Untied)
    sources, targets = (read_lines(path)[:3] for path in (toy_files.valid_source, toy_files.valid_target))
    found = model.translate(sources)
    assert model.score(sources, found.texts) == pytest.approx(found.scores, abs=1e-4)
    assert sacrebleu.corpus_chrf(found.texts, [targets]).score > 20
    assert ["".join(cut) for cut in model.segment(sources, targets)] == targets
    assert len(Translator.load(directory, "cpu", int8=True).translate(sources).texts) == 3


def test_a_kind_that_is_not_there_is_named(tmp_path: Path, toy_files: TrainingFiles) -> None:
    with pytest.raises(UserError, match="no kind of model 'bpee'; did you mean 'bpe'\\?; known: ssmt, bpe, ulm, dpe"):
        trained(tmp_path / "none", toy_files, "model=bpee")
    assert not (tmp_path / "none").exists()


class Recurrent(Body):
    """A body that the program does not know: a GRU over characters that sees the mean of the source."""

    def __init__(self, embedding: Embedding, width: int) -> None:
        super().__init__()
        self.embedding, self.cell = embedding, torch.nn.GRUCell(2 * width, width)

    def states(self, previous: Tensor, memory: Memory | None) -> Tensor:
        cache = self.start(memory, len(previous), 1)
        return torch.stack([self.step(symbols, cache) for symbols in previous.unbind(dim=1)], dim=1)

    def start(self, memory: Memory | None, sentences: int, hypotheses: int, in_step: bool = True) -> Cache:
        assert memory is not None
        weights = memory.mask / memory.mask.sum(dim=1, keepdim=True)
        mean = (memory.states * weights.unsqueeze(-1)).sum(dim=1)
        return RecurrentCache(mean, torch.zeros_like(mean).repeat_interleave(hypotheses, dim=0))

    def step(self, symbols: Tensor, cache: Cache, reading: Tensor | None = None) -> Tensor:
        assert isinstance(cache, RecurrentCache)
        source = cache.source.repeat_interleave(len(symbols) // len(cache.source), dim=0)
        state = self.cell(torch.cat([self.embedding.tokens(symbols), source], dim=1), cache.state)
        cache.state = state if reading is None else torch.where(reading.unsqueeze(1), state, cache.state)
        return state


class RecurrentCache(Cache):
    def __init__(self, source: Tensor, state: Tensor) -> None:
        self.source, self.state = source, state

    def reorder(self, rows: Tensor) -> None:
        self.state = self.state[rows]

    def select_sentences(self, sentences: Tensor) -> None:
        self.source = self.source[sentences]


class RecurrentSSMT(SSMT):
    @staticmethod
    def body(embedding: Embedding, vocabulary: Vocabulary, config: NetworkConfig) -> Body:
        return Recurrent(embedding, config.width)


def test_a_new_body_is_one_class(tmp_path: Path, toy_files: TrainingFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segment scores, lattice and all searches see the states alone."""
    monkeypatch.setitem(KINDS, "recurrent", replace(KINDS["ssmt"], network=RecurrentSSMT))
    few = ["training.max_updates=30", "training.validate_every=30"]
    model = Translator.load(trained(tmp_path / "recurrent", toy_files, "model=recurrent", *few), "cpu")
    sources, targets = (read_lines(path)[:5] for path in (toy_files.valid_source, toy_files.valid_target))
    found = model.translate(sources, n_best=2)
    for source, texts, scores in zip(sources, found.texts, found.scores, strict=True):
        assert model.score([source] * 2, texts) == pytest.approx(scores, abs=1e-4)
    for search in model.kind.searches:
        together, alone = (
            model.translate(sources, search=search, max_length=20, batch_characters=size).texts for size in (9000, 1)
        )
        assert together == alone
    assert ["".join(cut) for cut in model.segment(sources, targets)] == targets


OTHER_VALUES = {
    "text.source_vocabulary": 24,  # the unigram model finds no more than 25 in this text
    "text.subword_vocabulary": 40,
    "text.lexicon": "ulm",
    "text.lexicon_size": 50,
    "text.longest_segment": 3,
    "network.character_layers": 2,
    "network.character_width": 16,
    "training.label_smoothing": 0.3,
    "segmenter.lexicon": "ngrams",
    "segmenter.longest_segment": 3,
    "segmenter.max_epochs": 1,
    "segmenter.max_updates": 1,
    "segmenter.max_minutes": 1e-6,
}
SWITCHES = (
    *("text.shared_vocabulary", "network.characters", "network.lexicon", "network.proper", "network.copies"),
    *("network.nested_subwords", "network.coverage", "segmenter.characters"),
)


@pytest.mark.parametrize(
    "settings",
    [[f"model={name}"] for name in KINDS]
    + [["model=bpe", "text.shared_vocabulary=false"], ["model=ssmt", "network.characters=true"]]
    + [["model=ssmt", "network.characters=true", "network.lexicon=false"], ["model=dpe", "segmenter.characters=true"]]
    + [["model=ssmt", "network.decoder_layers=2"], ["model=bpe", "network.decoder_layers=1"]],
    ids=" ".join,
)
def test_only_settings_said_to_be_without_effect_are(
    tmp_path: Path, toy_files: TrainingFiles, settings: list[str]
) -> None:
    """Two updates, with every setting that not all kinds use changed in turn: other weights, or it has no effect."""
    few = ["training.max_updates=2", "segmenter.max_updates=2", "training.validate_every=2"]
    few += ["training.batch_characters=9000", "network.decoder_layers=3", "training.chrf_sentences=0", *settings]

    def weights(name: str, *changes: str) -> list[tuple[str, list[float]]]:
        made = trained(tmp_path / name, toy_files, *few, *changes)
        tensors = [load_file(path) for path in sorted(made.rglob("model.safetensors"))]
        return [(name, tensor.tolist()) for model in tensors for name, tensor in sorted(model.items())]

    unchanged, config = weights("unchanged"), compose("tiny", settings=[*SIZES, *few])
    is_on = {key: operator.attrgetter(key)(config) for key in SWITCHES}
    if not (is_on["network.characters"] and is_on["network.lexicon"]):  # with both off, nothing would generate segments
        del is_on["network.characters"], is_on["network.lexicon"]
    others = OTHER_VALUES | {key: str(not on).lower() for key, on in is_on.items()}
    changes = {key: f"{key}={value}" for key, value in others.items()}
    same = {key for key, change in changes.items() if weights(key, change) == unchanged}
    assert same == kind_of(config).settings_without_effect(config) & set(changes)


def test_what_a_person_sets_without_effect_is_said(ssmt: Ssmt, tmp_path: Path, toy_files: TrainingFiles) -> None:  # noqa: F811
    names = ("--source", "--target", "--valid-source", "--valid-target")
    files = [part for pair in zip(names, astuple(toy_files), strict=True) for part in pair]
    settings = [part for setting in SIZES for part in ("--set", setting)]
    said = {}
    for name, more in {"bpe": ["model=bpe"], "ssmt": ["training.label_smoothing=0.2"]}.items():
        made = [*settings, *(part for setting in more for part in ("--set", setting)), "--max-updates", 1]
        said[name] = " ".join(ssmt("train", *files, "--preset", "tiny", "--output", tmp_path / name, *made).err.split())
    unused = "text.source_vocabulary, text.lexicon_size, text.longest_segment, segmenter.longest_segment, segmenter"
    assert f"warning: no effect on this model (model: bpe): {unused}.max_updates" in said["bpe"]
    assert "label_smoothing, segmenter.longest_segment, segmenter.max_updates" in said["ssmt"]
    assert "lexicon_size" not in said["ssmt"]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("path", [*ABLATIONS, PAPER_DECODER], ids=lambda path: path.stem)
def test_configurations_set_nothing_without_effect(path: Path, preset: str) -> None:
    config = compose(preset, path)
    said = {key for key, _, _ in differences(preset_of(preset, config), config)}
    assert not said & kind_of(config).settings_without_effect(config)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_puts_words_first_and_trains_and_translates(
    tmp_path: Path, toy_files: TrainingFiles, preset: str
) -> None:
    few = [*SIZES, "training.max_updates=10", "training.validate_every=10", "training.chrf_sentences=0"]
    sizes = ["network.encoder_layers=1", "network.decoder_layers=3", "text.longest_segment=8", "training.max_epochs=5"]
    run.begin(toy_files, tmp_path / "run", compose(preset, settings=[*few, *sizes]), Reporter())
    assert run.train(tmp_path / "run", torch.device("cpu"), Reporter()) is None
    model = Translator.load(tmp_path / "run", "cpu")
    assert model.config.network.words_first
    assert model.config.network.ngram_inputs
    found = model.n_best_translations(["we see a bird."], n_best=1, max_length=20)[0][0]
    assert model.score(["we see a bird."], [found.text]) == pytest.approx([found.score], abs=1e-4)


def test_scores_of_cuts_by_posterior_do_not_depend_on_the_batch(
    model: Translator, valid: tuple[list[str], list[str]]
) -> None:
    sources, targets = valid
    together, alone = (model.posterior_segmentations(sources, targets, batch_characters=size) for size in (10_000, 1))
    assert [one.segments for one in together] == [one.segments for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4)


def test_it_learns(directory: Path) -> None:
    """About 4 bits are what the alphabet alone would cost; chrF shows that the validation translates."""
    measured = [line for line in read_log(directory) if "valid_bits_per_character" in line]
    assert [line["update"] for line in measured] == [60, 120]
    assert measured[-1]["valid_bits_per_character"] < 1.0
    assert measured[-1]["valid_chrf"] > 20


def test_the_score_of_a_translation_is_score_of_it(model: Translator, valid: tuple[list[str], list[str]]) -> None:
    sources, _ = valid
    for search in model.kind.searches:
        if model.score_type(search) != model.score_type():
            continue  # of one derivation: the other searches of ssmt
        found = model.translate(sources, search=search, n_best=3)
        for source, texts, segments, scores in zip(sources, *found, strict=True):
            assert model.score([source] * len(texts), texts) == pytest.approx(scores, abs=1e-4)
            assert ["".join(few) for few in segments] == texts
            if search != "sample":
                assert len(set(texts)) == len(texts)
                assert len(texts) == 3 or search == "mbr"  # whose candidates may be the same


def test_the_output_does_not_depend_on_the_batch(model: Translator, valid: tuple[list[str], list[str]]) -> None:
    sources, targets = valid
    for search in (model.kind.searches[0], "sample"):
        together, alone = (
            model.translate(sources, search=search, n_best=2, batch_characters=size) for size in (10_000, 1)
        )
        assert together.texts == alone.texts
        assert together.segments == alone.segments
    assert model.score(sources, targets) == pytest.approx(model.score(sources, targets, batch_characters=1), abs=1e-4)


def test_lengths_and_prefixes_are_kept(model: Translator, valid: tuple[list[str], list[str]]) -> None:
    sources, targets = valid
    prefixes = [target[: row % 9] for row, target in enumerate(targets)]
    prefixes[1] = "izin"  # in the middle of a subword, and not what the source says
    prefixes[2] = targets[2] + " a"
    for texts, prefix in zip(model.translate(sources, prefixes=prefixes, n_best=2).texts, prefixes, strict=True):
        assert all(text.startswith(prefix) for text in texts)
    assert all(len(text) <= 5 for text in model.translate(sources, max_length=5).texts)
    assert all(25 <= len(text) <= 28 for text in model.translate(sources, min_length=25, max_length=28).texts)
    long = "inyoni " * 12  # longer than any limit, whole subwords and not
    assert model.translate(sources[:1], prefixes=[long], max_length=3).texts == [long]


def test_texts_are_cut_into_segments_that_spell_them(model: Translator, valid: tuple[list[str], list[str]]) -> None:
    sources, targets = valid
    texts = [*targets, "  a  b ", "ni", ""]
    given = [*sources, "x", "y", "z"]
    for method in ("viterbi", "posterior"):
        for segments, text in zip(model.segment(given, texts, method), texts, strict=True):  # type: ignore[arg-type]
            assert "".join(segments) == text
            assert "" not in segments
            assert all(segment == " " for segment in segments if " " in segment), "a blank stands alone"
    unknown = ["Ω nibo☃na.", "☃☃"]
    assert ["".join(cut) for cut in model.segment(None, unknown, allow_unknown=True)] == unknown
    with pytest.raises(UserError, match=r"target 1: the model has never seen 'Ω' \(U\+03A9\)"):
        model.segment(None, unknown)
    for row, segments in zip(model.boundary_posteriors(sources, targets), model.segment(sources, targets), strict=True):
        assert len(row) == len("".join(segments))
        assert all(0 <= probability <= 1 for probability in row)
        assert row[-1] == pytest.approx(1)


def test_a_search_that_a_model_lacks_is_refused_with_those_it_has(model: Translator) -> None:
    lacking, own = "dynamic", "beam, sample, mbr"
    if model.config.model == "ssmt":
        lacking, own = "beam", "marginal, dynamic, mixture, sample, mbr"
    with pytest.raises(UserError, match=f"no search '{lacking}'; it has {own}"):
        model.translate(["I see."], search=lacking)  # type: ignore[arg-type]


def test_the_verbs_say_what_they_score(
    ssmt: Ssmt,  # noqa: F811
    directory: Path,
    valid: tuple[list[str], list[str]],
    toy_files: TrainingFiles,
    tmp_path: Path,
) -> None:
    of_score = "marginal" if directory.name == "ssmt" else "tokens"
    of_segment = "tokens" if directory.name in ("bpe", "ulm") else "path"
    output = tmp_path / "output"

    def records(verb: str, *options: object) -> list[dict[str, object]]:
        ssmt(verb, directory, *options, "--json", "--output", output)
        return [json.loads(line) for line in read_lines(output)]

    both = ["--source", toy_files.valid_source, "--target", toy_files.valid_target]
    translated = records("translate", "--input", toy_files.valid_source)
    assert {record["score_type"] for record in translated} == {of_score}
    assert all("".join(record["segments"]) == record["translation"] for record in translated)  # type: ignore[arg-type]
    assert {record["score_type"] for record in records("score", *both)} == {of_score}
    assert {record["score_type"] for record in records("segment", *both)} == {of_segment}
    assert [record["translation"] for record in records("segment", *both)] == valid[1]


# DPE: three stages


@pytest.fixture(scope="module")
def dpe(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles) -> Path:
    return trained(tmp_path_factory.mktemp("stages") / "dpe", toy_files, "model=dpe")


def test_the_stages_can_be_seen(dpe: Path, toy_files: TrainingFiles) -> None:
    targets = read_lines(toy_files.target)
    lines = read_lines(dpe / "segmented" / "train.txt")
    assert [line.replace(" ", "").replace("▁", " ").removeprefix(" ") for line in lines] == targets
    segmenter, _ = load_model(dpe / "segmenter", torch.device("cpu"))
    assert isinstance(segmenter, SSMT)
    assert segmenter.segments.characters is None
    assert [line["update"] for line in read_log(dpe / "segmenter") if "valid_bits_per_character" in line] == [60]
    # The lines are the segmenter's best paths given the source, and what the second model learns from.
    cut = Translator.load(dpe, "cpu").segment(read_lines(toy_files.source), targets)
    assert cut == Translator.load(dpe / "segmenter", "cpu").segment(read_lines(toy_files.source), targets)
    words = [[part for part in line.replace("▁", " ▁ ").split() if part != "▁"] for line in lines]
    assert words == [[segment for segment in segments if segment != " "] for segments in cut]
    pieces = Pieces.load(dpe / "target.txt")
    assert {piece for line in lines for piece in line.split(" ")} <= set(pieces.pieces)


def test_limits_are_for_each_stage(dpe: Path) -> None:
    first, second = read_config(dpe / "segmenter" / "config.json"), read_config(dpe / "config.json")
    assert (first.training.max_updates, second.training.max_updates) == (60, 120)
    assert (first.model, second.model) == ("ssmt", "dpe")
    assert first.text.lexicon == "bpe"
    assert first.text.length_ratio == second.text.length_ratio is not None


@pytest.mark.parametrize("path", ABLATIONS, ids=lambda path: path.stem)
def test_ablations_train_and_translate(path: Path, tmp_path: Path, toy_files: TrainingFiles) -> None:
    short = ["training.max_updates=2", "training.chrf_sentences=0", "segmenter.max_updates=2"]
    directory = trained(tmp_path / "run", toy_files, *short, config=path)
    model = Translator.load(directory, "cpu")
    segmenter = directory / "segmenter" if model.config.model == "dpe" else directory
    first = read_config(segmenter / "config.json")
    assert first.network.characters == ("characters" in path.stem)
    assert first.text.lexicon == ("bpe" if path.stem == "dpe" else "ngrams")
    assert (model.config.model == "ssmt") == path.stem.startswith("lexicon")
    search = "dynamic" if model.config.model == "ssmt" else None
    assert len(model.translate(["I see a bird."], search=search).texts) == 1  # type: ignore[arg-type]


def test_the_ablations_are_the_five_rows_of_table_4() -> None:
    assert len(ABLATIONS) == 5


def test_every_cut_of_subwords_is_shown_but_those_at_blanks() -> None:
    segments = ["nge", "zi", " ", "20", "23", "."]
    assert join_segments(segments, "-") == "nge-zi 2023."
    assert join_segments(segments, "-", cuts_anywhere=True) == "nge-zi 20-23-."
    assert Segmentation(segments, 0.0, cuts_anywhere=True).joined("|") == "nge|zi 20|23|."


def test_sources_are_read_as_they_were_in_training(model: Translator, directory: Path) -> None:
    """dpe's second model gets the source ids of the first one's corpora."""
    sources = ["the\u00a0old  dog", "\u3000sees"]
    if model.config.model == "dpe":
        first, _ = load_model(directory / "segmenter", torch.device("cpu"))
        assert model.vocabulary.encode_sources(sources) == first.vocabulary.encode_sources(sources)
    ids = model.vocabulary.encode_sources(["the old dog"])
    assert model.vocabulary.encode_sources(["  the   old dog "]) == ids
