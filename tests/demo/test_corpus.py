"""The splits of the embedded corpus and the files they are written to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from ssmt.demo import Corpus, Sentence, make_corpus, write_corpus
from ssmt.demo.corpus import HELD_OUT, SENTENCES, english_words, is_set_aside
from ssmt.errors import UserError

SEED = 1


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(seed=SEED)


def compounds(sentences: Iterable[Sentence]) -> list[str]:
    return ["".join(word) for sentence in sentences for word in sentence.words]


def atoms(sentences: Iterable[Sentence]) -> list[str]:
    return [morpheme for sentence in sentences for word in sentence.words for morpheme in word]


def divergence(train: list[str], test: list[str], alpha: float) -> float:
    """1 - C_alpha(train || test), Appendix C."""
    p, q = Counter(train), Counter(test)
    return 1 - sum((p[k] / p.total()) ** alpha * (q[k] / q.total()) ** (1 - alpha) for k in p.keys() & q.keys())


def test_sizes(corpus: Corpus) -> None:
    sizes = {name: len(split) for name, split in corpus.splits.items()}
    assert sizes == {"train": SENTENCES, "dev": HELD_OUT, "test": HELD_OUT, "test.hard": HELD_OUT}


@pytest.mark.parametrize("side", ["english", "target"])
def test_no_sentence_comes_twice_on_either_side(corpus: Corpus, side: str) -> None:
    lines = [getattr(sentence, side) for split in corpus.splits.values() for sentence in split]
    assert len(lines) == len(set(lines))


def test_words_set_aside_are_in_the_hard_set_and_in_no_other(corpus: Corpus) -> None:
    for name in ("train", "dev", "test"):
        assert not any(is_set_aside(word, SEED) for sentence in corpus.splits[name] for word in sentence.words)
    for sentence in corpus.hard:
        assert 2 * sum(is_set_aside(word, SEED) for word in sentence.words) >= len(sentence.words)


def test_hard_words_are_new_but_made_of_known_morphemes(corpus: Corpus) -> None:
    known_words, known_morphemes = set(compounds(corpus.train)), Counter(atoms(corpus.train))
    hard = compounds(corpus.hard)
    assert sum(word not in known_words for word in hard) > 0.5 * len(hard)
    assert min(known_morphemes[morpheme] for morpheme in atoms(corpus.hard)) >= 5
    known_english = {word for sentence in corpus.train for word in english_words(sentence)}
    assert known_english.issuperset(word for sentence in corpus.hard for word in english_words(sentence))


@pytest.mark.parametrize("seed", [SEED, 2])
def test_divergences(corpus: Corpus, seed: int) -> None:
    drawn = corpus if seed == SEED else make_corpus(seed=seed)
    train_words, train_morphemes = compounds(drawn.train), atoms(drawn.train)
    for alpha in (0.1, 0.5):
        random_split, hard_split = (
            divergence(train_words, compounds(split), alpha) for split in (drawn.test, drawn.hard)
        )
        assert random_split < 0.4 < 0.55 < hard_split
        assert divergence(train_morphemes, atoms(drawn.test), alpha) < 0.03
        assert divergence(train_morphemes, atoms(drawn.hard), alpha) < 0.07


def test_novelty_chooses_the_compound_divergence() -> None:
    divergences = []
    for novelty in (0.3, 0.6, 1.0):
        drawn = make_corpus(2000, held_out=100, novelty=novelty)
        divergences.append(divergence(compounds(drawn.train), compounds(drawn.hard), 0.1))
    assert divergences == sorted(divergences)
    assert divergences[0] < 0.65
    assert divergences[-1] == 1


def test_the_corpus_is_small_enough_to_be_learnt_in_minutes(corpus: Corpus) -> None:
    assert sum(len(sentence.target) for sentence in corpus.train) / SENTENCES < 32
    assert max(len(sentence.target) for sentence in corpus.train) <= 80
    assert len({character for sentence in corpus.train for character in sentence.target}) < 60
    assert len(set(atoms(corpus.train))) < 350


def test_same_seed_same_corpus_on_every_machine_and_python() -> None:
    """A change of the grammar changes this digest, and with it every number that was measured on the corpus."""
    drawn = make_corpus(500, seed=7, held_out=50)
    text = "".join(f"{s.english}\t{s.gold}\n" for split in drawn.splits.values() for s in split)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b10aa345fb01c386"
    assert drawn == make_corpus(500, seed=7, held_out=50)
    assert drawn != make_corpus(500, seed=8, held_out=50)


def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "corpus"
    drawn = write_corpus(folder, sentences=600, seed=3, held_out=40)
    assert drawn == make_corpus(600, seed=3, held_out=40)
    endings = ("en", "art", "sentences.tsv", "words.tsv")
    expected = {f"{name}.{ending}" for name in ("train", "dev", "test", "test.hard") for ending in endings}
    assert {path.name for path in folder.iterdir()} == expected | {"README.txt"}

    for name, split in drawn.splits.items():
        text = {ending: (folder / f"{name}.{ending}").read_text("utf-8").splitlines() for ending in endings}
        assert text["en"] == [sentence.english for sentence in split]
        assert text["art"] == [sentence.target for sentence in split]
        for line, sentence in zip(text["sentences.tsv"], split, strict=True):
            english, target, gold = line.split("\t")
            assert (english, target, gold) == (sentence.english, sentence.target, sentence.gold)
            assert gold.replace("|", "") == target
        words = dict(line.split("\t") for line in text["words.tsv"])
        assert len(words) == len(text["words.tsv"])
        assert all(morphemes.replace("-", "") == word for word, morphemes in words.items())
        assert set(words) == set(compounds(split))


def test_readme_says_that_the_language_is_artificial(tmp_path: Path) -> None:
    write_corpus(tmp_path, sentences=500, seed=4, held_out=20, novelty=0.4)
    text = (tmp_path / "README.txt").read_text("utf-8")
    assert "artificial language" in text
    assert "sentences=500, seed=4, held_out=20, novelty=0.4" in text
    assert "{" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentences": 10}, "at least 500"),
        ({"held_out": 0}, "at least one"),
        ({"novelty": 0.0}, "above 0"),
        ({"novelty": 1.5}, "at most 1"),
    ],
)
def test_wrong_sizes_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_corpus(**arguments)  # type: ignore[arg-type]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="taken"):
        write_corpus(tmp_path / "taken", sentences=500, held_out=5)
