"""Numbers that are not the paper's: published elsewhere, and claimed elsewhere without a source. None is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.errors import DataError
from rmsrepro.report.claims import read_yaml
from rmsrepro.report.places import paper_dir
from rmsrepro.report.units import DIRECTIONS, unit

PUBLISHED = "published elsewhere"
UNSOURCED = "claimed elsewhere without a source"


@dataclass
class Reference:
    """One number and where it was found."""

    id: str
    task: str
    data: str
    model: str
    metric: str
    unit: str
    direction: str
    value: float
    source: str
    note: str


@dataclass
class ElsewhereFile:
    """References of one label, which stands beside every one of them wherever they are shown."""

    label: str
    references: list[Reference]
    statements: list[str] = field(default_factory=list)


def load_published(folder: Path | None = None) -> ElsewhereFile:
    """Read what other publications state."""
    return _load(folder, "published", PUBLISHED)


def load_unsourced(folder: Path | None = None) -> ElsewhereFile:
    """Read what circulates as the paper's without being in it."""
    return _load(folder, "unsourced", UNSOURCED)


def _load(folder: Path | None, name: str, label: str) -> ElsewhereFile:
    path = (folder or paper_dir() / "elsewhere") / f"{name}.yaml"
    content = read_yaml(ElsewhereFile, path)
    if content.label != label:
        raise DataError(f"{path}: label {content.label!r}, expected {label!r}")
    seen: set[str] = set()
    for reference in content.references:
        if reference.id in seen:
            raise DataError(f"{path}: the id {reference.id} occurs twice")
        seen.add(reference.id)
        unit(reference.unit, f"{path}, {reference.id}")
        if reference.direction not in DIRECTIONS:
            raise DataError(f"{path}, {reference.id}: direction {reference.direction!r} is not known")
    return content
