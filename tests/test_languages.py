"""Several languages in one model, of every kind: trained together, asked for one by one."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch
from safetensors.torch import load_file

from ssmt import Translator
from ssmt.config import Config, DataConfig, TextConfig, changed, compose
from ssmt.errors import UserError
from ssmt.evaluation.model_output import language_to_ask
from ssmt.evaluation.morphemes import Text, analyse_texts
from ssmt.evaluation.report import runs_report
from ssmt.progress import Reporter
from ssmt.search.options import SearchOptions
from ssmt.text.alphabet import Alphabet
from ssmt.text.corpus import Corpus
from ssmt.text.lexicon import most_frequent_ngrams
from ssmt.text.preparation import prepare
from ssmt.text.sampling import SubwordSampler
from ssmt.text.subwords import Subwords, TargetSubwords
from ssmt.text.vocabulary import SubwordVocabulary, Vocabulary
from ssmt.training import run
from ssmt.training.log import read_log
from tests.cli.test_bad_input import Ssmt, refused, ssmt  # noqa: F401 (a fixture)
from tests.test_kinds import SIZES
from tests.training.runs import Messages

SUBJECTS = {"I": ("ni", "gu"), "you": ("wu", "sho"), "she": ("a", "me"), "we": ("ti", "ra")}
VERBS = {"see": ("bon", "kel"), "call": ("biz", "dup"), "carry": ("thwál", "moč"), "eat": ("dl", "fag")}
OBJECTS = {"a bird": ("inyoni", "pip"), "2 cows": ("izinkomo ezi-2", "2 mus"), "it": ("into", "ef")}
LANGUAGES = ("aa", "bb")


def sentences() -> list[tuple[str, str, str]]:
    """48 sources with their translations into two made-up languages."""
    return [
        (
            f"{subject} {verb} {thing}.",
            *(f"{SUBJECTS[subject][k]}{VERBS[verb][k]}{'ao'[k]} {OBJECTS[thing][k]}." for k in (0, 1)),
        )
        for subject, verb, thing in itertools.product(SUBJECTS, VERBS, OBJECTS)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    """aa as two files, a third of bb as TSV with the language in its third column."""
    directory = tmp_path_factory.mktemp("languages")
    rows = sentences()
    valid, train = rows[::6], [row for place, row in enumerate(rows) if place % 6]
    (directory / "train.en").write_text("".join(f"{row[0]}\n" for row in train))
    (directory / "train.aa").write_text("".join(f"{row[1]}\n" for row in train))
    (directory / "train.tsv").write_text("".join(f"{row[0]}\t{row[2]}\tbb\n" for row in train[::3]))
    (directory / "valid.tsv").write_text(
        "".join(f"{row[0]}\t{row[1 + k]}\t{language}\n" for row in valid for k, language in enumerate(LANGUAGES))
    )
    plain = {"source": str(directory / "train.en"), "target": str(directory / "train.aa"), "target_language": "aa"}
    return DataConfig.model_validate(
        {"train": [plain, {"pairs": str(directory / "train.tsv")}], "valid": [{"pairs": str(directory / "valid.tsv")}]}
    )


@pytest.fixture(scope="module", params=["ssmt", "bpe", "ulm", "dpe"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: DataConfig
) -> tuple[Path, Messages]:
    directory = tmp_path_factory.mktemp("trained") / request.param
    messages = Messages()
    settings = [f"model={request.param}", "training.language_temperature=5", "training.max_updates=180"]
    run.begin(data, directory, compose("tiny", None, [*SIZES, *settings]), messages)
    assert run.train(directory, torch.device("cpu"), messages) is None
    return directory, messages


@pytest.fixture(scope="module")
def model(trained: tuple[Path, Messages]) -> Translator:
    return Translator.load(trained[0], "cpu")


def test_each_language_is_written_when_it_is_asked_for(model: Translator) -> None:
    assert model.languages == LANGUAGES
    sources = [row[0] for row in sentences()[::3]]
    chrf = np.zeros((2, 2))
    for asked, language in enumerate(LANGUAGES):
        texts = model.into(language).translate(sources).texts
        for other in (0, 1):
            references = [row[1 + other] for row in sentences()[::3]]
            chrf[asked, other] = sacrebleu.corpus_chrf(texts, [references]).score
    assert chrf[0, 0] > chrf[0, 1] + 10, chrf
    assert chrf[1, 1] > chrf[1, 0] + 10, chrf


def test_scores_and_segments_are_of_the_language(model: Translator) -> None:
    sources = [row[0] for row in sentences()[::6]]
    for place, language in enumerate(LANGUAGES):
        into = model.into(language)
        found = into.translate(sources, beam=2)
        assert into.score(sources, found.texts) == pytest.approx(found.scores, abs=1e-4)
        other = model.into(LANGUAGES[1 - place]).score(sources, found.texts)
        assert sum(other) < sum(found.scores) - 1, "the other language finds it less probable"
        targets = [row[1 + place] for row in sentences()[::6]]
        assert ["".join(segments) for segments in into.segment(sources, targets)] == targets


def test_a_model_of_several_must_be_asked_for_one(model: Translator) -> None:
    for use in (lambda: model.translate(["we eat it."]), lambda: model.score(["x"], ["i"])):
        with pytest.raises(UserError, match="translates into aa, bb: choose one of them"):
            use()
    with pytest.raises(UserError, match=r"cannot be asked for the language 'ab'.*it translates into aa, bb"):
        model.into("ab")


def test_validation_says_each_language_and_the_mean(trained: tuple[Path, Messages]) -> None:
    directory, messages = trained
    said = [line for line in messages.said if "on validation" in line][-1]
    assert "(aa " in said
    assert ", bb " in said
    logged = [entry for entry in read_log(directory) if "valid_chrf" in entry][-1]
    for metric in ("bits_per_character", "chrf"):
        each = [logged[f"valid_{metric}:{language}"] for language in LANGUAGES]
        assert logged[f"valid_{metric}"] == pytest.approx(sum(each) / 2)


def test_bits_per_character_of_a_language_are_its_scores(trained: tuple[Path, Messages], model: Translator) -> None:
    """Of the last model, which is the best one unless the validation got worse."""
    entries = [entry for entry in read_log(trained[0]) if "valid_bits_per_character" in entry]
    best = [entry for entry in entries if entry["improved"]][-1]
    for place, language in enumerate(LANGUAGES):
        valid = sentences()[::6]
        targets = [row[1 + place] for row in valid]
        nats = -sum(model.into(language).score([row[0] for row in valid], targets, allow_unknown=True))
        bits = nats / sum(len(text) + 1 for text in targets) / np.log(2)
        assert best[f"valid_bits_per_character:{language}"] == pytest.approx(bits, rel=1e-4)


def test_the_verbs_take_the_language(trained: tuple[Path, Messages], ssmt: Ssmt, tmp_path: Path) -> None:  # noqa: F811
    directory, _ = trained
    (tmp_path / "s").write_text("we see it.\n")
    (tmp_path / "t").write_text("tibona into.\n")
    both = ["--source", tmp_path / "s", "--target", tmp_path / "t"]
    for verb in (["translate", directory, "-i", tmp_path / "s"], ["score", directory, *both]):
        refused(ssmt(*verb), "translates into aa, bb; --to says into which")
        outputs = {ssmt(*verb, "--to", language).out for language in LANGUAGES}
        assert len(outputs) == 2
    assert ssmt("segment", directory, *both, "--to", "aa").out.replace("-", "") == "tibona into.\n"


def test_evaluation_has_a_table_for_each_language_and_the_mean(
    trained: tuple[Path, Messages],
    model: Translator,
    ssmt: Ssmt,  # noqa: F811
    tmp_path: Path,
) -> None:
    rows = [(row[0], row[1 + k], language) for row in sentences()[::12] for k, language in enumerate(LANGUAGES)]
    (tmp_path / "test.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    outcome = ssmt(
        *("evaluate", "--model", f"m={trained[0]}", "--pairs", tmp_path / "test.tsv", "--samples", 0, "--beam", 2),
        *("--json", "--save-translations", tmp_path / "kept"),
    )
    record = json.loads(outcome.out)
    expected = {}
    kept = (tmp_path / "kept" / "m.txt").read_text().splitlines()
    for language in LANGUAGES:
        places = [place for place, row in enumerate(rows) if row[2] == language]
        texts = model.into(language).translate([rows[place][0] for place in places], beam=2).texts
        assert [kept[place] for place in places] == texts
        expected[language] = sacrebleu.corpus_chrf(texts, [[rows[place][1] for place in places]]).score
        (scores,) = [score["score"] for score in record["languages"][language]["scores"] if score["metric"] == "chrF"]
        assert scores == pytest.approx(expected[language])
    assert record["mean"]["m"]["chrF"] == pytest.approx(sum(expected.values()) / 2)


def test_a_model_of_one_language_is_measured_beside_one_of_several(
    model_directory: Path, data: DataConfig, toy_config: Config, tmp_path: Path
) -> None:
    """Whether or not it knows its language; one that knows another is refused."""
    assert language_to_ask(model_directory, "aa") is None
    assert language_to_ask(model_directory, None) is None
    few = {"text": {"target_language": "aa"}, "training": {"max_updates": 1, "chrf_sentences": 0}}
    run.begin(
        DataConfig(train=data.train[:1], valid=data.train[:1]),
        tmp_path / "aa",
        changed(toy_config, few, ""),
        Reporter(),
    )
    assert language_to_ask(tmp_path / "aa", "aa") is None
    with pytest.raises(UserError, match="aa: translates into aa, not into 'ab'"):
        language_to_ask(tmp_path / "aa", "ab")


def measurements(directory: Path, files: Path) -> dict[str, list[object]]:
    """The verbs that measure a model, for text in `aa`; all but the language."""
    rows = sentences()[::6]
    for name, lines in (
        ("s", [row[0] for row in rows]),
        ("t", [row[1] for row in rows]),
        ("gold.tsv", [f"{word}\t{word[:2]}-{word[2:]}" for word in ("nibona", "wubiza", "abona", "tithwála")]),
    ):
        (files / name).write_text("".join(f"{line}\n" for line in lines))
    texts = ["--source", files / "s", "--reference", files / "t"]
    return {
        "evaluate": ["evaluate", "--model", f"m={directory}", *texts, "--samples", 0, "--beam", 2, "--json"],
        "morphology": ["morphology", "--model", f"m={directory}", "--gold", files / "gold.tsv", "--json"],
        "sweep": ["sweep", "decode", "--model", f"m={directory}", *texts, "--beam", 2, "-o", files / "sweep", "--json"],
        "report": ["report", directory, "--samples", 0, "--beam", 2, "--examples", 3, "-o", files / "report.html"],
        "compositional": [
            *("compositional", "--train", files / "t", "--test-source", files / "s", "--test-target", files / "t"),
            *("--segmenter", directory, "--size", 3, "-o", files / "subsets"),
        ],
    }  # fmt: skip


def test_verbs_that_measure_models_ask_for_the_language(
    trained: tuple[Path, Messages],
    ssmt: Ssmt,  # noqa: F811
    tmp_path: Path,
) -> None:
    verbs = measurements(trained[0], tmp_path)
    for name, verb in verbs.items():
        refused(ssmt(*verb), "translates into aa, bb; `to` says into which")
        refused(ssmt(*verb, "--to", "aab"), "translates into aa, bb, not into 'aab'.*did you mean 'aa'")
        if name in ("report", "compositional"):  # the next test calls the others
            assert ssmt(*verb, "--to", "aa").status == 0
    for name, option in (("morphology", "--model"), ("evaluate", "--model"), ("compositional", "--segmenter")):
        verb = verbs[name]
        place = verb.index(option)
        other = (
            []
            if name == "compositional"
            else ["--segmented" if name == "morphology" else "--hypothesis", tmp_path / "t"]
        )
        refused(ssmt(*verb[:place], *verb[place + 2 :], *other, "--to", "aa"), f"--to needs {option}")


def test_measurements_are_those_of_the_model_asked_for_the_language(
    trained: tuple[Path, Messages],
    model: Translator,
    ssmt: Ssmt,  # noqa: F811
    tmp_path: Path,
) -> None:
    verbs, into = measurements(trained[0], tmp_path), model.into("aa")
    sources, references = ((tmp_path / name).read_text().splitlines() for name in "st")
    chrf = sacrebleu.corpus_chrf(into.translate(sources, beam=2).texts, [references]).score
    scores = json.loads(ssmt(*verbs["evaluate"], "--to", "aa").out)["scores"]
    assert [one["score"] for one in scores if one["metric"] == "chrF"] == pytest.approx([chrf])

    points = json.loads(ssmt(*verbs["sweep"], "--to", "aa").out)["points"]
    own = into.kind.searches[0]
    assert [point["chrF"] for point in points if point["search"] == own] == pytest.approx([chrf])
    refused(ssmt(*verbs["sweep"], "--to", "bb"), r"holds a sweep of something else \(to differ\)")

    # The segments of the model, written to a file by hand, have the model's numbers.
    words = [line.split("\t")[0] for line in (tmp_path / "gold.tsv").read_text().splitlines()]
    cuts = {language: model.into(language).segment(None, words) for language in LANGUAGES}
    (tmp_path / "cuts").write_text("".join("|".join(segments) + "\n" for segments in cuts["aa"]))
    both = json.loads(ssmt(*verbs["morphology"], "--to", "aa", "--segmented", f"f={tmp_path / 'cuts'}").out)
    assert both["systems"]["m"] == both["systems"]["f"]

    test = Text(tmp_path / "t", references)
    for language in LANGUAGES:
        train_sentences, _ = analyse_texts(test, test, segmenter=trained[0], to=language)
        found = {word.text: list(word.morphemes) for sentence in train_sentences for word in sentence}
        assert list(found.values()) == model.into(language).segment(None, list(found))


def test_a_report_shows_the_validation_text_of_the_language(
    trained: tuple[Path, Messages], model: Translator, tmp_path: Path
) -> None:
    valid = sentences()[::6]
    page = runs_report([trained[0]], to="bb", sentences=5, examples=5, beam=2, samples=0).render()
    assert "first 5 sentences of the validation text in bb" in page
    assert "Models translate into bb by their own search" in page
    for source, aa, bb in valid[:5]:
        assert f">{source}<" in page
        assert f">{bb}<" in page
        assert f">{aa}<" not in page
    translations = model.into("bb").translate([row[0] for row in valid[:5]], beam=2).texts
    assert all(f">{text}<" in page for text in translations)
    with pytest.raises(UserError, match="The runs validate on aa, bb, not on 'cc': give a source and a reference"):
        runs_report([shutil.copytree(trained[0], tmp_path / "run", ignore=lambda *_: ["model.safetensors"])], to="cc")


# What is learnt from the text


def test_the_lexicon_is_balanced_by_temperature(tmp_path: Path, data: DataConfig) -> None:
    """Against counts of all n-grams, each weighted by its language's repetitions."""
    for temperature in (1.0, 5.0):
        config = TextConfig(source_vocabulary=60, lexicon_size=60, longest_segment=3, language_temperature=temperature)
        vocabulary, _ = prepare(data, config, tmp_path / f"{temperature}", Reporter())
        assert isinstance(vocabulary, Vocabulary)
        sizes = np.array([40, 14])
        shares = (sizes / 54) ** (1 / temperature)
        times = 54 * shares / shares.sum() / sizes
        counts: Counter[str] = Counter()
        train = [row for place, row in enumerate(sentences()) if place % 6]
        for texts, weight in (([row[1] for row in train], times[0]), ([row[2] for row in train[::3]], times[1])):
            for text in texts:
                for word in text.replace(".", " ").replace("-", " ").replace("2", " ").split():
                    for length in (2, 3):
                        for start in range(len(word) - length + 1):
                            counts[word[start : start + length]] += weight
        longer = {entry for entry in vocabulary.lexicon.texts if len(entry) > 1 and not entry.startswith("<")}
        least = min(counts[entry] for entry in longer)
        assert all(entry in longer for entry, count in counts.items() if count > least + 1e-6)
        assert len(vocabulary.lexicon) == 60


