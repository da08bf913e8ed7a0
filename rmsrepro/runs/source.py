"""Which source a run was made from: git commit, whether it was changed, and a hash of the change."""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from rmsrepro.runs.rundir import source_checkout

GIT_TIMEOUT_S = 10.0


def git_state() -> dict[str, Any]:
    """Return ``commit``, ``dirty`` and ``diff_sha256`` of the checkout that rmsrepro is imported from.

    All are None for an installed package, or when git is missing or refuses, with the reason in ``note``.
    ``diff_sha256`` hashes ``git diff HEAD`` and is None for a clean tree.
    """
    state: dict[str, Any] = {"commit": None, "dirty": None, "diff_sha256": None, "note": None}
    tree = _git_tree()
    if tree is None:
        return state | {"note": "not run from a git checkout"}
    try:
        state["commit"] = _git(tree, "rev-parse", "HEAD").decode().strip()
        state["dirty"] = bool(_git(tree, "status", "--porcelain").strip())
        if state["dirty"]:
            state["diff_sha256"] = hashlib.sha256(_git(tree, "diff", "HEAD", "--binary")).hexdigest()
    except (OSError, subprocess.SubprocessError) as error:
        state["note"] = _reason(error)
    return state


def git_commit() -> str | None:
    """Return the commit of the checkout that rmsrepro is imported from, or None if there is none to ask."""
    tree = _git_tree()
    if tree is None:
        return None
    try:
        return _git(tree, "rev-parse", "HEAD").decode().strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _git_tree() -> Path | None:
    """Return the checkout if it is the root of its own repository, not merely inside somebody else's."""
    tree = source_checkout()
    return tree if tree is not None and (tree / ".git").exists() else None


def _git(tree: Path, *arguments: str) -> bytes:
    # Without optional locks git writes nothing, so that many runs may ask at once.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", "-C", str(tree), *arguments]
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_TIMEOUT_S,
        check=True,
    ).stdout


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[0] if lines else f"git exited with {error.returncode}"
    return str(error)
