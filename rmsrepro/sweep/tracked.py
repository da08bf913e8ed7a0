"""A sweep's summary as a W&B run of its own, beside its runs, which the plan's name groups."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from rmsrepro.errors import single_line
from rmsrepro.runs.rundir import RunDir, runs_root
from rmsrepro.sweep.results import REFERENCE_NORM, ArmResult, arm_results
from rmsrepro.sweep.specs import Spec
from rmsrepro.sweep.states import run_state

_logger = logging.getLogger(__name__)

#: Below the folder of all runs: what W&B writes about sweeps.
FOLDER = ".sweeps"


def log_summaries(specs: Sequence[Spec], size: str) -> None:
    """Log a summary of each plan whose runs are tracked: arms, step times against LayerNorm's, states of the runs.

    W&B's failures are warnings; waits are bounded as a run's are.
    """
    for plan in dict.fromkeys(spec.plan for spec in specs):
        own = [spec for spec in specs if spec.plan == plan]
        track = own[0].config.track
        if not track.wandb or track.mode == "disabled":
            continue
        try:
            _log(plan, own, size)
        except Exception as error:  # whatever W&B raises: the sweep itself is done
            _logger.warning("W&B has no summary of plan %s: %s", plan, single_line(error))


def _log(plan: str, specs: Sequence[Spec], size: str) -> None:
    from rmsrepro.runs.wandb_sink import WandbSink

    config, states, arms = specs[0].config, [run_state(spec) for spec in specs], arm_results(specs)
    folder = RunDir(runs_root(config.runs.root) / FOLDER / f"{plan}-{size}")
    folder.path.mkdir(parents=True, exist_ok=True)
    sink = WandbSink(
        folder,
        config={"plan": plan, "size": size, "task": config.task.name, "seeds": sorted({spec.seed for spec in specs})},
        project=config.track.project,
        entity=config.track.entity,
        group=config.track.group,
        name=f"sweep-{plan}-{size}",
        tags=[config.task.name, size, "sweep"],
        mode=config.track.mode,
        job_type="sweep",
    )
    if sink.mode == "disabled":
        return
    done = sum(one.state == "done" for one in states)
    sink.log(0, _tables(arms, specs))
    sink.summary({"runs/expected": len(specs), "runs/done": done, **_numbers(arms)})
    sink.finish(0 if done == len(specs) else 1)


def _tables(arms: Sequence[ArmResult], specs: Sequence[Spec]) -> dict[str, Any]:
    import wandb

    columns: Any = ["arm", "runs", "metric", "mean", "step_ms", f"times_{REFERENCE_NORM}"]
    rows: Any = [[one.arm, one.runs, one.metric, one.mean, one.step_ms, one.times_reference] for one in arms]
    table = wandb.Table(columns=columns, data=rows)
    logged: dict[str, Any] = {"arms": table, "runs": _runs_table(wandb, specs)}
    if arms:
        logged["quality"] = wandb.plot.bar(table, "arm", "mean", title=arms[0].metric)
        logged["time"] = wandb.plot.bar(table, "arm", "step_ms", title="step time, ms (not interleaved)")
    return logged


def _runs_table(wandb: Any, specs: Sequence[Spec]) -> Any:
    rows = []
    for spec in specs:
        state, result = run_state(spec), spec.rundir.result()
        value = None if result is None else float(result["metrics"][result["primary"]])
        rows.append([spec.arm, spec.seed, state.state, value, state.train_s, state.message, spec.rundir.path.name])
    return wandb.Table(columns=["arm", "seed", "state", "metric", "train_s", "message", "config_hash"], data=rows)


def _numbers(arms: Sequence[ArmResult]) -> dict[str, float]:
    numbers = {}
    for one in arms:
        numbers[f"{one.arm}/{one.metric}"] = one.mean
        if one.step_ms is not None:
            numbers[f"{one.arm}/step_ms"] = one.step_ms
        if one.times_reference is not None:
            numbers[f"{one.arm}/times_{REFERENCE_NORM}"] = one.times_reference
    return numbers