def test_weighted_counts_of_one_are_plain_counts() -> None:
    alphabet = Alphabet.of_characters("abc")
    text = np.append(alphabet.encode("abcabcaab"), alphabet.eos)
    plain = most_frequent_ngrams(lambda: [text], alphabet, 12, 3)
    weighted = most_frequent_ngrams(lambda: [text], alphabet, 12, 3, lambda: [np.ones(len(text))])
    assert (plain.entries, plain.counts) == (weighted.entries, weighted.counts)


def test_start_symbols_are_by_language_and_nobody_writes_them(trained: tuple[Path, Messages]) -> None:
    model = Translator.load(trained[0], "cpu")
    part = trained[0] / "data" / "train"
    corpus = Corpus(part, model.vocabulary.batch_symbols)
    groups = corpus.group_of_pair
    batch = corpus.batch([0, len(corpus) - 1])
    assert [corpus.groups[groups[row]].target_language for row in (0, len(corpus) - 1)] == ["aa", "bb"]
    if isinstance(model.vocabulary, Vocabulary):
        symbols = [model.vocabulary.alphabet.symbols[id] for id in batch.start_symbols.tolist()]
        assert symbols == ["<2aa>", "<2bb>"]
    else:
        assert isinstance(model.vocabulary, SubwordVocabulary)
        assert batch.start_symbols.tolist() == [model.vocabulary.eos] * 2
        tags = [model.vocabulary.source.tags[symbol] for symbol in ("<2aa>", "<2bb>")]
        assert batch.source is not None
        assert batch.source[:, 0].tolist() == tags
        drawn = model.into("aa").n_best_translations(
            ["we eat it.", "I see 2 cows."], SearchOptions(search="sample", n_best=20, temperature=3.0, max_length=12)
        )
        assert not any("<2" in one.text for ranked in drawn for one in ranked)


