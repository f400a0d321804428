"""Errors that are meant for users: each ends a command with status 2 and no traceback."""


class UserError(ValueError):
    """Something a user can mend: says what was wrong, where (file and line), and what to do."""


class LineError(UserError):
    """A bad text, by its place in the input; the command line knows which file that is."""

    def __init__(self, kind: str, number: int, problem: str) -> None:
        super().__init__(f"{kind} {number}: {problem}")
        self.kind, self.number, self.problem = kind, number, problem
