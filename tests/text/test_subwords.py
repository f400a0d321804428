"""Source subwords: any text survives, sizes are clamped with a warning, damaged models are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssmt.errors import UserError
from ssmt.text.subwords import Algorithm, Subwords, TargetSubwords
from ssmt.text.vocabulary import SubwordVocabulary

TEXTS = ["the bird sees the birds", "the cow called the cows", "a bird was seen", "cows were called once"] * 3


def train(texts: list[str], size: int, algorithm: Algorithm = "bpe") -> tuple[Subwords, list[str]]:
    warnings: list[str] = []
    return Subwords.train(texts, size, algorithm, warn=warnings.append), warnings


@pytest.mark.parametrize(("algorithm", "size"), [("bpe", 30), ("unigram", 23)])
def test_a_size_that_fits_is_kept_without_a_warning(algorithm: Algorithm, size: int) -> None:
    subwords, warnings = train(TEXTS, size, algorithm)
    assert (len(subwords), warnings) == (size, [])


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_too_large_a_size_is_clamped_with_a_warning(algorithm: Algorithm) -> None:
    subwords, warnings = train(TEXTS, 5000, algorithm)
    assert len(subwords) < 200
    assert warnings == [f"the corpus has too little text for 5,000 subwords: {len(subwords)} are used"]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_too_small_a_size_is_raised_to_the_characters(algorithm: Algorithm) -> None:
    subwords, warnings = train(TEXTS, 8, algorithm)
    assert warnings == [f"the corpus has more characters than 8 subwords: {len(subwords)} are used"]
    assert all(subwords.unk not in line for line in subwords.encode(TEXTS))


@given(st.lists(st.text("abcdefg é日1.", min_size=1, max_size=12), min_size=1, max_size=4), st.integers(8, 300))
@settings(max_examples=40, deadline=None)
def test_any_text_and_size_give_subwords_for_all_its_characters(texts: list[str], size: int) -> None:
    texts = [text for text in texts if text.strip()] or ["a"]
    subwords, _ = train(texts, size)
    for line, text in zip(subwords.encode(texts), texts, strict=True):
        assert line[-1] == subwords.eos
        assert subwords.unk not in line
        assert "".join(subwords.processor.decode(line[:-1]).split()) == "".join(text.split())


def test_ids_of_specials_and_of_nothing() -> None:
    subwords, _ = train(TEXTS, 30)
    specials = [subwords.processor.unk_id(), subwords.processor.eos_id(), subwords.processor.pad_id()]
    assert specials == [subwords.unk, subwords.eos, subwords.pad]
    assert subwords.encode(["", "☃"]) == [[subwords.eos], subwords.encode(["☃"])[0]]
    assert subwords.unk in subwords.encode(["☃"])[0]
    assert subwords.encode([]) == []


def test_learning_is_reproducible_and_changes_no_character() -> None:
    first, _ = train([*TEXTS, "ﬁ ① Ａ"], 40)  # NFKC, sentencepiece's default, would change these
    second, _ = train([*TEXTS, "ﬁ ① Ａ"], 40)
    assert first.serialised == second.serialised
    assert first.processor.decode(first.encode(["ﬁ ① Ａ"])[0]) == "ﬁ ① Ａ"


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    subwords, _ = train(TEXTS, 30)
    subwords.save(tmp_path / "source.model")
    assert Subwords.load(tmp_path / "source.model").encode(TEXTS) == subwords.encode(TEXTS)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 100])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "source.model").write_bytes(content)
    with pytest.raises(UserError, match=r"source\.model: is not a sentencepiece model"):
        Subwords.load(tmp_path / "source.model")


def test_an_absent_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        Subwords.load(tmp_path / "source.model")


def test_no_text_at_all_is_a_users_error() -> None:
    with pytest.raises(UserError, match="cannot learn subwords"):
        train([], 30)


# Target subwords

ODD = " ab é日1.▁▅\t\0\u00a0\u2028"
NAMES = "a <unk> in </s> a <pad> text <s>"


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@given(st.lists(st.text(ODD, max_size=12), min_size=1, max_size=4), st.text(ODD, max_size=12))
@settings(max_examples=15, deadline=None)
def test_any_target_comes_back_exactly(algorithm: Algorithm, texts: list[str], new: str) -> None:
    texts = [*texts, ODD, NAMES]
    subwords = TargetSubwords.train(texts, 60, algorithm, warn=lambda message: None)
    for text in [*texts, new]:
        (ids,) = subwords.encode([text])
        assert subwords.unk not in ids
        assert SubwordVocabulary(subwords, subwords).decode(ids) == text
        assert "".join(subwords.cut(text)) == text
        assert all(len(segment) == 1 for segment in subwords.cut(text) if " " in segment)


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_the_characters_that_stand_for_others_come_back_too(algorithm: Algorithm) -> None:
    odd = "▁ ▅ \t \0 \uf5a0 \uf5a1 \uf5a2 \uf5a3"
    texts = [f"{odd} abc{k % 7} \uf5a0\uf5a1x" for k in range(50)]
    subwords = TargetSubwords.train(texts, 60, algorithm, warn=lambda message: None)
    vocabulary = SubwordVocabulary(subwords, subwords)
    for text in (odd, texts[3], "\uf5a3\uf5a0▁"):
        assert vocabulary.decode(subwords.encode([text])[0]) == text
        assert "".join(subwords.cut(text)) == text
        assert vocabulary.unknown_characters(text) == []
    assert "".join(subwords.cut("a\ufdd0\U0001f600")) == "a\ufdd0\U0001f600"
    assert vocabulary.unknown_characters("a\ufdd0") == ["\ufdd0"]