def test_tags_are_no_text_and_everything_else_is_cut_as_before() -> None:
    texts = [row[1] for row in sentences()]
    for kind in (Subwords, TargetSubwords):
        plain = kind.train(texts, 60, warn=lambda message: None)
        tagged = plain.with_tags(["<2aa>", "<of bt>", "<2aa>"])
        assert tagged.tags == {"<2aa>": len(plain), "<of bt>": len(plain) + 1}
        assert tagged.encode(texts) == plain.encode(texts)
        assert tagged.with_tags(["<of bt>"]) is tagged
        written = tagged.encode(["<2aa> we"])[0]
        assert len(plain) not in written, "who writes it means no tag"
        assert kind(tagged.serialised).tags == tagged.tags


def test_sampled_subwords_keep_their_tags() -> None:
    texts = [row[1] for row in sentences()]
    subwords = TargetSubwords.train(texts, 60, warn=lambda message: None).with_tags(["<2aa>"])
    ids = [[subwords.tags["<2aa>"], *line] for line in subwords.encode(texts)]
    for drawn, line in zip(SubwordSampler(subwords, "bpe", 0.5).resample(ids, "1" * len(ids)), ids, strict=True):
        assert drawn[0] == line[0]
        assert subwords.processor.decode(drawn[1:-1]) == subwords.processor.decode(line[1:-1])


