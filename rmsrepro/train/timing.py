"""How long steps take: warm-up left out, evaluation and checkpoints never inside, the device waited for."""

from __future__ import annotations

import time

import numpy as np
import torch

#: The first steps after every start are not timed: allocators, caches and compilers settle in them.
WARMUP_STEPS = 10


class StepTimer:
    """Times single steps. On a GPU it reads events, so that timing does not make the host wait."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seen = 0
        self._untimed_s = 0.0
        self._start: float | torch.cuda.Event = 0.0
        self._pending: list[tuple[torch.cuda.Event, torch.cuda.Event, int]] = []
        self._step_s: list[float] = []
        self._items: list[int] = []

    def start(self) -> None:
        """Mark the beginning of a step."""
        if self._cuda:
            self._start = torch.cuda.Event(enable_timing=True)
            self._start.record()
        else:
            self._start = time.perf_counter()

    def stop(self, items: int) -> None:
        """Mark the end of a step that worked through `items`."""
        self._seen += 1
        warming_up = self._seen <= WARMUP_STEPS
        if isinstance(self._start, float) and warming_up:
            self._untimed_s += time.perf_counter() - self._start
        elif warming_up:
            return
        elif isinstance(self._start, float):
            self._step_s.append(time.perf_counter() - self._start)
            self._items.append(items)
        else:
            end = torch.cuda.Event(enable_timing=True)
            end.record()
            self._pending.append((self._start, end, items))

    def _settle(self) -> None:
        if self._pending:
            self._pending[-1][1].synchronize()
            self._step_s += [begin.elapsed_time(end) / 1e3 for begin, end, _ in self._pending]
            self._items += [items for _, _, items in self._pending]
            self._pending.clear()

    def recent(self, steps: int) -> dict[str, float]:
        """Return the median time and the throughput of the last `steps` timed steps."""
        self._settle()
        step_s, items = self._step_s[-steps:], self._items[-steps:]
        if not step_s:
            return {}
        return {"time/step_ms": float(np.median(step_s)) * 1e3, "time/items_per_s": sum(items) / sum(step_s)}

    def summary(self) -> dict[str, float | int | None]:
        """Return the run's timing, all attempts together; None where no step was timed."""
        self._settle()
        step_s = np.asarray(self._step_s)
        some = len(step_s) > 0
        return {
            "timed_steps": len(step_s),
            "step_ms_median": float(np.median(step_s)) * 1e3 if some else None,
            "step_ms_p10": float(np.quantile(step_s, 0.1)) * 1e3 if some else None,
            "step_ms_p90": float(np.quantile(step_s, 0.9)) * 1e3 if some else None,
            "items_per_s": float(sum(self._items) / step_s.sum()) if some else None,
        }

    @property
    def train_s(self) -> float:
        """Return the seconds spent in steps, all attempts included, and on a CPU the warm-up steps too."""
        self._settle()
        return self._untimed_s + sum(self._step_s)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the measurements so far, for a checkpoint."""
        self._settle()
        return {
            "step_s": torch.tensor(self._step_s, dtype=torch.float32),
            "items": torch.tensor(self._items, dtype=torch.int64),
            "untimed_s": torch.tensor(self._untimed_s, dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take over an earlier attempt's measurements; this attempt warms up anew."""
        self._step_s, self._items = state["step_s"].tolist(), state["items"].tolist()
        self._untimed_s = state["untimed_s"].item()
        self._seen = 0


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory that this process has held: on the GPU, or resident in main memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
