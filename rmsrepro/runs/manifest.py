"""manifest.json: everything needed to say how a number was made, and to make it again."""

import importlib.metadata
import os
import platform
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rmsrepro import __version__
from rmsrepro.runs.machine import hardware, threads
from rmsrepro.runs.source import git_commit, git_state

__all__ = ["build_manifest", "command_line", "git_commit", "installed_packages"]

_KEY_PACKAGES = (
    "torch",
    "torchvision",
    "triton",
    "numpy",
    "scipy",
    "hydra-core",
    "omegaconf",
    "sacrebleu",
    "sentencepiece",
    "datasets",
    "wandb",
)
_HIDDEN = "***"
_SECRET_NAME = re.compile(r"(api_?key|secret|passw(or)?d|credentials?|(access|auth|bearer|hf)_?token)$", re.I)
_SECRET_VARIABLE = re.compile(r"(_KEY|_TOKEN|_SECRET|PASSWORD)$")
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def build_manifest(
    *,
    argv: Sequence[str],
    config_hash: str,
    data_checksums: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Describe the run that is about to start: time (UTC), command, versions, source, hardware, data.

    Torch's threads and GPUs are included when torch is already imported. Never fails for want of git or
    a GPU, and holds no environment variables but those that set threads, and no keys or passwords.
    """
    packages = installed_packages()
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(argv),
        "directory": str(Path.cwd()),
        "config_hash": config_hash,
        "rmsrepro": __version__,
        "git": git_state(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "versions": {name: packages.get(name) for name in _KEY_PACKAGES},
        "freeze": [f"{name}=={version}" for name, version in sorted(packages.items())],
        "hardware": hardware(),
        "threads": threads(),
        "data_checksums": dict(data_checksums),
        **(extra or {}),
    }


def installed_packages() -> dict[str, str]:
    """Map each installed distribution's normalised name to its version."""
    packages = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a broken installation may leave a folder without metadata
            packages.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return packages


def command_line(argv: Sequence[str]) -> str:
    """Quote ``argv`` for a shell, as ``python -m`` where it was one, with keys and passwords blotted out."""
    program = Path(argv[0])
    start = ["python", "-m", program.parent.name] if program.name == "__main__.py" else [argv[0]]
    return shlex.join([*start, *_without_secrets(argv[1:])])


def _without_secrets(arguments: Iterable[str]) -> list[str]:
    secrets = [value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name) and len(value) >= 8]
    cleaned = []
    value_is_secret = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        names_secret = _SECRET_NAME.search(name.replace("-", "_")) is not None
        if value_is_secret:
            argument = _HIDDEN
        elif names_secret and equals:
            argument = f"{name}={_HIDDEN}"
        for secret in secrets:
            argument = argument.replace(secret, _HIDDEN)
        cleaned.append(_URL_LOGIN.sub(_HIDDEN, argument))
        value_is_secret = names_secret and not equals and name.startswith("-")
    return cleaned
