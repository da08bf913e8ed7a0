"""`python -m rmsrepro.bench norms`: every norm, forward, backward and both, beside a copy of the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rmsrepro.arguments import Parser
from rmsrepro.bench import machine, memory, norm_table, protocol
from rmsrepro.bench.norm_arms import PARTIAL, PASSES, REFERENCE, Case, arms, norms
from rmsrepro.bench.options import output_file, refuse_ignored, thread_count, whole_numbers
from rmsrepro.errors import ConfigError
from rmsrepro.norms import functional

GPU_SHAPES = ((512, 240), (512, 1024), (8192, 1024), (8192, 2048), (8192, 4096), (8192, 8192), (4096, 16384))
#: Options whose place --table takes with values of its own.
_NOT_OF_THE_TABLE = ("shapes", "dtype", "device", "passes", "threads", "explain", "markdown", "no_compile")
_SMALLER = "take fewer rows or a smaller width"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def main(argv: Sequence[str]) -> int:
    """Run the benchmark that the command line describes."""
    args = _parser().parse_args(argv)
    if args.table:
        refuse_ignored(args, "--table", _NOT_OF_THE_TABLE)
        return norm_table.main(quick=args.quick, json_file=args.json)
    if args.explain:
        refuse_ignored(args, "--explain", ("passes", "json", "markdown"))
    if args.threads:
        torch.set_num_threads(args.threads)
    device, passes = args.device or ("cuda" if torch.cuda.is_available() else "cpu"), args.passes or PASSES
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device=cuda: no CUDA device is at hand; use --device=cpu")
    shapes = args.shapes or (norm_table.SHAPES if device == "cpu" else GPU_SHAPES)
    cases = [Case(rows, n, DTYPES[dtype], device) for dtype in args.dtype or ("float32",) for rows, n in shapes]
    for case in cases:
        memory.require_room(_named(case), case.held_bytes(passes), device, _SMALLER)
    if args.explain:
        for case in cases:
            _explain(case)
        return 0
    rows = run(cases, passes, compiled=not (args.quick or args.no_compile), quick=args.quick)
    about = machine.describe(device)
    text = to_markdown(rows, about)
    print(text)
    if args.markdown:
        Path(args.markdown).write_text(text + "\n")
    if args.json:
        Path(args.json).write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    return 0


def run(cases: Sequence[Case], passes: Sequence[str], *, compiled: bool, quick: bool) -> list[dict[str, Any]]:
    """Measure every case and pass; returns one record per arm."""
    records: list[dict[str, Any]] = []
    for case in cases:
        contestants = norms(compiled=compiled, device=case.device)
        for pass_ in passes:
            with memory.refusing_what_does_not_fit(_named(case), _SMALLER):
                timings = protocol.measure(
                    arms(case, pass_, contestants),
                    blocks=5 if quick else 15,
                    block_ms=3.0 if quick else 20.0,
                    device=case.device,
                )
            copy_rate = case.moved_bytes("forward") / timings["copy"].median_us
            for name, timing in timings.items():
                rate = case.moved_bytes("forward" if name == "copy" else pass_) / timing.median_us
                records.append(
                    {
                        "case": case.name,
                        "pass": pass_,
                        "arm": name,
                        **timing.as_dict(),
                        "gb_per_s": round(rate / 1000, 2),
                        "percent_of_copy": round(100 * rate / copy_rate, 1),
                        "vs_F.layer_norm": protocol.ratio(timing, timings[REFERENCE]).as_dict(),
                    }
                )
    return records


def to_markdown(records: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Write the records as one Markdown table; `F.layer_norm again` against F.layer_norm is the noise of the run."""
    lines = [
        ", ".join(f"{key} {value}" for key, value in about.items() if value),
        "",
        "| case | pass | norm | median µs | IQR µs | GB/s | % of copy | times F.layer_norm (95 %) |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for r in records:
        versus = r["vs_F.layer_norm"]
        lines.append(
            f"| {r['case']} | {r['pass']} | {r['arm']} | {r['median_us']:.1f} | {r['iqr_us']:.1f} | {r['gb_per_s']:.1f}"
            f" | {r['percent_of_copy']:.0f} | {versus['ratio']:.2f} [{versus['low']:.2f}, {versus['high']:.2f}] |"
        )
    return "\n".join(lines)


def _explain(case: Case) -> None:
    x = torch.empty(case.rows, case.n, dtype=case.dtype, device=case.device if case.device == "cuda" else "meta")
    explained: list[tuple[str, dict[str, Any]]] = [
        ("layer_norm", {}),
        ("rms_norm", {}),
        ("rms_norm", {"partial": PARTIAL}),
        ("l2_norm", {}),
    ]
    for op, fields in explained:
        impl, reason = functional.explain(op, x, x[0], **fields)
        label = op + "".join(f" {k}={v}" for k, v in fields.items())
        print(f"{case.name} {case.device}: {label}: impl=auto takes {impl}: {reason}")


def _named(case: Case) -> str:
    return f"--shapes {case.rows}x{case.n}"


def _shape(text: str) -> tuple[int, int]:
    rows, n = whole_numbers(text, "x", "ROWSxWIDTH")
    return rows, n


def _parser() -> Parser:
    parser = Parser(prog="python -m rmsrepro.bench norms", description=__doc__)
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every number to FILE")
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--shapes", nargs="+", type=_shape, metavar="ROWSxWIDTH", help="such as 512x1024")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, help="default float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: a GPU where there is one")
    parser.add_argument("--passes", nargs="+", choices=PASSES, help="default: all")
    parser.add_argument("--threads", type=thread_count, help="threads of torch's pool on the CPU")
    parser.add_argument("--explain", action="store_true", help="only say what impl=auto takes and why")
    parser.add_argument(
        "--table", action="store_true", help="only the ratios to the stock norms on a CPU, both allocators"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out (it takes minutes)")
    parser.add_argument("--quick", action="store_true", help="few short blocks and no torch.compile")
    return parser
