import math
import multiprocessing
import os
import resource
from pathlib import Path

import pytest

from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import (
    append_jsonl,
    atomic_writer,
    read_json,
    read_jsonl,
    to_json,
    write_bytes_atomic,
    write_json_atomic,
)


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "status.json"
    write_json_atomic(path, {"state": "running"})
    with pytest.raises(TypeError), atomic_writer(path) as file:
        file.writelines([b'{"state": "do', None])
    assert read_json(path) == {"state": "running"}
    assert [file.name for file in tmp_path.iterdir()] == ["status.json"]


def _write_too_much(path: Path) -> int:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        write_bytes_atomic(path, b"x" * 1_000_000)
    except OSError as error:
        return error.errno or 0
    return 0


def test_a_full_disk_is_an_os_error_and_the_old_file_survives(tmp_path):
    path = tmp_path / "last.pt"
    write_bytes_atomic(path, b"good")
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # the limit must not stay with this process
        assert pool.apply(_write_too_much, (path,)) > 0
    assert path.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_row_that_finds_no_space_is_an_os_error():
    with Path("/dev/full").open("ab", buffering=0) as file, pytest.raises(OSError, match="No space"):
        append_jsonl(file, {"step": 1})


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_bytes_atomic(path, b"row")
        assert os.read(reader, 10) == b"row"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_bytes_atomic(tmp_path / "nowhere" / "file", b"")


def test_non_finite_numbers_stay_valid_json_and_come_back_through_float(tmp_path):
    path = tmp_path / "row.json"
    write_json_atomic(path, {"a": math.nan, "b": [math.inf, -math.inf]})
    assert path.read_text() == '{\n  "a": "NaN",\n  "b": [\n    "Infinity",\n    "-Infinity"\n  ]\n}\n'
    row = read_json(path)
    assert math.isnan(float(row["a"]))
    assert [float(value) for value in row["b"]] == [math.inf, -math.inf]


def test_paths_and_array_scalars_are_written_and_unknown_objects_refused():
    numpy = pytest.importorskip("numpy")
    assert to_json({"p": Path("/ü"), "n": numpy.float32(0.5), "i": numpy.int64(3)}) == '{"p": "/ü", "n": 0.5, "i": 3}'
    with pytest.raises(TypeError, match="set"):
        to_json({"a": {1}})


@pytest.mark.parametrize("torn", [b'{"step": 3, "lo', b'{"step": 3, "name": "\xc3', b"17", b"\x00\x00"])
def test_a_torn_last_line_is_left_out(tmp_path, torn):
    path = tmp_path / "metrics.jsonl"
    with path.open("ab", buffering=0) as file:
        append_jsonl(file, {"step": 1})
        append_jsonl(file, {"step": 2})
        file.write(torn)
    assert read_jsonl(path) == [{"step": 1}, {"step": 2}]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2"):
        read_jsonl(path)


def test_a_cut_json_file_is_named(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('{"schema": ')
    with pytest.raises(DataError, match=r"result\.json"):
        read_json(path)
