"""The one kind of error that is meant for users: it ends a command with status 2 and no traceback."""


class UserError(ValueError):
    """Something a user can mend: says what was wrong, where (file and line), and what to do."""
