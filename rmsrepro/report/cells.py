"""One cell of a table: what the paper says, what we measured, how they compare, and what to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmsrepro.report.claims import Claim
from rmsrepro.report.statistics import Estimate, Interval
from rmsrepro.report.units import fixed, step_time
from rmsrepro.report.verdict import Verdict

CellState = Literal["measured", "running", "failed", "not measured", "too costly", "data unavailable", "contradictory"]


@dataclass
class Cell:
    """A cell in the column's unit, but times: those of ours are in ms/step, whatever the paper's unit is."""

    table: str
    size: str
    arm: str
    label: str
    framework: str | None
    column: str
    heading: str
    unit: str
    direction: str
    claim: Claim | None
    state: CellState
    detail: str = ""
    """What the state does not say: how many runs failed, what the estimate of the cost is."""
    ours: Estimate | None = None
    ours_unit: str = ""
    digits: int = 2
    paper_relative: float | None = None
    """The paper's difference to the reference arm, or for times the ratio."""
    relative: float | None = None
    relative_interval: Interval | None = None
    is_ratio: bool = False
    reference: str | None = None
    verdict: Verdict | None = None
    seeds: tuple[int, ...] = ()
    data: str = ""
    impl: str = ""
    hardware: str = ""
    commits: tuple[str, ...] = ()
    """The source that our runs are of, each once."""
    metric: str = ""
    signature: str = ""
    """How sacrebleu scored our runs, where the column is BLEU."""
    command: str = ""
    runs: tuple[str, ...] = ()
    best_paper: bool = False
    best_ours: bool = False

    @property
    def mean(self) -> float | None:
        """Return our mean, in `ours_unit`."""
        return None if self.ours is None else self.ours.mean

    @property
    def stand_in(self) -> str:
        """Name the metric that was read in place of the paper's, which our runs do not have; empty if none was."""
        if self.claim is None or self.is_ratio or self.metric == self.claim.metric:
            return ""
        return self.metric

    def shown(self, value: float) -> str:
        """Format one of our numbers as every table shows it: times in the unit that reads best, facts as a word."""
        if self.unit == "yes/no":
            return "yes" if value else "no"
        return step_time(value / 1e3) if self.is_ratio else fixed(value, self.digits)
