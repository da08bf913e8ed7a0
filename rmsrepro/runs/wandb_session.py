"""Starting a W&B run: online if that works, else offline, with all its files in one folder."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from rmsrepro.runs.wandb_mode import WandbMode, resolve_mode

_log = logging.getLogger(__name__)


def start_session(
    run_options: dict[str, Any], *, mode: str, init_timeout_s: float, finish_timeout_s: float
) -> tuple[Any, WandbMode]:
    """Start the run that ``run_options`` (arguments of wandb.init) describe; return it and its mode.

    The run is None when W&B is disabled. Everything is written under ``run_options["dir"]/wandb``.
    Raises what wandb raises when not even an offline run can be started.
    """
    folder = Path(run_options["dir"]) / "wandb"
    _prepare_environment(folder)
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    resolved, reason = resolve_mode(mode, os.environ, wandb.Settings().base_url)
    if reason is not None:
        _log.warning("%s", reason)
    if resolved == "disabled":
        return None, resolved
    settings = _settings(wandb, init_timeout_s, finish_timeout_s)
    if resolved == "online":
        try:
            return wandb.init(**run_options, mode="online", settings=settings), "online"
        except Exception as error:  # no network, a refused key, a broken server
            _clear_failed_start(wandb, folder, run_options["id"], error)
    return wandb.init(**run_options, mode="offline", settings=settings), "offline"


def end_session(run: Any, exit_code: int) -> None:
    """Close the run and W&B's service process, so that the next run of this process starts afresh."""
    import wandb

    run.finish(exit_code=exit_code)
    wandb.teardown(exit_code=exit_code)


def _settings(wandb: Any, init_timeout_s: float, finish_timeout_s: float) -> Any:
    wishes = {
        "init_timeout": init_timeout_s,
        "finish_timeout": finish_timeout_s,
        "silent": True,
        "console": "off",  # the run's log has it
        "save_code": False,
        "disable_code": True,
        "disable_git": True,  # the manifest has the commit
        "x_disable_stats": True,
        "x_disable_meta": True,  # it would hold the command line, keys and all
        "x_save_requirements": False,
        "symlink": False,
    }
    known = wandb.Settings.model_fields  # older versions lack some of them
    return wandb.Settings(**{name: value for name, value in wishes.items() if name in known})


def _clear_failed_start(wandb: Any, folder: Path, run_id: str, error: Exception) -> None:
    """Clear away what a failed online start leaves: the claim on the run's id, and an empty record."""
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    _log.warning("W&B works offline: online did not start (%s)", first_line)
    wandb.teardown(exit_code=1)
    wandb.setup(wandb.Settings(silent=True))
    for leftover in folder.glob(f"run-*-{run_id}"):
        shutil.rmtree(leftover, ignore_errors=True)


def _prepare_environment(folder: Path) -> None:
    """Point W&B's caches into the run directory: the home directory may be read-only or missing."""
    # Its own usage reports would hold up the end of a process for 10 s when the server does not answer.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    for kind in ("CACHE", "CONFIG", "DATA"):
        cache = folder / f".{kind.lower()}"
        cache.mkdir(parents=True, exist_ok=True)
        os.environ[f"WANDB_{kind}_DIR"] = str(cache)
