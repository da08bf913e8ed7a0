"""A command line of argparse's whose faults are one line, as those of every other command here."""

from __future__ import annotations

import argparse
from typing import NoReturn

from rmsrepro.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """Raises ConfigError where argparse prints its usage over many lines and leaves."""

    def error(self, message: str) -> NoReturn:
        """Raise `message`."""
        raise ConfigError(f"{message}; --help shows what there is")