def test_new_characters_change_no_cut_of_old_text() -> None:
    texts = [row[1] for row in sentences()]
    for algorithm in ("bpe", "unigram"):
        plain = TargetSubwords.train(texts, 70, algorithm, warn=lambda message: None)  # type: ignore[arg-type]
        wider = plain.with_characters("čaž")
        assert len(wider) == len(plain) + 2
        assert wider.encode(texts) == plain.encode(texts)
        assert wider.unk not in wider.encode(["čuž"])[0]
        assert plain.unk in plain.encode(["čuž"])[0]


def test_an_origin_can_be_a_tag(tmp_path: Path, data: DataConfig) -> None:
    corpora = [data.train[0].model_copy(update={"origin": "bt", "tagged": True}), data.train[1]]
    tagged = data.model_copy(update={"train": tuple(corpora)})
    vocabulary, _ = prepare(tagged, TextConfig(source_vocabulary=60, lexicon_size=60), tmp_path / "d", Reporter())
    assert dict(vocabulary.source.tags) == {"<of bt>": len(vocabulary.source) - 1}
    corpus = Corpus(tmp_path / "d" / "train")
    firsts = [int(corpus.source[row][0]) for row in range(len(corpus))]
    assert [first == len(vocabulary.source) - 1 for first in firsts] == [row < 40 for row in range(len(corpus))]


