"""Errors that are meant for users: each ends a command with status 2 and no traceback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class UserError(ValueError):
    """Something a user can mend: says what was wrong, where (file and line), and what to do."""


class LineError(UserError):
    """A bad text, by its place in the input; whoever read the input knows which file that is."""

    def __init__(self, kind: str, number: int, problem: str) -> None:
        super().__init__(f"{kind} {number}: {problem}")
        self.kind, self.number, self.problem = kind, number, problem


class Unfinished(UserError):  # noqa: N818 (it says what is left to do)
    """Work that could not be ended here. What is done is kept: the same call goes on from there."""


class NotNumbersError(UserError):
    """Finite weights can be so large that what they compute is not finite."""

    def __init__(self) -> None:
        super().__init__(
            "The model's probabilities are not numbers: its weights are damaged, or its training has diverged"
        )


@contextmanager
def recognising_not_numbers() -> Iterator[None]:
    """Layers with weights of 8 bits have no way to go on with what is not finite, and say so in their own words."""
    try:
        yield
    except RuntimeError as error:
        if "ChooseQuantizationParams" in str(error):
            raise NotNumbersError from None
        raise


@contextmanager
def renumbered(numbers: Sequence[int]) -> Iterator[None]:
    """Errors about a text of a part become errors about its number in the whole: `numbers` are those of the part."""
    try:
        yield
    except LineError as error:
        raise LineError(error.kind, numbers[error.number - 1], error.problem) from None


class Stopped(Exception):  # noqa: N818 (it is no error)
    """A signal ended the work before its end. Everything is saved: the same call goes on from there."""

    def __init__(self, signal: str) -> None:
        super().__init__(f"Stopped by {signal}; everything is saved")
        self.signal = signal


class EndedElsewhere(Exception):  # noqa: N818 (the error was another's)
    """Another process has ended a training and says why; this one ends with the same status, and without a word."""

    def __init__(self, status: int) -> None:
        super().__init__("Another process has ended the training, and says why")
        self.status = status
