"""The command works from any folder, from an installed wheel, and with little it may write to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rmsrepro.conf import conf_dir

REPOSITORY = Path(__file__).resolve().parents[2]


def rmsrepro(*arguments, cwd, **environment):
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
    command = [sys.executable, "-m", "rmsrepro", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env, timeout=120)


@pytest.mark.parametrize("extra", [[], ["hydra.job.chdir=true"]])
def test_relative_folders_are_meant_from_where_the_command_was_started(tmp_path, extra):
    here = tmp_path / "über alles"
    here.mkdir()
    arguments = ["data.root=../d", "runs.root=r", *extra, "--cfg", "job"]
    shown = yaml.safe_load(rmsrepro(*arguments, cwd=here).stdout)
    assert Path(shown["data"]["root"]).resolve() == tmp_path / "d"
    assert Path(shown["runs"]["root"]) == here / "r"
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    "flags", [["-m"], ["-m", "hydra.job.chdir=true"], ["-m", "hydra/launcher=basic", "hydra.job.chdir=true"]]
)
def test_a_sweep_looks_for_its_data_where_it_was_started(tmp_path, flags):
    # The folder is a file, so that the message names where it was looked for.
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "d").write_text("")
    sweep = ["hydra.sweep.dir=sweep"] if any("launcher" in flag for flag in flags) else []
    ended = rmsrepro(
        *flags, *sweep, "seed=1", "data.root=../d", "track=none", f"runs.root={tmp_path / 'runs'}", cwd=here
    )
    assert ended.returncode == 2
    assert f"data.root is {here}/../d, which is a file" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_lists_the_groups_from_anywhere():
    ended = rmsrepro("--help", cwd="/")
    assert ended.returncode == 0
    assert "norm: batchnorm, l2norm, layernorm" in ended.stdout
    assert ended.stderr == ""


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Install the wheel into a folder, without its dependencies, and return the folder."""
    pytest.importorskip("hatchling")
    where = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no pip")
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(where), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = where.glob("rmsrepro-*.whl")
    target = where / "site-packages"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)], check=True)
    return target


@pytest.mark.slow
def test_an_installed_wheel_brings_its_configuration_and_writes_nothing_beside_itself(installed, tmp_path):
    names = {path.relative_to(conf_dir()) for path in conf_dir().rglob("*.yaml")}
    assert {
        path.relative_to(installed / "rmsrepro/conf") for path in (installed / "rmsrepro/conf").rglob("*.yaml")
    } == names
    before = {path for path in installed.rglob("*") if "__pycache__" not in path.parts}
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    environment = {"PYTHONPATH": str(installed), "HOME": "/nonexistent", "XDG_CACHE_HOME": "/dev/null/x"}
    environment |= {"RMSREPRO_RUNS": str(tmp_path / "r"), "RMSREPRO_DATA": str(tmp_path / "nothing")}
    assert rmsrepro("--help", cwd="/", **environment).returncode == 0
    shown = rmsrepro("norm=layernorm", "size=tiny", "--cfg", "job", cwd="/", **environment)
    assert yaml.safe_load(shown.stdout)["train"]["max_steps"] == 60
    script = subprocess.run(
        [sys.executable, str(installed / "bin" / "rmsrepro"), "norm.p=0"],
        env={**os.environ, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (script.returncode, script.stderr.count("\n")) == (2, 1)
    assert {path for path in installed.rglob("*") if "__pycache__" not in path.parts} == before


@pytest.mark.slow
def test_a_run_with_neither_home_nor_cache_trains_on_data_it_is_told_of(installed, tmp_path, mnist_root):
    environment = {"PYTHONPATH": str(installed), "HOME": "/nonexistent", "XDG_CACHE_HOME": "/dev/null/x"}
    environment |= {"RMSREPRO_RUNS": str(tmp_path / "r"), "WANDB_MODE": "offline"}
    overrides = ["size=tiny", "train.max_steps=3", f"data.root={mnist_root}", "task.hidden=[8]"]
    ended = rmsrepro(*overrides, cwd="/", **environment)
    assert ended.returncode == 0, ended.stderr
    assert Path(ended.stdout.splitlines()[-1]).is_file()
