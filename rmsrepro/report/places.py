"""Where the paper's numbers, the committed records and the rendered tables lie."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from rmsrepro.errors import DataError
from rmsrepro.runs.rundir import source_checkout


def results_dir() -> Path:
    """Return results/ of the source checkout, else results/ under the launch directory."""
    return (source_checkout() or Path.cwd()) / "results"


def paper_dir() -> Path:
    """Return the folder with the paper's numbers: beside the runs in a checkout, in the package when installed."""
    installed = Path(__file__).resolve().parents[1] / "paper"
    folder = installed if installed.is_dir() else results_dir() / "paper"
    if not folder.is_dir():
        raise DataError(f"{folder}: the paper's numbers are not there; start from a checkout of rmsrepro")
    return folder


def published_dir() -> Path:
    """Return the folder with the committed records."""
    return results_dir() / "published"


@contextmanager
def updating(folder: Path) -> Generator[None]:
    """Make a folder of records and hold it for the block, which reads a file and writes it again; raises OSError.

    Whoever comes second waits, so that two who publish at once lose nothing of one another.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        yield
