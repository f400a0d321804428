"""What the tests of verbs share."""

from tests.cli.test_bad_input import ssmt  # noqa: F401 (a fixture for the whole directory)
