"""One worker a model, whichever of its languages it is asked for: a queue of sentences from all requests, computed in
batches in a thread of its own.

What arrives within a few milliseconds, or while a batch is computed, goes together if it is asked for in one language
with equal options and has a like length; a sentence's result is the same whatever its batch. Sentences of a request
that nobody waits for any more (the client has gone, the time is over) leave the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ssmt.errors import LineError, UserError
from ssmt.serve.limits import InputRefusal, Refusal
from ssmt.serve.operations import USUAL_BEAM, Input, Operation
from ssmt.translator import Translator

SHORT = 20  # characters; below it lengths do not differ in cost
FADING = 0.8  # weight of each batch in the estimate of speed, against that of the one after it
PROMISED = 0.75  # of a request's time; what is expected to take longer is refused at once, not when the time is over


@dataclass(frozen=True)
class Batching:
    window: float = 0.005  # seconds that a sentence waits for others when nothing is computed
    characters: int = 2_000  # of a batch, padding included, at the usual beam
    across_requests: bool = True  # else a batch has sentences of one request only


class Ticket:
    """A request as its worker sees it: results come in one by one, and a future has them all."""

    def __init__(self, translator: Translator, operation: Operation, count: int) -> None:
        self.translator, self.operation = translator, operation
        self.results, self.missing = [None] * count, count
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[Any]] = self.loop.create_future()

    def goes_with(self, other: Ticket) -> bool:
        """Whether their sentences can be computed together."""
        return self.translator is other.translator and self.operation == other.operation

    def put(self, place: int, result: Any) -> None:
        self.results[place] = result
        self.missing -= 1
        if not self.missing:
            self._tell(lambda: self.future.set_result(self.results))

    def fail(self, error: BaseException) -> None:
        self._tell(lambda: self.future.set_exception(error))

    def _tell(self, settle: Callable[[], None]) -> None:
        def unless_settled() -> None:
            if not self.future.done():
                settle()

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(unless_settled)


@dataclass(frozen=True, eq=False)
class Waiting:
    """One sentence in the queue."""

    ticket: Ticket
    place: int
    input: Input
    arrived: float = field(default_factory=time.monotonic)

    @cached_property
    def length(self) -> int:
        return max(self.input.length, self.ticket.operation.output, SHORT)

    @cached_property
    def cost(self) -> float:
        """Characters at the usual beam."""
        return self.length * self.ticket.operation.rows / USUAL_BEAM


@dataclass
class Speed:
    """How fast batches have been computed lately. A character of a small batch takes many times as long as one of a
    large batch, so that each batch counts by what it held: while requests pile up, batches are large."""

    cost: float = 0.0
    seconds: float = 0.0

    def note(self, cost: float, seconds: float) -> None:
        """A batch."""
        self.cost, self.seconds = FADING * self.cost + cost, FADING * self.seconds + seconds

    def seconds_of(self, cost: float) -> float:
        """What so much is expected to take; 0 until there was a batch."""
        return cost * self.seconds / self.cost if self.cost else 0.0


class Worker:
    """The queue and the thread of one model."""

    def __init__(
        self,
        batching: Batching | None = None,
        most_waiting: int = 1_000,
        observe: Callable[[int, float], None] = lambda sentences, seconds: None,
    ) -> None:
        """`observe` is told the sentences of each batch and the seconds that it took."""
        self.batching, self.most_waiting, self.observe = batching or Batching(), most_waiting, observe
        self._queue: list[Waiting] = []
        self._computing = 0.0  # cost of the batch under way
        self._speed = Speed()
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="ssmt-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread when the queue is empty."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def waiting(self) -> int:
        """Sentences in the queue."""
        return len(self._queue)

    async def perform(
        self, translator: Translator, operation: Operation, inputs: Sequence[Input], seconds: float
    ) -> list[Any]:
        """The results of an operation on each input, within so many seconds. `translator` is the model, asked for one
        of its languages."""
        if not inputs:
            return []
        ticket = Ticket(translator, operation, len(inputs))
        self._admit([Waiting(ticket, place, one) for place, one in enumerate(inputs)], seconds)
        try:
            return await asyncio.wait_for(ticket.future, seconds)
        except asyncio.TimeoutError:
            raise Refusal(503, f"Not done after {seconds:g} seconds; try again later", seconds) from None
        finally:
            self._forget(ticket)

    def _admit(self, items: list[Waiting], seconds: float) -> None:
        with self._changed:
            if self._stopping:
                raise Refusal(503, "The service is about to end", 10)
            wait = self._speed.seconds_of(self._computing + sum(item.cost for item in self._queue))
            expected = wait + self._speed.seconds_of(sum(item.cost for item in items))
            is_late = expected > PROMISED * seconds
            if self._queue and (len(self._queue) + len(items) > self.most_waiting or is_late):
                raise Refusal(503, "Too many requests wait already; try again later", max(1.0, wait))
            self._queue += items
            self._changed.notify()

    def _forget(self, ticket: Ticket) -> None:
        if ticket.missing:
            with self._changed:
                self._queue = [item for item in self._queue if item.ticket is not ticket]

    def _work(self) -> None:
        while batch := self._next_batch():
            began = time.monotonic()
            self._compute(batch)
            seconds = time.monotonic() - began
            self._speed.note(sum(item.cost for item in batch), seconds)
            self._computing = 0.0
            self.observe(len(batch), seconds)

    def _next_batch(self) -> list[Waiting]:
        """Waits for sentences; empty when the worker is to end."""
        with self._changed:
            while True:
                if self._queue:
                    left = self._queue[0].arrived + self.batching.window - time.monotonic()
                    is_full = sum(item.cost for item in self._queue) >= self.batching.characters
                    if left <= 0 or is_full or self._stopping:
                        return self._take()
                    self._changed.wait(left)
                elif self._stopping:
                    return []
                else:
                    self._changed.wait()

    def _take(self) -> list[Waiting]:
        """The sentence that has waited longest, and those that go with it."""
        first = self._queue[0]
        batch: list[Waiting] = []
        shortest = longest = first.length
        for item in self._queue:
            goes_with = item.ticket is first.ticket or (
                self.batching.across_requests and item.ticket.goes_with(first.ticket)
            )
            shorter, longer = min(shortest, item.length), max(longest, item.length)
            cost = longer * (len(batch) + 1) * first.ticket.operation.rows / USUAL_BEAM
            if goes_with and longer <= 2 * shorter and (cost <= self.batching.characters or not batch):
                batch.append(item)
                shortest, longest = shorter, longer
        taken = set(map(id, batch))
        self._queue = [item for item in self._queue if id(item) not in taken]
        self._computing = sum(item.cost for item in batch)
        return batch

    def _compute(self, batch: list[Waiting]) -> None:
        """An input that cannot be computed must not take the others of its batch with it: then each goes alone."""
        ticket = batch[0].ticket
        try:
            results = ticket.operation.run(ticket.translator, [item.input for item in batch])
        except Exception as error:
            if len(batch) > 1:
                for item in batch:
                    self._compute([item])
            else:
                ticket.fail(_for_caller(error, batch[0].place))
            return
        for item, result in zip(batch, results, strict=True):
            item.ticket.put(item.place, result)


def _for_caller(error: Exception, place: int) -> Exception:
    """What a caller can mend is an answer, which counts texts as the caller does."""
    if isinstance(error, LineError):
        return InputRefusal(error.kind, place, error.problem)
    return Refusal(400, str(error)) if isinstance(error, UserError) else error
