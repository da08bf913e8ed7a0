"""A command line of argparse's whose faults are one line, as those of every other command here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from rmsrepro.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """Raises ConfigError where argparse prints its usage over many lines and leaves."""

    def error(self, message: str) -> NoReturn:
        """Raise `message`."""
        raise ConfigError(f"{message}; --help shows what there is")


def with_dashes(argv: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Turn `key=value` into `--key=value` for these keys, as the commands of runs and sweeps write them."""
    return [f"--{word}" if "=" in word and word.partition("=")[0] in keys else word for word in argv]
