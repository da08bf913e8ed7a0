"""`python -m rmsrepro.bench cells`: recurrent layers with norms inside, forward and both passes, beside torch's own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rmsrepro.arguments import Parser
from rmsrepro.bench import machine, memory, protocol
from rmsrepro.bench.cell_arms import AGAIN, CELLS, NORMS, PASSES, STOCK, Case, arm_names, arms
from rmsrepro.bench.options import block_count, output_file, refuse_ignored, thread_count, whole_numbers

SIZES = (Case(35, 20, 200, 200), Case(35, 20, 650, 650), Case(50, 64, 240, 240), Case(50, 80, 512, 1024))
_SMALLER = "take fewer steps T, a smaller batch B or smaller widths"
#: The ratios that are reported: what they say, numerator, denominator.
PAIRS = (
    ("noise: torch's layer / itself", AGAIN, STOCK),
    ("fused rmsnorm / torch's layer", "fused rmsnorm", STOCK),
    ("fused layernorm / torch's layer", "fused layernorm", STOCK),
    ("fused rmsnorm / fused layernorm", "fused rmsnorm", "fused layernorm"),
    ("eager loop with F.layer_norm / fused rmsnorm", "torch layernorm", "fused rmsnorm"),
    ("composed layernorm / composed rmsnorm", "composed layernorm", "composed rmsnorm"),
)
#: The paper's time of LayerNorm over that of RMSNorm, composed operations on a GPU: Tables 2, 3, 6 and 8.
PAPER = {
    "RNNSearch, TensorFlow (GRU)": 665 / 501,
    "RNNSearch, Theano (GRU)": 988 / 652,
    "RNNSearch, PyTorch (GRU)": 857 / 763,
    "attentive reader (LSTM)": 392 / 333,
    "order-embedding (GRU)": 12.02 / 7.12,
}


def main(argv: Sequence[str]) -> int:
    """Run the benchmark that the command line describes."""
    args = _parser().parse_args(argv)
    if args.table:
        refuse_ignored(args, "--table", ("passes",))
    torch.set_num_threads(args.threads)
    about = machine.describe("cpu") | {"threads": args.threads}
    wanted = {name for _, *pair in PAIRS for name in pair}
    names = [name for name in arm_names(args.norms) if not args.table or name in wanted]
    blocks = args.blocks or (5 if args.quick else 11)
    passes = ("both",) if args.table else args.passes or PASSES
    for case, pass_ in itertools.product(args.sizes, passes):
        memory.require_room(f"--sizes {case.name}", case.held_bytes(pass_, len(names)), "cpu", _SMALLER)
    records: list[dict[str, Any]] = []
    for case in args.sizes:
        for cell in args.cells:
            for pass_ in passes:
                with memory.refusing_what_does_not_fit(f"--sizes {case.name}", _SMALLER):
                    timings = protocol.measure(
                        arms(case, cell, pass_, names), blocks=blocks, block_ms=5.0 if args.quick else 20.0
                    )
                records.append(_record(case, cell, pass_, timings))
                print(to_markdown(records[-1:]), "\n", flush=True)
    text = f"{_heading(about)}\n\n{to_markdown(records)}\n\n{paper_note()}"
    if args.markdown:
        Path(args.markdown).write_text(text + "\n")
    if args.json:
        Path(args.json).write_text(json.dumps({"machine": about, "cells": records}, indent=1) + "\n")
    print(paper_note())
    return 0


def _record(case: Case, cell: str, pass_: str, timings: dict[str, protocol.Timing]) -> dict[str, Any]:
    ratios = {
        what: protocol.ratio(timings[a], timings[b]).as_dict() for what, a, b in PAIRS if a in timings and b in timings
    }
    stock = timings[STOCK]
    return {
        "case": case.name,
        "cell": cell,
        "pass": pass_,
        "arms": {
            name: timing.as_dict()
            | {"fastest_us": round(min(timing.block_us), 3), "vs_torch": protocol.ratio(timing, stock).as_dict()}
            for name, timing in timings.items()
        },
        "ratios": ratios,
    }


def to_markdown(records: Sequence[dict[str, Any]]) -> str:
    """Write every record as a table of its arms and a list of its ratios; times in milliseconds, 95 % intervals."""
    parts: list[str] = []
    for record in records:
        what = "forward" if record["pass"] == "forward" else "forward + backward"
        lines = [
            f"{record['cell'].upper()}, T, B, in, H = {record['case']}, {what}",
            "",
            "| layer | median ms | IQR ms | fastest ms | times torch's layer |",
            "|---|---:|---:|---:|---|",
        ]
        for name, arm in record["arms"].items():
            times = " | ".join(f"{arm[key] / 1000:.2f}" for key in ("median_us", "iqr_us", "fastest_us"))
            lines.append(f"| {name} | {times} | {_interval(arm['vs_torch'])} |")
        lines += ["", *(f"- {what}: {_interval(value)}" for what, value in record["ratios"].items())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def paper_note() -> str:
    """Return the paper's ratios that `composed layernorm / composed rmsnorm` stands beside."""
    ratios = "; ".join(f"{what} {value:.2f}" for what, value in PAPER.items())
    return f"The paper's LayerNorm / RMSNorm, whole training steps of composed operations on a GPU: {ratios}."


def _heading(about: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in about.items() if value)


def _interval(value: dict[str, float]) -> str:
    return f"{value['ratio']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"


def _case(text: str) -> Case:
    return Case(*whole_numbers(text, ",", "T,B,IN,H"))


def _parser() -> Parser:
    parser = Parser(prog="python -m rmsrepro.bench cells", description=__doc__)
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every number to FILE")
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write the tables to FILE")
    parser.add_argument(
        "--sizes", nargs="+", type=_case, metavar="T,B,IN,H", default=list(SIZES), help="such as 35,20,200,200"
    )
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--norms", nargs="+", choices=NORMS, default=list(NORMS))
    parser.add_argument("--passes", nargs="+", choices=PASSES, help="default: all")
    parser.add_argument("--threads", type=thread_count, default=2, help="threads of torch's pool (default 2)")
    parser.add_argument(
        "--blocks", type=block_count, help="interleaved blocks, at least 3 (default 11, with --quick 5)"
    )
    parser.add_argument("--table", action="store_true", help="only the layers that the ratios need, both passes")
    parser.add_argument("--quick", action="store_true", help="few short blocks")
    return parser
