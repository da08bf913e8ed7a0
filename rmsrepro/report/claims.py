"""The paper's numbers as data: one YAML file per table or figure in results/paper, checked when read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf
from yaml import YAMLError

from rmsrepro.errors import ConfigError, DataError, single_line
from rmsrepro.report.places import paper_dir
from rmsrepro.report.printed import Printed, parse_printed
from rmsrepro.report.units import DIRECTIONS, Unit, unit
from rmsrepro.typed import build

T = TypeVar("T")

#: The arm that the paper's speed-ups in brackets and its comparisons refer to.
REFERENCE_NORM = "layernorm"


@dataclass
class Column:
    """One column of a table: what is measured, in which unit, and which way is better."""

    heading: str
    metric: str
    unit: str
    direction: str
    stand_in: str | None = None
    """The metric read where a run, on other data than the paper's, does not have `metric`."""
    n: int | None = None
    """Runs behind each of the paper's numbers, where it says."""


@dataclass
class Row:
    """One row of a table: an arm, and the cells as the paper prints them."""

    arm: str
    label: str
    norm: str
    cells: list[str]
    framework: str | None = None
    origin: str | None = None
    """The publication that the paper quotes this row from; such a row is not the paper's to be judged."""
    compared: bool = True
    """Whether the paper compares the row with its others; where it says that it cannot be, neither do we."""


@dataclass
class PaperTable:
    """One file of results/paper."""

    title: str
    task: str
    source: str
    hardware: str | None
    framework: str | None
    columns: dict
    rows: list[Row]
    deviations: list[str]
    statements: list[str] = field(default_factory=list)
    """What the paper says in words; shown, not judged."""
    command: str | None = None
    """What measures the table where no training run does."""


@dataclass(frozen=True)
class Claim:
    """One number that the paper states."""

    id: str
    table: str
    arm: str
    label: str
    norm: str
    framework: str | None
    column: str
    heading: str
    task: str
    metric: str
    unit: Unit
    direction: str
    printed: str
    value: float
    digits: int
    spread: float | None
    n: int | None
    hardware: str | None
    source: str
    approximate: bool
    fails: bool
    origin: str | None
    reference: str | None
    """The arm of the same table and framework that this one is compared with."""


@dataclass(frozen=True)
class ClaimTable:
    """A table's layout, its claims by (arm, column), and what differs from our setting."""

    name: str
    paper: PaperTable
    columns: dict[str, Column]
    claims: dict[tuple[str, str], Claim]
    speedups: dict[tuple[str, str], Claim]
    """The speed-ups that the paper prints in brackets, in per cent of the reference arm's time."""

    def all(self) -> list[Claim]:
        """List every number of the table, the speed-ups after the values."""
        return [*self.claims.values(), *self.speedups.values()]


def table_names(folder: Path | None = None) -> list[str]:
    """List the tables and figures there are, in the paper's order."""
    names = [path.stem for path in (folder or paper_dir()).glob("*.yaml")]
    return sorted(names, key=lambda name: (name.rstrip("0123456789") != "table", len(name), name))


@cache
def load_table(name: str, folder: Path | None = None) -> ClaimTable:
    """Read and check one table; raises DataError naming the file, the field and what is allowed."""
    path = (folder or paper_dir()) / f"{name}.yaml"
    paper = read_yaml(PaperTable, path)
    columns = load_columns(paper.columns, path)
    claims: dict[tuple[str, str], Claim] = {}
    speedups: dict[tuple[str, str], Claim] = {}
    for row in paper.rows:
        if len(row.cells) != len(columns):
            raise DataError(f"{path}, {row.arm}: {len(row.cells)} cells for {len(columns)} columns")
        for (key, column), text in zip(columns.items(), row.cells, strict=True):
            claim_id = f"{name}/{row.arm}/{key}"
            if (row.arm, key) in claims:
                raise DataError(f"{path}: the id {claim_id} occurs twice; give each row an arm of its own")
            printed = parse_printed(text, f"{path}, {claim_id}")
            if printed is None:
                continue
            claims[row.arm, key] = _claim(name, paper, row, key, column, text, printed)
            if printed.speedup_percent is not None:
                speedups[row.arm, key] = _speedup(claims[row.arm, key], printed.speedup_percent)
    return ClaimTable(name, paper, columns, claims, speedups)


def load_columns(values: dict[str, Any], where: Path) -> dict[str, Column]:
    """Check the columns of a table; raises DataError for an unknown unit or direction."""
    columns = {}
    for key, fields in values.items():
        try:
            columns[key] = column = build(Column, fields, f"{where}, columns.{key}")
        except ConfigError as error:
            raise DataError(str(error)) from error
        unit(column.unit, f"{where}, columns.{key}")
        if column.direction not in DIRECTIONS:
            allowed = ", ".join(DIRECTIONS)
            raise DataError(f"{where}, columns.{key}: direction {column.direction!r} is not one of {allowed}")
    return columns


def read_yaml(cls: type[T], path: Path) -> T:
    """Read a YAML file as the dataclass `cls`; raises DataError naming the file."""
    try:
        values = OmegaConf.to_container(OmegaConf.load(path))
        return build(cls, values)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except YAMLError as error:
        raise DataError(f"{path}: not valid YAML ({single_line(error)})") from error
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error


def _claim(table: str, paper: PaperTable, row: Row, key: str, column: Column, text: str, printed: Printed) -> Claim:
    return Claim(
        id=f"{table}/{row.arm}/{key}",
        table=table,
        arm=row.arm,
        label=row.label,
        norm=row.norm,
        framework=row.framework or paper.framework,
        column=key,
        heading=column.heading,
        task=paper.task,
        metric=column.metric,
        unit=unit(column.unit, table),
        direction=column.direction,
        printed=text,
        value=printed.value,
        digits=printed.digits,
        spread=printed.spread,
        n=column.n,
        hardware=paper.hardware if unit(column.unit, table).is_time else None,
        source=paper.source,
        approximate=printed.approximate,
        fails=printed.fails,
        origin=row.origin,
        reference=_reference(paper, row),
    )


def _reference(paper: PaperTable, row: Row) -> str | None:
    """Return LayerNorm's arm of the same framework, for LayerNorm itself the arm without a norm."""
    wanted = "none" if row.norm == REFERENCE_NORM else REFERENCE_NORM
    if row.origin is not None or not row.compared:
        return None
    alike = [other for other in paper.rows if other.framework == row.framework and other.origin is None]
    return next((other.arm for other in alike if other.norm == wanted), None)


def _speedup(claim: Claim, percent: float) -> Claim:
    changes: dict[str, Any] = {
        "id": f"{claim.id}/speedup",
        "metric": "speedup",
        "unit": unit("%", claim.id),
        "direction": "max",
        "printed": f"{percent}%",
        "value": percent,
        "digits": 1,
        "spread": None,
    }
    return Claim(**{**claim.__dict__, **changes})
