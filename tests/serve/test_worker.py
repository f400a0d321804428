"""The queue and its batches: what goes together, what is refused, and that batches change no result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ssmt.errors import LineError
from ssmt.search.options import SearchOptions
from ssmt.serve.limits import Refusal
from ssmt.serve.operations import Input, Operation, Posteriors, Score, Segment, Translate
from ssmt.serve.worker import Batching, Speed, Worker
from ssmt.translator import Translator
from tests.conftest import Pair


@dataclass(frozen=True)
class Upper(Operation):
    """Writes large, notes its batches, and waits for `gate` first."""

    option: int = 0

    def run(self, translator: Any, inputs: Sequence[Input]) -> Sequence[Any]:
        translator.entered.release()
        translator.gate.wait(10)
        if any(one.source == "bad" for one in inputs):
            raise LineError("source", [one.source for one in inputs].index("bad") + 1, "is bad")
        if any(one.source == "broken" for one in inputs):
            raise RuntimeError("broken")
        translator.batches.append([one.source for one in inputs])
        return [one.source.upper() for one in inputs]


class Model:
    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Semaphore(0)
        self.batches: list[list[str]] = []


@pytest.fixture
def model() -> Model:
    return Model()


def worker_of(**settings: Any) -> Worker:
    worker = Worker(**settings)
    worker.start()
    return worker


async def reached(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


async def held(worker: Worker, model: Any) -> asyncio.Task[list[Any]]:
    """A batch that is under way until the gate opens: what comes now waits in the queue."""
    task = asyncio.ensure_future(worker.perform(model, Upper(), [Input("first")], 10))
    await reached(lambda: model.entered.acquire(blocking=False))
    return task


def ask(worker: Worker, model: Any, *texts: str, option: int = 0, seconds: float = 10) -> asyncio.Task[list[Any]]:
    return asyncio.ensure_future(worker.perform(model, Upper(option), [Input(text) for text in texts], seconds))


def test_requests_with_equal_options_and_like_lengths_share_batches(model: Model) -> None:
    async def scenario() -> None:
        worker = worker_of()
        await held(worker, model)
        asked = [
            ask(worker, model, "a", "b"),
            ask(worker, model, "c", option=1),
            ask(worker, model, "d", "e" * 100),
            ask(worker, model, "f"),
        ]
        await reached(lambda: worker.waiting() == 6)
        model.gate.set()
        assert await asyncio.gather(*asked) == [["A", "B"], ["C"], ["D", "E" * 100], ["F"]]
        assert model.batches == [["first"], ["a", "b", "d", "f"], ["c"], ["e" * 100]]
        worker.stop()

    asyncio.run(scenario())


def test_languages_of_a_model_wait_in_one_queue_and_share_no_batch(model: Model) -> None:
    async def scenario() -> None:
        worker, other = worker_of(), Model()
        other.gate.set()
        await held(worker, model)
        asked = [ask(worker, model, "a"), ask(worker, other, "b"), ask(worker, model, "c"), ask(worker, other, "d")]
        await reached(lambda: worker.waiting() == 4)
        model.gate.set()
        assert await asyncio.gather(*asked) == [["A"], ["B"], ["C"], ["D"]]
        assert (model.batches, other.batches) == ([["first"], ["a", "c"]], [["b", "d"]])
        worker.stop()

    asyncio.run(scenario())


def test_batches_are_bounded_and_can_be_kept_apart(model: Model) -> None:
    async def scenario(across: bool) -> None:
        worker = worker_of(batching=Batching(characters=60, across_requests=across))
        model.gate.clear()
        model.batches.clear()
        await held(worker, model)
        asked = [
            ask(worker, model, "a", "b"),
            ask(worker, model, "c", "d", "e", "f"),
        ]  # short ones count as 20 characters
        await reached(lambda: worker.waiting() == 6)
        model.gate.set()
        await asyncio.gather(*asked)
        shared = [["a", "b", "c"], ["d", "e", "f"]]
        assert model.batches[1:] == (shared if across else [["a", "b"], ["c", "d", "e"], ["f"]])
        worker.stop()

    asyncio.run(scenario(True))
    asyncio.run(scenario(False))


def test_a_window_gathers_what_comes_together(model: Model) -> None:
    async def scenario() -> None:
        model.gate.set()
        worker = worker_of(batching=Batching(window=0.5))
        asked = [ask(worker, model, "a"), ask(worker, model, "b")]
        await asyncio.sleep(0.01)
        asked.append(ask(worker, model, "c"))
        await asyncio.gather(*asked)
        assert model.batches == [["a", "b", "c"]]
        worker.stop()

    asyncio.run(scenario())


def test_whoever_goes_away_costs_nothing_more(model: Model) -> None:
    async def scenario() -> None:
        worker = worker_of()
        first = await held(worker, model)
        gone, stays = ask(worker, model, "gone", "too"), ask(worker, model, "stays")
        await reached(lambda: worker.waiting() == 3)
        gone.cancel()
        await reached(lambda: worker.waiting() == 1)
        model.gate.set()
        assert (await first, await stays) == (["FIRST"], ["STAYS"])
        assert model.batches == [["first"], ["stays"]]
        worker.stop()

    asyncio.run(scenario())


def test_a_full_queue_and_a_deadline_refuse(model: Model) -> None:
    async def scenario() -> None:
        worker = worker_of(most_waiting=3)
        first = await held(worker, model)
        many = ask(worker, model, *"abcdef")  # nothing waits: one request of any size can come
        await reached(lambda: worker.waiting() == 6)
        with pytest.raises(Refusal, match="Too many requests wait") as full:
            await ask(worker, model, "g")
        assert (full.value.status, full.value.retry_after) == (503, 1.0)
        many.cancel()
        await reached(lambda: worker.waiting() == 0)
        with pytest.raises(Refusal, match=r"Not done after 0\.05 seconds") as late:
            await ask(worker, model, "late", seconds=0.05)
        assert (late.value.status, worker.waiting()) == (503, 0)
        model.gate.set()
        await first
        await reached(lambda: worker._computing == 0)
        worker._speed = Speed(cost=20, seconds=20)  # a slow model: the next one would not be done in time
        model.gate.clear()
        await held(worker, model)
        waits = ask(worker, model, "waits", seconds=100)
        await reached(lambda: worker.waiting() == 1)
        for seconds in (10, 70):  # 20 for what is computed, 20 for what waits, 20 for itself; not all that it has
            with pytest.raises(Refusal, match="Too many requests wait") as slow:
                await ask(worker, model, "too late", seconds=seconds)
            assert slow.value.retry_after == 40.0
        model.gate.set()
        assert await waits == ["WAITS"]
        worker.stop()
        with pytest.raises(Refusal, match="about to end"):
            await ask(worker, model, "after")

    asyncio.run(scenario())


def test_small_batches_do_not_make_a_full_queue_seem_late() -> None:
    """Each takes nearly as long as a large one, and says little of a queue that will be worked off in large ones."""
    speed = Speed()
    assert speed.seconds_of(1000) == 0
    speed.note(cost=2000, seconds=1)
    for _ in range(3):
        speed.note(cost=20, seconds=0.1)
    assert speed.seconds_of(2000) == pytest.approx(2000 * (0.8**3 + 0.244) / (0.8**3 * 2000 + 20 * 2.44))
    for _ in range(30):
        speed.note(cost=20, seconds=0.1)
    assert speed.seconds_of(2000) == pytest.approx(10, rel=0.1), "what is long ago is forgotten"


def test_one_bad_input_does_not_spoil_the_others(model: Model) -> None:
    async def scenario() -> None:
        worker = worker_of()
        await held(worker, model)
        good, bad, broken = ask(worker, model, "good"), ask(worker, model, "fine", "bad"), ask(worker, model, "broken")
        await reached(lambda: worker.waiting() == 4)
        model.gate.set()
        assert await good == ["GOOD"]
        with pytest.raises(Refusal, match="source 2: is bad") as refusal:
            await bad
        assert refusal.value.status == 400
        with pytest.raises(RuntimeError, match="broken"):
            await broken
        assert await ask(worker, model, "next") == ["NEXT"]
        worker.stop()

    asyncio.run(scenario())


def test_stopping_finishes_what_waits(model: Model) -> None:
    async def scenario() -> None:
        worker = worker_of()
        first = await held(worker, model)
        second = ask(worker, model, "second")
        await reached(lambda: worker.waiting() == 1)
        stopping = asyncio.get_running_loop().run_in_executor(None, worker.stop)
        model.gate.set()
        await stopping
        assert (await first, await second) == (["FIRST"], ["SECOND"])

    asyncio.run(scenario())


def test_results_are_those_of_the_model_alone(translator: Translator, toy_pairs: list[Pair]) -> None:
    """Whatever the batch: sentences of all lengths, in requests of all sizes, with four operations at once."""
    pairs = toy_pairs[::5]
    operations: list[Operation] = [
        Translate(SearchOptions(n_best=3), with_segments=True),
        Score(),
        Segment(n_best=2),
        Posteriors(),
    ]

    async def scenario() -> None:
        worker = worker_of(batching=Batching(characters=200))
        inputs = [Input(source, "" if row % 2 else target) for row, (source, target) in enumerate(pairs)]
        for operation in operations:
            given = [Input(*pair) for pair in pairs] if not isinstance(operation, Translate) else inputs
            alone = [operation.run(translator, [one])[0] for one in given]
            asked = [
                asyncio.ensure_future(worker.perform(translator, operation, given[start:end], 60))
                for start, end in ((0, 1), (1, 5), (5, 6), (6, len(given)))
            ]
            together = [result for results in await asyncio.gather(*asked) for result in results]
            if isinstance(operation, Score | Posteriors):
                assert together == [pytest.approx(result, abs=1e-5) for result in alone]
            else:
                for some, other in zip(together, alone, strict=True):
                    assert [one.segments for one in some] == [one.segments for one in other]
                    assert [one.score for one in some] == pytest.approx([one.score for one in other], abs=1e-4)
        worker.stop()

    asyncio.run(scenario())
