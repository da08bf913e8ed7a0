"""The errors that a person caused and can mend, as opposed to bugs and crashed runs."""


class UserError(Exception):
    """Something the user can put right; the command line prints it as one line and exits with 2."""


class ConfigError(UserError):
    """A configuration that cannot be run; the text names the field, what was given and what is allowed."""


class DataError(UserError):
    """Data that is missing or is not what it should be; the text names the file, what was expected and the way out."""
