"""A whole campaign of made-up records: every plan's arms at two sizes, with curves and timing sessions."""

import json
import math
import random

from made_up import result, timing_line

from rmsrepro.report.charts.names import norm_of
from rmsrepro.report.claims import load_table
from rmsrepro.report.units import convert, unit
from rmsrepro.sweep.plan import load_plan, plan_names

SIZES = ("small", "paper")
PRIMARY = {
    "rnnsearch": ("newstest2014/bleu", "max"),
    "transformer": ("newstest2014/bleu", "max"),
    "cnndm_qa": ("test/error", "min"),
    "order_embedding": ("test/image_r1", "max"),
    "cifar10": ("test/error", "min"),
    "mnist": ("test/accuracy", "max"),
    "lstm_lm": ("test/perplexity", "min"),
}
SLOWNESS = {"none": 0.65, "layernorm": 1.0, "rmsnorm": 0.78, "prmsnorm": 0.75}


def write_campaign(folder, seeds):
    """Write runs, curves and timings of every plan into a folder of committed records; returns how many runs."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    plans = {name: load_plan(name) for name in plan_names()}
    for name, plan in plans.items():
        if plan.runs_of or not plan.arms:
            continue
        runs, curves, timings = [], [], []
        shown = [load_table(other.table) for other in plans.values() if other.table and other.runs_plan == name]
        for size in SIZES:
            for arm in plan.arms:
                for seed in range(1, seeds + 1):
                    runs.append(_run(plan, arm, size, seed, shown))
                    curves += _curves(plan, arm, size, seed)
            timings += _timings(plan, size)
        count += len(runs)
        for kind, rows in (("runs", runs), ("curves", curves), ("timings", timings)):
            (folder / f"{kind}-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return count


def _run(plan, arm, size, seed, shown):
    noise = random.Random(f"{plan.name}/{arm}/{size}/{seed}")
    primary, direction = PRIMARY[plan.task]
    metrics, units = {primary: 0.9 if primary.endswith("accuracy") else 20.0 if direction == "max" else 0.2}, {}
    if primary.endswith("perplexity"):
        metrics[primary] = 90.0
    for table in shown:
        for (row, key), claim in table.claims.items():
            column = table.columns[key]
            if row != arm or claim.unit.is_time or column.metric.startswith("curve/"):
                continue
            value = claim.value + noise.gauss(0.0, 0.02) * max(abs(claim.value), 0.2)
            if column.metric.endswith("error"):
                value = convert(
                    min(value, 99.0 if claim.unit.name == "%" else 0.99), claim.unit, unit("fraction", key), key
                )
            else:
                value = max(value, {"rank": 1.0, "BLEU": 0.1, "%": 0.0}.get(claim.unit.name, -1e9))
                units[column.metric] = claim.unit.name
            metrics[column.metric] = value
    content = result(
        task=plan.task,
        norm=norm_of(plan, arm, size),
        size=size,
        seed=seed,
        data=plan.paper_data or "mnist",
        metrics=metrics,
        primary=primary,
        direction=direction,
    )
    own = {
        "kind": "run",
        "plan": plan.name,
        "arm": arm,
        "state": "done",
        "hardware": "TITAN",
        "command": f"python -m rmsrepro task={plan.task} {' '.join(plan.overrides(arm, size))} seed={seed}",
        "variant": f"v-{arm}-{size}",
        "started": "2026-01-01T00:00:00+00:00",
        "units": units,
    }
    return {**content, **own}


def _curves(plan, arm, size, seed):
    noise = random.Random(f"{plan.name}/{arm}/{size}/{seed}/curve")
    speed = SLOWNESS.get(norm_of(plan, arm, size), 0.9)
    named = {"plan": plan.name, "arm": arm, "size": size, "seed": seed, "variant": f"v-{arm}-{size}"}
    metric = "valid/" + PRIMARY[plan.task][0].rpartition("/")[2]
    top = {"accuracy": 0.99, "error": 0.1}.get(metric.rpartition("/")[2], 25.0)
    losses = ("train/loss", "train/token_loss") if plan.task == "rnnsearch" else ("train/loss",)
    for name, points in (*((loss, 200) for loss in losses), (metric, 40)):
        steps = [(i + 1) * (8000 // points) for i in range(points)]
        fall = [math.exp(-step / (2500 * speed)) * (1 + noise.gauss(0, 0.05)) for step in steps]
        values = [0.02 + 6 * f for f in fall] if name in losses else [top * (1 - 0.6 * f) for f in fall]
        pace = speed * (1 + noise.gauss(0, 0.02)) / 20
        times = [round(step * pace, 2) for step in steps]
        yield {"kind": "curve", "schema": 1, **named, "metric": name, "steps": steps, "time_s": times, "values": values}


def _timings(plan, size):
    for impl in ("composed", "fused"):
        for arm in plan.arms:
            norm = norm_of(plan, arm, size)
            noise = random.Random(f"{plan.name}/{arm}/{size}/{impl}")
            slow = SLOWNESS.get(norm, 0.9) if impl == "composed" else 1.0
            for repeat in (0, 1) if norm == "layernorm" else (0,):
                blocks = [20 * slow * (1 + noise.gauss(0, 0.01)) for _ in range(20)]
                yield timing_line(arm, blocks, plan=plan.name, size=size, impl=impl, repeat=repeat)
