"""The command `python -m rmsrepro.sweep`.

Exit 0: every run is done. 1: some are not. 2: the command line is at fault, said in one line before anything starts.
130 and 143: interrupted, after the runs at work have saved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rmsrepro.errors import ConfigError, UserError, fail
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.runs.rundir import runs_root
from rmsrepro.sweep.display import as_json, listing, status_text, summary_text
from rmsrepro.sweep.driver import Sweep
from rmsrepro.sweep.launcher import Launcher, LocalLauncher
from rmsrepro.sweep.options import USAGE, Options, parse
from rmsrepro.sweep.plan import load_plan
from rmsrepro.sweep.results import arm_results, results_text
from rmsrepro.sweep.slots import build_slots
from rmsrepro.sweep.specs import Spec, build_specs
from rmsrepro.sweep.states import run_state
from rmsrepro.sweep.tracked import log_summaries


def main(argv: Sequence[str]) -> int:
    """Run `argv` and return the exit code."""
    if any(flag in argv for flag in ("-h", "--help")):
        print(USAGE)
        return 0
    try:
        options = parse(argv)
        specs = build_specs(options)
        return _run(options, specs) if options.action == "run" else _show(options, specs)
    except UserError as error:
        return fail(error)
    except BrokenPipeError:  # the reader has gone, as `--dry-run | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted: nothing was started", file=sys.stderr)
        return 130


def _launcher(options: Options, specs: Sequence[Spec]) -> Launcher:
    gpu = any(spec.config.device != "cpu" for spec in specs)
    if options.launcher == "local":
        return LocalLauncher(build_slots(options.workers, gpu=gpu))
    from rmsrepro.sweep.slurm import FOLDER, SubmititLauncher

    folder = runs_root(specs[0].config.runs.root if specs else None) / FOLDER
    return SubmititLauncher(options, folder, limit=options.workers or max(1, len(specs)), gpu=gpu)


def _show(options: Options, specs: Sequence[Spec]) -> int:
    _say_notes(options)
    states, workers = [run_state(spec) for spec in specs], options.workers or 1
    _write_json(options, specs, workers)
    print(listing(states) if options.action == "dry-run" else status_text(states, options.size, workers), flush=True)
    return 0


def _run(options: Options, specs: Sequence[Spec]) -> int:
    _say_notes(options)
    launcher = _launcher(options, specs)
    waiting = [spec for spec in specs if not spec.rundir.is_done()]
    _say(f"runs expected: {len(specs)}, done already: {len(specs) - len(waiting)}")
    sweep = Sweep(waiting, launcher, _say)
    outcomes = sweep.run()
    if waiting:
        _say(summary_text(outcomes, len(waiting)))
    _write_json(options, specs, launcher.limit)
    print(status_text([run_state(spec) for spec in specs], options.size, launcher.limit), flush=True)
    if table := results_text(arm_results(specs)):
        print(f"\n{table}", flush=True)
    if sweep.received:
        return 128 + sweep.received
    if any(not outcome.elsewhere for outcome in outcomes):
        try:
            log_summaries(specs, options.size)
        except KeyboardInterrupt:
            _say("interrupted: the runs have ended, and W&B has no whole summary of the sweep")
            return 130
    return 0 if all(outcome.state == "done" for outcome in outcomes) else 1


def _say_notes(options: Options) -> None:
    """Say which plans have no runs, and which nobody should expect to finish at this size."""
    for plan in map(load_plan, options.plans):
        untried = plan.untried_at(options.size)
        if not plan.arms:
            _say(f"plan={plan.name} has no runs: {plan.title}")
        elif untried is not None:
            _say(f"note: plan={plan.name} at size={options.size} is {untried.state}: {untried.why}")


def _write_json(options: Options, specs: Sequence[Spec], workers: int) -> None:
    if options.json is None:
        return
    try:
        write_json_atomic(options.json, as_json([run_state(spec) for spec in specs], options.size, workers))
    except OSError as error:
        raise ConfigError(f"--json {options.json}: cannot be written ({error.strerror}); name another file") from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
