"""Words for metrics and arms on charts."""

from __future__ import annotations

from rmsrepro.sweep.plan import Plan

_SPLITS = {"train": "Training", "valid": "Validation", "test": "Test"}
_METRICS = {
    "bleu": "BLEU",
    "token_loss": "loss per token",
    "image_r1": "image R@1",
    "image_r5": "image R@5",
    "image_r10": "image R@10",
    "caption_r1": "caption R@1",
    "caption_r5": "caption R@5",
    "caption_r10": "caption R@10",
}


def metric_words(metric: str) -> str:
    """Return `Validation BLEU` for `valid/bleu`."""
    split, _, name = metric.partition("/")
    return f"{_SPLITS.get(split, split)} {_METRICS.get(name, name.replace('_', ' '))}"


def norm_of(plan: Plan, arm: str, size: str) -> str:
    """Return the norm that an arm trains with; none where the plan has no such arm."""
    if arm not in plan.arms:
        return "none"
    chosen = [override for override in plan.overrides(arm, size) if override.startswith("norm=")]
    return chosen[-1].partition("=")[2] if chosen else "rmsnorm"
