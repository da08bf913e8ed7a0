"""Whether runs were made of the same data: by name, and by what their records say of its contents."""

from __future__ import annotations

from collections.abc import Iterable

from rmsrepro.report.metrics import facts_of
from rmsrepro.report.records import RunRecord

#: Facts of a result that name contents, for records without checksums. Others differ from run to run, or by settings.
_NAMING_FACTS = ("features", "vocabulary_sha256")


def contents(runs: Iterable[RunRecord]) -> dict[str, str]:
    """Return what runs of the same data say of it together: checksums by file, and facts that name contents."""
    found: dict[str, str] = {}
    for run in runs:
        named = facts_of(run.result)
        found |= {key: str(named[key]) for key in _NAMING_FACTS if key in named}
        found |= run.data_checksums
    return found


def differ(ours: dict[str, str], theirs: dict[str, str]) -> bool:
    """Tell whether two contents are known to differ.

    What only one of them has says nothing: a machine may lack a test set, and earlier records have no checksums.
    """
    return any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys())


def by_data(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """Split runs into those of the same data; one that says nothing of its data goes with the first."""
    groups: list[tuple[dict[str, str], list[RunRecord]]] = []
    for run in sorted(runs, key=lambda run: len(contents([run])), reverse=True):
        own = contents([run])
        for known, group in groups:
            if group[0].data == run.data and not differ(known, own):
                known |= own
                group.append(run)
                break
        else:
            groups.append((own, [run]))
    return [group for _, group in groups]
