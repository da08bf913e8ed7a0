import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SWEEPING = str(Path(__file__).with_name("sweeping.py"))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that counts the runs that were made, by norm and seed."""
    file = tmp_path / "made"
    file.touch()
    monkeypatch.setenv("MADE", str(file))
    return lambda: Counter(" ".join(line.split()[:2]) for line in file.read_text().splitlines())


@pytest.fixture
def play(monkeypatch):
    """Return a function that says how the runs of each norm end."""
    return lambda **ends: monkeypatch.setenv("PLAY", json.dumps(ends))


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a sweep over stand-ins as a program."""
    return lambda *words: subprocess.Popen(
        [sys.executable, SWEEPING, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def sweep(start):
    """Return a function that runs such a sweep to its end: exit code, stdout, stderr."""

    def run(*words):
        process = start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run
