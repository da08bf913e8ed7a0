"""`python -m rmsrepro.bench WHAT`: each benchmark is a module of this folder with a `main(argv)`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from rmsrepro.errors import ConfigError, UserError, fail

BENCHMARKS = ("norms", "cells", "steps", "invariance")


def main(argv: Sequence[str]) -> int:
    """Run the benchmark named first on the command line."""
    known = [name for name in BENCHMARKS if importlib.util.find_spec(f"rmsrepro.bench.{name}")]
    if not argv or argv[0] not in known:
        given = argv[0] if argv else "nothing"
        raise ConfigError(f"benchmark: {given} was given; allowed are {', '.join(known)} (add --help for its options)")
    return importlib.import_module(f"rmsrepro.bench.{argv[0]}").main(argv[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.exit(fail(error))