def test_validation_in_a_language_that_was_not_trained_is_refused(tmp_path: Path, data: DataConfig) -> None:
    other = data.train[0].model_copy(update={"target_language": "cc"})
    with pytest.raises(UserError, match="The validation text is in 'cc'; training is into aa, bb"):
        prepare(data.model_copy(update={"valid": (other,)}), TextConfig(), tmp_path / "d", Reporter())


def test_one_language_alone_is_as_without_a_name(tmp_path: Path, data: DataConfig, toy_config: Config) -> None:
    named = DataConfig(train=data.train[:1], valid=data.train[:1])
    plain = data.train[0].model_copy(update={"target_language": None})
    unnamed = DataConfig(train=(plain,), valid=(plain,))
    weights = []
    for name, corpora in (("named", named), ("unnamed", unnamed)):
        small = {"training": {"max_updates": 2, "chrf_sentences": 0}}
        run.begin(corpora, tmp_path / name, changed(toy_config, small, "test"), Reporter())
        run.train(tmp_path / name, torch.device("cpu"), Reporter())
        weights.append(load_file(tmp_path / name / "model.safetensors"))
        assert Translator.load(tmp_path / name, "cpu").languages == ()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert json.loads((tmp_path / "named" / "config.json").read_text())["data"]["train"][0]["target_language"] == "aa"


def test_prepared_text_in_a_language_that_the_model_lacks_is_refused(tmp_path: Path, data: DataConfig) -> None:
    settings = [*SIZES, "training.max_updates=1", "training.chrf_sentences=0"]
    run.begin(data, tmp_path / "run", compose("tiny", None, settings), Reporter())
    groups = tmp_path / "run" / "data" / "train" / "groups.json"
    listed = json.loads(groups.read_text())
    listed[0][1] = "qq"
    groups.write_text(json.dumps(listed))
    with pytest.raises(UserError, match="has text in qq, which the model does not know"):
        run.train(tmp_path / "run", torch.device("cpu"), Reporter())
