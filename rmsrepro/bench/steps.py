"""`python -m rmsrepro.bench steps`: whole training steps on made-up batches, every norm beside the others.

Forward, backward, clipping and the optimiser are the trainer's own. One session times all arms of one table in one
implementation, so that no ratio mixes implementations or machines.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rmsrepro.bench import machine, step_options, step_table
from rmsrepro.bench.options import publishing_folder
from rmsrepro.bench.step_arms import Contest, contest_of_plan, contest_of_task, makes_up_data
from rmsrepro.bench.step_records import publish
from rmsrepro.bench.step_session import run_session
from rmsrepro.conf import option_names
from rmsrepro.errors import ConfigError, UserError, single_line
from rmsrepro.kernels.allocator import keep_large_blocks
from rmsrepro.report.layout import layout_of
from rmsrepro.report.units import unit
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.sweep.plan import load_plan, plan_names


def main(argv: Sequence[str]) -> int:
    """Run the benchmark that the command line describes; 1 where a table could not be timed, or none was."""
    args = step_options.parse(argv)
    device = _device(args)
    size = args.size or ("paper" if device.type == "cuda" else "small")
    if args.threads:
        torch.set_num_threads(args.threads)
    if device.type == "cpu":
        keep_large_blocks()
    contests = _contests(args, size)
    about = machine.describe(device.type)
    print(", ".join(f"{key} {value}" for key, value in about.items() if value), "\n", flush=True)
    sessions: list[dict[str, Any]] = []
    try:
        faults = _run(args, contests, device, sessions)
    finally:
        if args.json and sessions:
            write_json_atomic(Path(args.json), {"schema": 1, "machine": about, "sessions": sessions})
    return 1 if faults or not sessions else 0


def _run(args: Namespace, contests: Sequence[Contest], device: torch.device, sessions: list[dict[str, Any]]) -> int:
    """Time every contest in every implementation, each with its share of the time that is left.

    Sessions are appended to `sessions`; returns how many could not be timed. The implementations take turns over all
    contests, so that a budget which ends early leaves out a whole implementation last.
    """
    faults, folder, took_s = 0, publishing_folder(args), {contest.name: 0.0 for contest in contests}
    deadline_s = time.monotonic() + args.budget_s
    pairs = [(contest, impl) for impl in args.impls for contest in contests]
    for number, (contest, impl) in enumerate(pairs):
        started_s = time.monotonic()
        if number and started_s + took_s[contest.name] > deadline_s:
            _say(
                f"not timed: {contest.name}, impl {impl}: nothing is left of {args.budget_s:.0f} s; "
                f"time it alone, or raise --budget-s"
            )
            faults += 1
            continue
        share_s = max(deadline_s - started_s, 0.0) / (len(pairs) - number)
        try:
            session = run_session(
                contest, impl, device, _say, blocks=args.blocks, block_ms=args.block_ms, budget_s=share_s
            )
        except UserError as error:
            if len(contests) == 1:
                raise
            _say(f"not timed: {single_line(error)}")
            faults += 1
            continue
        if session is None:
            continue
        print(step_table.to_markdown(session), "\n", flush=True)
        sessions.append(step_table.as_dict(session))
        if args.publish:
            _say(f"written to {publish(session, folder, args.threads)}")
        took_s[contest.name] = time.monotonic() - started_s
        if took_s[contest.name] > share_s * 1.5:
            _say(f"{contest.name}, impl {impl}: took {took_s[contest.name]:.0f} s of a share of {share_s:.0f} s")
    return faults


def _contests(args: Namespace, size: str) -> list[Contest]:
    if args.task:
        if args.task not in option_names("task"):
            raise ConfigError(f"task={args.task}: known are {', '.join(option_names('task'))}")
        return [contest_of_task(args.task, args.norms or step_options.NORMS, size, args.overrides)]
    if args.plan:
        runs_plan = load_plan(args.plan).runs_plan
        if args.publish and runs_plan != args.plan:
            raise ConfigError(
                f"--publish: {args.plan} shows runs of {runs_plan}; name that one, whose arms are all timed"
            )
        return [contest_of_plan(args.plan, size, args.overrides)]
    return [contest_of_plan(name, size, args.overrides) for name in timed_plans()]


def timed_plans() -> list[str]:
    """List the plans whose tables have a column of times and whose task makes up data, each set of runs once."""
    found: dict[str, None] = {}
    for plan in map(load_plan, plan_names()):
        if plan.task not in option_names("task"):
            continue
        timed = any(unit(column.unit, plan.name).is_time for column in layout_of(plan).columns.values())
        if timed and makes_up_data(plan.task):
            found[plan.runs_plan] = None
    return list(found)


def _device(args: Namespace) -> torch.device:
    available = torch.cuda.is_available()
    if args.device == "cuda" and not available:
        raise ConfigError("--device=cuda: torch sees no GPU here; use --device=cpu")
    return torch.device("cuda" if args.device != "cpu" and available else "cpu")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
