"""The errors that a person caused and can mend, as opposed to bugs and crashed runs, and how they are told."""

import sys


class UserError(Exception):
    """Something the user can put right; the command line prints it as one line and exits with 2."""


class ConfigError(UserError):
    """A configuration that cannot be run; the text names the field, what was given and what is allowed."""


class DataError(UserError):
    """Data that is missing or is not what it should be; the text names the file, what was expected and the way out."""


def single_line(text: object) -> str:
    """Return a text, such as any library's error, on one line."""
    return " ".join(str(text).split())


def fail(error: object) -> int:
    """Print one line about what the user can mend; returns the exit code for that."""
    print(f"error: {single_line(error)}", file=sys.stderr)
    return 2
