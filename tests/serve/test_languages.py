"""A model of several target languages behind several pairs: one copy, one worker, each pair's own language."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

from ssmt.config import DataConfig, compose
from ssmt.errors import UserError
from ssmt.progress import Reporter
from ssmt.serve.app import create_app
from ssmt.serve.service import Place, load_service
from ssmt.training import run
from ssmt.translator import Translator
from tests.serve.conftest import SETTINGS
from tests.test_languages import sentences

LANGUAGES = ("ss", "zu")


@pytest.fixture(scope="module", params=["ssmt", "dpe"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model from English into two languages, which has learnt enough to end its sentences."""
    folder = tmp_path_factory.mktemp("several")
    rows = sentences()
    (folder / "pairs.tsv").write_text(
        "".join(f"{row[0]}\t{row[1 + k]}\t{code}\n" for row in rows for k, code in enumerate(LANGUAGES))
    )
    corpora = ({"pairs": str(folder / "pairs.tsv")},)
    small = [one for one in SETTINGS if not one.startswith("text.target_language")]
    small += [f"model={request.param}", "text.subword_vocabulary=60", "training.max_updates=80"]
    with torch.random.fork_rng():
        data = DataConfig.model_validate({"train": corpora, "valid": corpora})
        run.begin(data, folder / "model", compose("tiny", None, small), Reporter())
        assert run.train(folder / "model", torch.device("cpu"), Reporter()) is None
    return folder / "model"


def weights(translator: Translator) -> list[int]:
    """Where they are in memory, those of a first model that cuts text too."""
    first = getattr(translator.segmenter, "first", None)
    models = [translator.model, translator.segmenter.model, *([first.model] if first else [])]
    return [parameter.data_ptr() for model in models for parameter in model.parameters()]


def test_pairs_of_a_model_share_its_weights_and_its_worker(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, loaded = Translator.load.__func__, []  # type: ignore[attr-defined]

    def counted(cls: type[Translator], path: str | Path, *arguments: Any, **others: Any) -> Translator:
        loaded.append(Path(path))
        return load(cls, path, *arguments, **others)

    monkeypatch.setattr(Translator, "load", classmethod(counted))
    elsewhere = directory.parent / ".." / directory.parent.name / "model"  # the same directory by another name
    service = load_service([f"en-zu={directory}", f"en-ss={elsewhere}", f"xh-zu={directory}"])
    assert len([path for path in loaded if path.resolve() == directory.resolve()]) == 1
    assert list(service.models) == ["en-zu", "en-ss", "xh-zu"]
    first, *others = service.models.values()
    for other in others:
        assert other.worker is first.worker
        assert weights(other.translator) == weights(first.translator)
    before = {thread.ident for thread in threading.enumerate()}
    with service.running():
        assert len([one for one in threading.enumerate() if one.ident not in before]) == 1
    assert 'ssmt_queue_sentences{model="en-zu,en-ss,xh-zu"} 0.0' in service.metrics.exposition().decode()


def test_answers_are_those_of_the_model_asked_for_the_language(directory: Path) -> None:
    model = Translator.load(directory)
    sources = [row[0] for row in sentences()[::8]]
    with TestClient(create_app(load_service([str(directory)]))) as client:
        answers: dict[str, list[str]] = {}
        scores: dict[str, list[float]] = {}

        def ask(code: str) -> None:
            told = {"model": f"en-{code}", "sources": sources}
            results = client.post("/v1/translate", json=told).json()["results"]
            answers[code] = [result["translation"] for result in results]
            scored = client.post("/v1/score", json=told | {"targets": answers[code]}).json()["results"]
            scores[code] = [result["score"] for result in scored]

        asking = [threading.Thread(target=ask, args=[code]) for code in LANGUAGES]  # both in the queue at once
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        for code in LANGUAGES:
            expected = model.into(code).translate(sources)
            assert answers[code] == expected.texts
            assert scores[code] == pytest.approx(model.into(code).score(sources, expected.texts), abs=1e-4)
        assert answers["zu"] != answers["ss"]
        asked = {"q": sources, "source": "en", "target": "ss"}
        assert client.post("/translate", json=asked).json()["translatedText"] == answers["ss"]


def test_a_directory_alone_is_served_into_all_its_languages(directory: Path, tmp_path: Path) -> None:
    assert [(place.source, place.target) for place in Place.parse(str(directory))] == [("en", "ss"), ("en", "zu")]
    with pytest.raises(UserError, match="the model translates into ss, zu, not into xh"):
        load_service([f"en-xh={directory}"])
    with pytest.raises(UserError, match="Two models are for en-zu"):
        load_service([str(directory), f"en-zu={directory}"])
    unnamed = tmp_path / "unnamed"
    unnamed.mkdir()
    for path in directory.iterdir():
        if path.name != "config.json":
            (unnamed / path.name).symlink_to(path)
    config = json.loads((directory / "config.json").read_text())
    config["text"]["source_language"] = None
    (unnamed / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="does not say which languages it is for; name it as en-ss="):
        load_service([str(unnamed)])
