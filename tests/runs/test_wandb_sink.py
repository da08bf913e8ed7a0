import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from rmsrepro.runs import wandb_sink
from rmsrepro.runs.rundir import RunDir
from rmsrepro.runs.wandb_sink import WandbSink

CONFIG = {"task": {"name": "mnist"}, "seed": 3}
KEY = "0" * 40


@pytest.fixture(autouse=True)
def bare_environment(tmp_path):
    """No key, no netrc, and a home directory that can be neither read nor made."""
    with mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            del os.environ[name]
        os.environ["HOME"] = "/proc/no-home"
        os.environ["NETRC"] = str(tmp_path / "netrc")
        yield


@pytest.fixture
def run(tmp_path):
    run = RunDir.locate(tmp_path / "runs", "mnist", "rmsnorm", "0123abcd")
    run.create()
    return run


def warnings(caplog):
    ours = [record for record in caplog.records if record.name.startswith("rmsrepro")]
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


def read_back(run):
    """Return the records of the run's only W&B file, as W&B's own reader prints them, by type."""
    (file,) = run.path.glob("wandb/*run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    records = {}
    for record in map(json.loads, lines):
        records.setdefault(record["type"], []).append(record[record["type"]])
    return records


def history(records):
    rows = [record["item"] for record in records["history"]]
    return [{key: value for key, value in row.items() if key in ("_step", "train/loss")} for row in rows]


def test_wandb_gets_config_rows_summary_group_and_the_failure(run, caplog):
    sink = WandbSink(run, config=CONFIG, project="p", group="table2", name="mnist rmsnorm", tags=["tiny"])
    assert sink.mode == "offline"
    for step in (10, 20, 30):
        sink.log(step, {"train/loss": 1 / step, "lr": 0.1})
    sink.summary({"test/accuracy": 0.98})
    sink.finish(1)

    records = read_back(run)
    (start,) = records["run"]
    assert start["config"]["update"] == {"_wandb": mock.ANY, **CONFIG}
    assert (start["project"], start["run_group"], start["job_type"]) == ("p", "table2", "train")
    assert (start["display_name"], start["tags"]) == ("mnist rmsnorm", ["tiny"])
    assert start["run_id"] == sink.run_id
    assert start["run_id"].startswith("0123abcd-1-")
    assert history(records) == [{"_step": step, "train/loss": 1 / step} for step in (10, 20, 30)]
    assert any(record["update"].get("test/accuracy") == 0.98 for record in records["summary"])
    assert [end["exit_code"] for end in records["exit"]] == [1]
    assert warnings(caplog) == []

    second = WandbSink(run, config=CONFIG)
    second.finish(0)
    assert second.run_id.startswith("0123abcd-2-")


def test_online_without_a_key_is_offline_with_one_warning(run, caplog):
    Path(os.environ["NETRC"]).write_bytes(b"machine api.wandb.ai login \xff")
    sink = WandbSink(run, config=CONFIG, mode="online")
    sink.log(1, {"train/loss": 1.0})
    sink.finish(0)
    assert len(warnings(caplog)) == 1
    assert "WANDB_API_KEY" in warnings(caplog)[0]
    assert [end["exit_code"] for end in read_back(run)["exit"]] == [0]


def test_online_without_a_network_is_offline_within_the_bound_and_loses_nothing(run, caplog):
    os.environ.update(WANDB_API_KEY=KEY, WANDB_BASE_URL="http://127.0.0.1:9")
    started_s = time.monotonic()
    sink = WandbSink(run, config=CONFIG, mode="auto", init_timeout_s=1.0)
    assert time.monotonic() - started_s < 1.0 + wandb_sink.MARGIN_S
    assert sink.mode == "offline"
    sink.log(1, {"train/loss": 1.0})
    sink.finish(0)
    assert len(warnings(caplog)) == 1
    records = read_back(run)
    assert records["run"][0]["run_id"] == sink.run_id
    assert history(records) == [{"_step": 1, "train/loss": 1}]


CUT_OFF = """
import logging, sys, time
from pathlib import Path
from rmsrepro.runs.rundir import RunDir
from rmsrepro.runs.wandb_sink import WandbSink
from tests.runs.wandb_server import start_server
import os
logging.basicConfig(stream=sys.stdout, format="WARNED %(message)s", level=logging.WARNING)
server = start_server()
os.environ["WANDB_BASE_URL"] = f"http://127.0.0.1:{server.server_port}"
sink = WandbSink(RunDir(Path(sys.argv[1])), config={}, mode="online", finish_timeout_s=1.0)
print(sink.mode)
sink.log(1, {"train/loss": 1.0})
server.cut.set()
started_s = time.monotonic()
for step in range(2, 200):
    sink.log(step, {"train/loss": 1 / step})
print(time.monotonic() - started_s)
started_s = time.monotonic()
sink.finish(0)
print(time.monotonic() - started_s)
print(time.time())
"""


def test_a_network_that_dies_in_mid_run_blocks_neither_the_rows_nor_the_end(run):
    os.environ["WANDB_API_KEY"] = KEY
    process = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(run.path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    ended_s = time.time()
    mode, log_s, *warned, finish_s, finished_s = process.stdout.splitlines()
    assert mode == "online"
    assert float(log_s) < 1.0
    assert len(warned) == 1
    assert "wandb sync" in warned[0]
    assert float(finish_s) < 1.0 + wandb_sink.MARGIN_S
    assert ended_s - float(finished_s) < 5.0
    rows = history(read_back(run))
    assert [row["_step"] for row in rows] == list(range(1, 200))


def test_a_row_costs_the_training_loop_next_to_nothing(run):
    sink = WandbSink(run, config=CONFIG)
    started_s = time.perf_counter()
    for step in range(100):
        sink.log(step, {"train/loss": 0.5, "lr": 0.1})
    cost_s = (time.perf_counter() - started_s) / 100
    sink.finish(0)
    assert cost_s < 1e-3


def test_disabled_writes_nothing_and_does_not_even_import_wandb(tmp_path):
    code = (
        "import sys; from pathlib import Path;"
        "from rmsrepro.runs.rundir import RunDir; from rmsrepro.runs.wandb_sink import WandbSink;"
        "sink = WandbSink(RunDir(Path(sys.argv[1])), config={}, mode='disabled');"
        "sink.log(1, {}); sink.summary({}); sink.finish(0); assert 'wandb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_wandb_that_cannot_start_is_one_warning(tmp_path, caplog):
    (tmp_path / "wandb").write_text("a file where W&B's folder should be")
    sink = WandbSink(RunDir(tmp_path), config=CONFIG)
    sink.log(1, {"train/loss": 1.0})
    sink.summary({})
    sink.finish(0)
    assert len(warnings(caplog)) == 1
    assert "switched off" in warnings(caplog)[0]


def test_a_wandb_that_hangs_is_left_behind_within_the_bound(run, caplog, monkeypatch):
    class HangingRun:
        def log(self, row, step):
            time.sleep(30)

    monkeypatch.setattr(wandb_sink, "start_session", lambda *_, **__: (HangingRun(), "online"))
    monkeypatch.setattr(wandb_sink, "MARGIN_S", 0.1)
    monkeypatch.setattr(wandb_sink, "_QUEUED_ROWS", 3)
    sink = WandbSink(run, config=CONFIG, finish_timeout_s=0.2)
    started_s = time.monotonic()
    for step in range(10):
        sink.log(step, {"train/loss": 1.0})
    sink.finish(0)
    assert time.monotonic() - started_s < 5.0
    assert len(warnings(caplog)) == 2
    assert "misses rows" in warnings(caplog)[0]
    assert "switched off" in warnings(caplog)[1]
