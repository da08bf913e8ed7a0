"""Every target of the Makefile is one, and each that is promised can be made."""

import os
import re
import shutil
import subprocess

import pytest

from rmsrepro.runs.rundir import source_checkout

CHECKOUT = source_checkout()
pytestmark = pytest.mark.skipif(CHECKOUT is None or shutil.which("make") is None, reason="needs make and the sources")


def dry_run(target, folder, *more):
    """Return what `make -n` says of a target where everything is set up, whatever make runs the tests."""
    ready = folder / ".installed"
    ready.touch()
    words = ["make", "-n", f"VENV={folder}", "-o", str(ready), target, *more]
    ours = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return subprocess.run(words, cwd=CHECKOUT, env=ours, capture_output=True, text=True)


def test_every_promised_target_has_one_recipe(tmp_path):
    text = (CHECKOUT / "Makefile").read_text()
    promised = (
        re.search(r"^\.PHONY: (.*)$", text, re.M).group(1).replace("$(PLANS)", "table1 table4 figure1 mnist").split()
    )
    for target in promised:
        made = dry_run(target, tmp_path)
        assert made.returncode == 0, made.stderr
        assert "warning" not in made.stderr
        assert target == "setup" or "Nothing to be done" not in made.stdout, target


def test_checks_of_records_and_of_a_gpu_are_told_apart(tmp_path):
    assert "rmsrepro.report --check" in dry_run("check", tmp_path).stdout
    assert "gpu_check.py" in dry_run("gpu-check", tmp_path).stdout


def test_what_is_rendered_is_read_from_where_the_runs_were_made(tmp_path):
    for target in ("tables", "figures", "report", "mnist"):
        made = dry_run(target, tmp_path, "ARGS=runs.root=there data.root=here").stdout
        assert re.search(r"rmsrepro\.report\b.* runs\.root=there(;|$)", made, re.M), target
