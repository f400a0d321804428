"""One small trained model for all tests of the service, in the same process and behind a real socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn
from fastapi.testclient import TestClient

import ssmt
from ssmt.progress import Reporter
from ssmt.serve import server
from ssmt.serve.app import create_app
from ssmt.serve.service import Service
from ssmt.text.preparation import TrainingFiles
from ssmt.translator import Translator

SETTINGS = [
    *("text.source_vocabulary=60", "text.lexicon_size=80", "text.longest_segment=4"),
    *("network.width=32", "network.heads=2", "network.feedforward=64", "network.dropout=0"),
    *("network.encoder_layers=1", "network.decoder_layers=1"),
    *("training.warmup_updates=20", "training.learning_rate=0.01", "training.batch_characters=700"),
    *("training.max_epochs=none", "training.patience=none", "training.chrf_sentences=0"),
    *("training.validate_every=1000", "text.source_language=en", "text.target_language=zu"),
]

NewClient = Callable[..., TestClient]


@pytest.fixture(scope="session")
def served_directory(tmp_path_factory: pytest.TempPathFactory, toy_files: TrainingFiles) -> Path:
    """A model of the toy language that has learnt it."""
    directory = tmp_path_factory.mktemp("served") / "run"
    files = (toy_files.source, toy_files.target, toy_files.valid_source, toy_files.valid_target)
    with torch.random.fork_rng():
        ssmt.train(*files, directory, preset="tiny", settings=SETTINGS, max_updates=120, reporter=Reporter())
    return directory


@pytest.fixture(scope="session")
def translator(served_directory: Path) -> Translator:
    return Translator.load(served_directory)


@pytest.fixture
def new_client(translator: Translator) -> Iterator[NewClient]:
    """A service with the model, spoken to without a socket."""
    clients: list[TestClient] = []

    def new(cors: tuple[str, ...] = (), **settings: Any) -> TestClient:
        clients.append(TestClient(create_app(Service([("en", "zu", translator)], **settings), cors)))
        clients[-1].__enter__()
        return clients[-1]

    yield new
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(new_client: NewClient) -> TestClient:
    return new_client()


class Running:
    """A service behind a socket, in a thread."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.listener = server.listen("127.0.0.1", 0)
        self.url = server.address_of(self.listener)
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(server.configuration(create_app(service), service.limits))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="session")
def running(translator: Translator) -> Iterator[Running]:
    """Two pairs of languages, the same model behind both."""
    with Running(Service([("en", "zu", translator), ("en", "ss", translator)])) as service:
        yield service
