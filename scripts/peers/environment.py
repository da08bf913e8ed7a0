"""Throw-away environments with a peer from PyPI in each."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path


class NotInstalledError(Exception):
    """A peer could not be installed; the message is pip's last line."""


@dataclass(frozen=True)
class Peer:
    """A package to compare with, and what its environment needs."""

    title: str
    requirements: tuple[str, ...]
    shares_torch: bool
    """Whether it runs with the torch of this Python, which is then not installed again."""


PEERS = {
    "opennmt": Peer("OpenNMT-py", ("OpenNMT-py==3.5.1", "torch<2.3", "numpy<2", "setuptools<81"), shares_torch=False),
    "joeynmt": Peer("JoeyNMT", ("joeynmt==2.3.0", "importlib_metadata", "setuptools<81"), shares_torch=True),
}


def installed(peer: Peer, folder: Path) -> Path:
    """Return the Python of an environment in `folder` that has `peer`, made where it is not there.

    Raises:
        NotInstalledError: pip does not find or build something.
    """
    python, mark = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if mark.is_file() and mark.read_text() == wanted:
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    if peer.shares_torch:
        packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        (folder / packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements])
    mark.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().split("\n")
        raise NotInstalledError(next((line for line in reversed(lines) if "ERROR" in line), lines[-1]))
