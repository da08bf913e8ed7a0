import io
import os
import pty
import time

import pytest

from rmsrepro.runs import progress
from rmsrepro.runs.progress import Progress, format_duration


def test_without_a_terminal_every_tenth_of_the_steps_is_a_plain_line():
    stream = io.StringIO()
    with Progress(200, description="mnist", stream=stream) as bar:
        for step in range(1, 201):
            bar.update(step, loss=1.0 / step)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("mnist 20/200 (10 %) ")
    assert lines[-1].startswith("mnist 200/200 (100 %) ")
    assert "steps/s, 0 s left, loss 0.005" in lines[-1]
    assert "\x1b" not in stream.getvalue()


def test_a_slow_run_speaks_up_between_the_tenths(monkeypatch):
    monkeypatch.setattr(progress, "_LINE_INTERVAL_S", 0.0)
    stream = io.StringIO()
    with Progress(1000, start_step=500, stream=stream) as bar:
        for step in (501, 502, 503):
            bar.update(step)
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == [
        "501/1000",
        "502/1000",
        "503/1000",
    ]


def test_the_rate_counts_only_the_steps_of_this_attempt():
    stream = io.StringIO()
    with Progress(1010, start_step=1000, stream=stream) as bar:
        time.sleep(0.1)
        bar.update(1010)
    rate = float(stream.getvalue().split(") ")[1].split(" steps/s")[0])
    assert 20 < rate <= 100


def test_a_terminal_gets_a_bar_with_the_time_to_go():
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        with Progress(50, description="mnist", stream=terminal) as bar:
            bar.update(25, loss=0.25)
        time.sleep(0.05)
        shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "25/50" in shown
    assert "left, loss 0.25" in shown


def test_values_are_turned_into_numbers_only_when_shown():
    class Costly:
        read = 0

        def __float__(self):
            Costly.read += 1
            return 0.5

    with Progress(100, stream=io.StringIO()) as bar:
        for step in range(1, 101):
            bar.update(step, loss=Costly())
    assert Costly.read == 10


def test_a_step_costs_next_to_nothing():
    with Progress(10**9, stream=io.StringIO()) as bar:
        best_s = min(_time_updates(bar, 1000) for _ in range(5))
    assert best_s / 1000 < 20e-6


def _time_updates(bar, steps):
    started_s = time.perf_counter()
    for step in range(steps):
        bar.update(step, loss=0.5)
    return time.perf_counter() - started_s


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")]
)
def test_durations_read_well(seconds, text):
    assert format_duration(seconds) == text
