"""`python -m rmsrepro.data fetch|check NAME [--root DIR]`: bring a data set here, or verify it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rmsrepro.arguments import Parser
from rmsrepro.data.registry import data_set_names, get_data_set
from rmsrepro.data.root import data_root
from rmsrepro.errors import UserError, fail


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line on stderr that says what is wrong."""
    parser = Parser(prog="python -m rmsrepro.data", description="Fetch or verify data sets.")
    parser.add_argument("action", choices=["fetch", "check"], help="download what is missing or wrong, or verify")
    parser.add_argument("name", help=", ".join(data_set_names()))
    parser.add_argument("--root", help="the data root (default: $RMSREPRO_DATA, else the user's cache)")
    try:
        options = parser.parse_args(arguments)
        data_set = get_data_set(options.name)
        root = data_root(options.root)
        for file in data_set.fetch(root) if options.action == "fetch" else data_set.check(root):
            print(f"{file.path}  {file.size} bytes  sha256 {file.sha256}  ok")
    except UserError as error:
        return fail(error)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
