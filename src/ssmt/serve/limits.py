"""What a client may ask for, and how a service says no."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BUSY = 503  # the status of what is refused for want of time, and can be asked again
MOST_ACCOUNTS = 10_000  # callers that are remembered; beyond them the one that was away longest is forgotten


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """A request that is answered by a status and a sentence."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class InputRefusal(Refusal):
    """One of a request's inputs cannot be worked on: which, counted from 0, and why."""

    def __init__(self, kind: str, place: int, problem: str) -> None:
        super().__init__(400, f"{kind} {place + 1}: {problem}")
        self.kind, self.place, self.problem = kind, place, problem


@dataclass(frozen=True)
class Limits:
    request_bytes: int = 1 << 20  # of a body
    request_characters: int = 20_000  # of all texts of a request
    request_texts: int = 1_000
    characters_per_minute: int | None = None  # of a key or, where there are none, of an address; none: any number
    queue: int = 1_000  # sentences that may wait for a model
    deadline: float = 30.0  # seconds until a request is answered
    receive: float = 15.0  # seconds until a request has arrived
    connections: int = 900
    hypotheses: int = 32  # of a search, and of an n-best list
    candidates: int = 100  # of minimum-risk decoding
    output: int = 2_000  # characters that a translation can be asked to have

    def check_texts(self, texts: list[str], too_large: int = 413) -> int:
        """The characters of a request."""
        if len(texts) > self.request_texts:
            raise Refusal(too_large, f"{len(texts):,} texts; a request can have {self.request_texts:,}")
        characters = sum(map(len, texts))
        if characters > self.request_characters:
            raise Refusal(too_large, f"{characters:,} characters; a request can have {self.request_characters:,}")
        return characters


@dataclass
class Account:
    """What a caller has used."""

    allowance: float  # characters that may still be translated now
    updated: float
    characters: int = 0  # since the service began


class Accounts:
    """Characters a minute of each caller: an allowance that fills up steadily. Whoever has any left may send a request;
    it can overdraw the allowance, and then has to wait."""

    def __init__(self, characters_per_minute: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = characters_per_minute, clock
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def of(self, caller: str) -> Account:
        account = self._accounts.pop(caller, None) or Account(float(self.per_minute or 0), self.clock())
        self._accounts[caller] = account
        if len(self._accounts) > MOST_ACCOUNTS:
            self._accounts.popitem(last=False)
        return account

    def spend(self, caller: str, characters: int) -> None:
        account, now = self.of(caller), self.clock()
        if self.per_minute is not None:
            filled = account.allowance + (now - account.updated) * self.per_minute / 60
            account.allowance, account.updated = min(filled, float(self.per_minute)), now
            if account.allowance <= 0:
                wait = -account.allowance * 60 / self.per_minute
                raise Refusal(429, f"More than {self.per_minute:,} characters a minute; slow down", wait)
            account.allowance -= characters
        account.characters += characters

    def give_back(self, caller: str, characters: int) -> None:
        """What was not worked on costs nothing."""
        account = self.of(caller)
        account.allowance, account.characters = account.allowance + characters, account.characters - characters

    @contextmanager
    def spending(self, caller: str, characters: int) -> Iterator[None]:
        """Spend them on what is done meanwhile, if the service is not too busy to do it."""
        self.spend(caller, characters)
        try:
            yield
        except Refusal as refusal:
            if refusal.status == BUSY:
                self.give_back(caller, characters)
            raise
