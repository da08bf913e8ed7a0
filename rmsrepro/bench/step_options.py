"""The command line of the step benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rmsrepro.arguments import Parser, with_dashes
from rmsrepro.bench.options import add_publishing, block_count, output_file, thread_count
from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError
from rmsrepro.kernels.spec import IMPLS

NORMS = ("none", "layernorm", "rmsnorm", "prmsnorm")
#: How a norm is computed, in the sessions that are run without being asked for others.
SESSIONS = ("composed", "torch", "fused")
#: Seconds that one device's whole set may take.
BUDGET_S = 480.0
_OWN = ("task", "size", "norms", "impls", "plan")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line, `key=value` or `--key value` alike; raises ConfigError for what cannot be meant."""
    args = _parser().parse_intermixed_args(with_dashes(argv, _OWN))
    chosen = sum(bool(value) for value in (args.task, args.plan, args.all))
    if chosen != 1:
        raise ConfigError("bench steps: name one of task=T, --plan NAME or --all")
    if args.publish and args.task:
        raise ConfigError("--publish: records belong to a table; name it with --plan NAME")
    if args.publish and args.overrides:
        raise ConfigError(
            f"{args.overrides[0]}: records are of the plan's own arms; leave it out, or write to a file with --json"
        )
    if args.publish and "auto" in args.impls:
        raise ConfigError("impls=auto: it stands for several, and no ratio mixes them; name those to publish")
    if args.norms and not args.task:
        raise ConfigError("norms: a plan's arms choose the norms; leave norms out, or name a task instead of the plan")
    bad = [
        word for word in args.overrides if "=" not in word or word.startswith(("seed=", "norm=", "impl=", "device="))
    ]
    if bad:
        raise ConfigError(f"{bad[0]}: allowed are overrides such as train.batch_size=32, and --help's own options")
    return args


def _list_of(known: Sequence[str] | None = None):
    def read(text: str) -> list[str]:
        words = text.split(",")
        unknown = [word for word in words if not word or (known is not None and word not in known)]
        if unknown:
            allowed = ", ".join(known or ()) or "names with commas between them"
            raise argparse.ArgumentTypeError(f"{text}: allowed are {allowed}")
        return words

    return read


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return value


def _parser() -> Parser:
    parser = Parser(
        prog="python -m rmsrepro.bench steps",
        description="Whole training steps on made-up batches, all norms in turn in one process.",
        epilog="task=T, size=S and so on may be written without dashes; other key=value words override every arm.",
    )
    parser.add_argument("--task", metavar="T", help="a task, with the norms of --norms")
    parser.add_argument("--plan", metavar="NAME", help="the arms of a plan")
    parser.add_argument("--all", action="store_true", help="every plan with a column of times")
    parser.add_argument("--size", choices=SIZES, help="default: paper on a GPU, small on a CPU")
    parser.add_argument("--norms", type=_list_of(), help=f"with --task; default {','.join(NORMS)}")
    parser.add_argument("--impls", type=_list_of(IMPLS), default=list(SESSIONS), help=f"default {','.join(SESSIONS)}")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=thread_count, help="threads of torch's pool on the CPU")
    parser.add_argument("--blocks", type=block_count, default=15, help="interleaved blocks, at least 3 (default 15)")
    parser.add_argument(
        "--block-ms", type=_positive, default=200.0, help="about how long an arm's block is (default 200)"
    )
    parser.add_argument(
        "--budget-s", type=_positive, default=BUDGET_S, help=f"seconds for everything (default {BUDGET_S:.0f})"
    )
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every number to FILE")
    add_publishing(parser, "timings")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    return parser
