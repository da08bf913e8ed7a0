"""The ratios to the stock norms on a CPU, forward and backward, with the default allocator and with large blocks kept.

Each allocator setting is a process of its own, since glibc reads its settings at start; ratios never cross processes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rmsrepro.bench import machine, protocol
from rmsrepro.bench.norm_arms import EPS, PARTIAL, Case, arms, norms
from rmsrepro.errors import ConfigError
from rmsrepro.kernels import allocator
from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.cpu import norms as cpu_norms
from rmsrepro.kernels.spec import NormSpec

SHAPES = ((64, 240), (80, 1024), (700, 650), (512, 1024), (4096, 512), (4096, 1024))
PAIRS = (
    ("fused rmsnorm", "F.layer_norm"),
    ("fused rmsnorm", "F.rms_norm"),
    ("fused layernorm", "F.layer_norm"),
    ("F.layer_norm again", "F.layer_norm"),
)
IN_CACHE = Case(512, 1024, torch.float32, "cpu")
THREADS = 2


def main(*, quick: bool, json_file: str | None) -> int:
    """Print the tables of both allocator settings."""
    if library.library is None:
        raise ConfigError(f"--table: {library.missing}")
    results = []
    for setting in ("default", "keep_large_blocks"):
        command = [sys.executable, "-m", "rmsrepro.bench.norm_table", setting, "quick" if quick else "full"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        results.append(json.loads(done.stdout))
        print(_to_markdown(results[-1]), "\n", flush=True)
    if json_file:
        Path(json_file).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(setting: str, *, quick: bool) -> dict[str, Any]:
    """Take all ratios of one allocator setting in this process."""
    kept = setting == "keep_large_blocks" and allocator.keep_large_blocks()
    torch.set_num_threads(THREADS)
    about = machine.describe("cpu")
    contestants = norms(compiled=False, device="cpu")
    wanted = {name for pair in PAIRS for name in pair}
    contestants = {name: run for name, run in contestants.items() if name in wanted}
    pace: dict[str, Any] = {"blocks": 7, "block_ms": 4.0} if quick else {"blocks": 25, "block_ms": 20.0}
    rows = []
    for rows_, n in SHAPES:
        case = Case(rows_, n, torch.float32, "cpu")
        timings = protocol.measure(arms(case, "both", contestants), **pace)
        rows.append(
            {
                "case": f"{rows_} x {n}",
                "F.layer_norm_us": timings["F.layer_norm"].as_dict(),
                "ratios": {f"{a} / {b}": protocol.ratio(timings[a], timings[b]).as_dict() for a, b in PAIRS},
            }
        )
    return {
        "setting": setting if kept or setting == "default" else f"{setting} (not available here)",
        "machine": about,
        "rows": rows,
        "in_cache": _in_cache(pace),
    }


def _in_cache(pace: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Time the bare forward kernels against a copy of the same bytes, all into memory that is there."""
    rows, n = IN_CACHE.rows, IN_CACHE.n
    x, y, gain, stat = torch.randn(rows, n), torch.empty(rows, n), torch.ones(n), torch.empty(rows, 2)
    calls: dict[str, Callable[[], object]] = {"copy": lambda: y.copy_(x)}
    for name, centre, p in (("layernorm", True, 1.0), ("rmsnorm", False, 1.0), ("prmsnorm", False, PARTIAL)):
        plan = cpu_norms.plan(NormSpec(centre, math.ceil(n * p), EPS), n, x.dtype, gain.dtype, None)
        calls[name] = cpu_norms.bound_forward(plan, x, gain, y, stat)
    timings = protocol.measure(calls, **pace)
    return {name: protocol.ratio(t, timings["copy"]).as_dict() for name, t in timings.items() if name != "copy"}


def _to_markdown(result: dict[str, Any]) -> str:
    heads = [f"{a} / {b}" for a, b in PAIRS]
    lines = [
        f"Forward + backward, float32, {THREADS} threads, allocator: {result['setting']}; ratio [95 % interval]",
        "",
        "| shape | " + " | ".join(heads) + " | F.layer_norm µs |",
        "|---|" + "---|" * len(heads) + "---:|",
    ]
    for row in result["rows"]:
        cells = [_cell(row["ratios"][head]) for head in heads]
        time = row["F.layer_norm_us"]
        lines.append(f"| {row['case']} | " + " | ".join(cells) + f" | {time['median_us']:.0f} ± {time['iqr_us']:.0f} |")
    lines += ["", f"Bare forward kernels / a copy of the same bytes, {IN_CACHE.name}:"]
    lines += [f"- {name}: {_cell(value)}" for name, value in result["in_cache"].items()]
    return "\n".join(lines)


def _cell(value: dict[str, float]) -> str:
    return f"{value['ratio']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], quick=sys.argv[2] == "quick")))
