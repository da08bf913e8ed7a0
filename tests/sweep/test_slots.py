"""Workers have processors and GPUs of their own, and a run's configuration knows nothing of it."""

import os
import signal
import tempfile
import time

import pytest

from rmsrepro.errors import ConfigError
from rmsrepro.sweep import slots
from rmsrepro.sweep.launcher import LocalLauncher, console_of
from rmsrepro.sweep.options import parse
from rmsrepro.sweep.slots import build_slots, visible_gpus
from rmsrepro.sweep.specs import build_specs

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity here")


@pytest.fixture
def four_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 6, 7})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_processors_are_shared_without_overlap(four_cpus, monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    found = build_slots(2, gpu=False)
    assert [slot.cpus for slot in found] == [(2, 3), (6, 7)]
    # What the user asks for is kept where it is less than the share.
    assert found[0].environment == {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"}


def test_one_worker_is_left_as_it_is(four_cpus):
    (slot,) = build_slots(None, gpu=False)
    assert (slot.cpus, slot.environment) == ((), {})


def test_each_worker_has_a_gpu_of_its_own(four_cpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-ab")
    assert [slot.gpus for slot in build_slots(None, gpu=True)] == [("3", "GPU-ab"), ("GPU-ab", "3")]
    assert len(build_slots(4, gpu=False)) == 4
    with pytest.raises(ConfigError, match="workers=3: allowed are 1 to 2, a GPU for each"):
        build_slots(3, gpu=True)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def end(job):
    job.send_signal(signal.SIGTERM)
    wait_for(lambda: job.poll() is not None)


def test_sweeps_at_once_take_gpus_that_are_free(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    specs = build_specs(parse(["plan=mnist", "size=tiny", "arms=rmsnorm", "seeds=1,2,3,4"]))
    jobs = []
    for spec in specs:
        if len(jobs) == 3:
            end(jobs[1])
        spec.rundir.create()
        launcher = LocalLauncher(build_slots(1, gpu=True), ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 60"])
        jobs.append(launcher.start(spec))
        wait_for(lambda spec=spec: console_of(spec).read_text())
    for job in jobs:
        end(job)
    # The third finds none free and shares; the second has ended when the fourth starts.
    assert [console_of(spec).read_text() for spec in specs] == ["4\n", "5\n", "4\n", "5\n"]


def test_no_gpu_is_visible_where_none_is_allowed_or_there_is_no_driver(monkeypatch):
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
    monkeypatch.setattr(slots.shutil, "which", lambda name: None)
    assert visible_gpus({}) == []


def test_a_process_started_in_a_slot_is_bound_to_it(sweep, made, tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor only")
    assert sweep("arms=layernorm,rmsnorm", "seeds=1", "workers=2")[0] == 0
    share = len(os.sched_getaffinity(0)) // 2
    assert {line.split()[3] for line in (tmp_path / "made").read_text().splitlines()} == {f"cpus={share}"}
