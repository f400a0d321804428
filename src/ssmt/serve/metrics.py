"""What a service counts, in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """One registry a service, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("ssmt_requests", "Answers by path and status", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "ssmt_request_seconds", "Time to answer a request", ["path"], buckets=_SECONDS, registry=registry
        )
        self.characters = Counter("ssmt_characters", "Characters received to work on", ["model"], registry=registry)
        self.errors = Counter("ssmt_errors", "Failures of the program itself", registry=registry)
        self.batches = Histogram(
            "ssmt_batch_sentences", "Sentences computed together", ["model"], buckets=_SENTENCES, registry=registry
        )
        self.computing = Histogram(
            "ssmt_batch_seconds", "Time to compute a batch", ["model"], buckets=_SECONDS, registry=registry
        )
        self.queue = Gauge("ssmt_queue_sentences", "Sentences that wait for a model", ["model"], registry=registry)

    def watch_queue(self, model: str, length: Callable[[], int]) -> None:
        self.queue.labels(model).set_function(length)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
