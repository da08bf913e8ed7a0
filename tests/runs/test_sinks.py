import logging
import math

import pytest

from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import read_jsonl
from rmsrepro.runs.sinks import JsonlSink, SinkGroup


class ListSink:
    """Keeps what it is given, and raises from the row of ``fails_at`` on."""

    def __init__(self, fails_at=None):
        self.fails_at = fails_at
        self.calls = []

    def log(self, step, row):
        self.calls.append(step)
        if self.fails_at is not None and step >= self.fails_at:
            raise RuntimeError("out of service")

    def summary(self, values):
        self.calls.append("summary")

    def finish(self, exit_code):
        self.calls.append(exit_code)


def without_times(path):
    return [{key: value for key, value in row.items() if key != "time_s"} for row in read_jsonl(path)]


def log_steps(sink, steps):
    for step in steps:
        sink.log(step, {"train/loss": 1.0 / step})


def test_every_row_is_in_the_file_as_soon_as_it_is_logged(tmp_path):
    sink = JsonlSink(tmp_path / "metrics.jsonl")
    sink.log(1, {"train/loss": 0.5, "lr": 1, "phase": "warm-up"})
    sink.log(2, {"train/loss": math.nan})
    first, second = read_jsonl(tmp_path / "metrics.jsonl")
    assert first.pop("time_s") >= 0
    assert first == {"step": 1, "train/loss": 0.5, "lr": 1, "phase": "warm-up"}
    assert math.isnan(float(second["train/loss"]))
    sink.finish(0)
    sink.finish(0)


@pytest.mark.parametrize("torn", [b"", b'{"step": 9, "train/lo'])
def test_a_resumed_record_equals_that_of_an_uninterrupted_run(tmp_path, torn):
    whole, resumed = tmp_path / "whole.jsonl", tmp_path / "resumed.jsonl"
    log_steps(JsonlSink(whole), range(1, 11))
    log_steps(JsonlSink(resumed), range(1, 9))
    with resumed.open("ab") as file:
        file.write(torn)
    log_steps(JsonlSink(resumed, resume_step=6), range(7, 11))
    assert without_times(resumed) == without_times(whole)
    times = [row["time_s"] for row in read_jsonl(resumed)]
    assert times == sorted(times)


@pytest.mark.parametrize("line", [b"loss\n", b"[1]\n", b"{}\n", b'{"step": "x"}\n'])
def test_a_record_damaged_in_its_middle_is_one_line_with_the_way_out_and_stays_as_it_was(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    log_steps(JsonlSink(path), [1, 2])
    damaged = line + path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"metrics\.jsonl.*; mend the line, or set runs\.overwrite=true"):
        JsonlSink(path, resume_step=1)
    assert path.read_bytes() == damaged


def test_a_fresh_start_drops_the_rows_of_an_attempt_that_saved_nothing(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log_steps(JsonlSink(path), range(1, 4))
    log_steps(JsonlSink(path, resume_step=None), [1])
    assert [row["step"] for row in read_jsonl(path)] == [1]
    path.unlink()
    log_steps(JsonlSink(path, resume_step=5), [6])
    assert [row["step"] for row in read_jsonl(path)] == [6]


def test_a_broken_tracker_is_switched_off_with_one_warning(caplog):
    caplog.set_level(logging.WARNING)
    primary, broken, sound = ListSink(), ListSink(fails_at=2), ListSink()
    group = SinkGroup(primary, [broken, sound])
    for step in (1, 2, 3):
        group.log(step, {})
    group.summary({})
    group.finish(1)
    assert primary.calls == sound.calls == [1, 2, 3, "summary", 1]
    assert broken.calls == [1, 2]
    assert [record.getMessage() for record in caplog.records] == ["ListSink is switched off: out of service"]


def test_a_failing_primary_sink_stops_the_run():
    group = SinkGroup(ListSink(fails_at=1), [])
    with pytest.raises(RuntimeError, match="out of service"):
        group.log(1, {})
