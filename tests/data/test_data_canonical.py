"""Fetching a data set: sources in order, two processes at once, death in the middle."""

import os
import signal
import subprocess
import sys
import time
from hashlib import md5, sha256
from pathlib import Path

import pytest

from rmsrepro.data.canonical import CanonicalFile, Source, fetch_canonical
from rmsrepro.data.fetch import RemoteFile, SourceUnavailable, download
from rmsrepro.errors import DataError

CONTENT = bytes(range(256)) * 400
FILE = CanonicalFile("numbers", len(CONTENT), sha256(CONTENT).hexdigest())

# One process that fetches "numbers" from the URL in argv[1] into the folder in argv[2].
FETCHER = f"""
import sys
from pathlib import Path
from rmsrepro.data.canonical import CanonicalFile, Source, fetch_canonical
from rmsrepro.data.fetch import RemoteFile, download

remote = RemoteFile(sys.argv[1], {len(CONTENT)}, "md5:{md5(CONTENT).hexdigest()}")

def files(wanted, downloads):
    yield "numbers", download(remote, downloads / "numbers").read_bytes()

fetch_canonical("demo", Path(sys.argv[2]), [CanonicalFile("numbers", {FILE.size}, "{FILE.sha256}")],
                [Source("the server", files)])
"""


def giving(content: bytes) -> Source:
    return Source("a mirror", lambda wanted, downloads: iter([("numbers", content)]))


def failing(label: str, reason: str) -> Source:
    def files(wanted, downloads):
        raise SourceUnavailable(reason)
        yield

    return Source(label, files)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "Daten für später" / "demo"


@pytest.fixture
def fetcher(server, folder, tmp_path):
    """Start a fetching process, which writes its stderr to a file of its own."""
    server.files["numbers"] = CONTENT
    script = tmp_path / "fetcher.py"
    script.write_text(FETCHER)
    started = []

    def start(log: str = "log") -> subprocess.Popen:
        command = [sys.executable, str(script), f"{server.url}numbers", str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (tmp_path / log).open("w") as stderr:
            started.append(subprocess.Popen(command, stderr=stderr, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_source_that_has_it_is_used(folder):
    fetch_canonical("demo", folder, [FILE], [failing("a mirror", "HTTP 403"), giving(CONTENT), giving(b"never")])
    assert (folder / "numbers").read_bytes() == CONTENT


def test_other_content_is_never_stored(folder):
    with pytest.raises(DataError, match=f"numbers: expected {FILE.size} bytes with sha256 {FILE.sha256}, found 4"):
        fetch_canonical("demo", folder, [FILE], [giving(b"html")])
    assert not (folder / "numbers").exists()


def test_what_is_right_already_is_not_fetched(folder):
    fetch_canonical("demo", folder, [FILE], [giving(CONTENT)])
    fetch_canonical("demo", folder, [FILE], [failing("a mirror", "must not be asked")])


def test_a_wrong_file_in_its_place_is_replaced(folder):
    folder.mkdir(parents=True)
    (folder / "numbers").write_bytes(CONTENT[:-1] + b"x")
    fetch_canonical("demo", folder, [FILE], [giving(CONTENT)])
    assert (folder / "numbers").read_bytes() == CONTENT


def test_no_source_at_all_is_one_line_with_every_reason_and_the_way_out(folder):
    sources = [failing("mirror.example", "no answer within 6 s"), failing("npm demo@1", "HTTP 404")]
    with pytest.raises(DataError) as error:
        fetch_canonical("demo", folder, [FILE], sources)
    line = str(error.value)
    assert "mirror.example (no answer within 6 s); npm demo@1 (HTTP 404)" in line
    assert f"not complete in {folder}" in line
    assert "Put numbers there, or run `python -m rmsrepro.data fetch demo --root DIR`" in line
    assert "data.root=DIR" in line
    assert "\n" not in line


def test_a_folder_that_cannot_be_written_is_told():
    with pytest.raises(DataError, match=r"/proc/demo cannot be written"):
        fetch_canonical("demo", Path("/proc/demo"), [FILE], [giving(CONTENT)])


def test_two_processes_at_once_fetch_once(server, folder, fetcher, tmp_path):
    server.pause_s = 0.2  # so that the first is not done before the second has begun, however busy the machine is
    first = fetcher()
    wait_for(lambda: server.ranges)
    second = fetcher("second.log")
    wait_for(lambda: "waiting for it" in (tmp_path / "second.log").read_text())
    server.pause_s = 0.0001
    for process in (first, second):
        assert process.wait(timeout=30) == 0
    assert server.ranges == [None]
    assert (folder / "numbers").read_bytes() == CONTENT


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_fetch_leaves_no_half_file_and_is_gone_on_with(server, folder, fetcher, signal_number):
    server.pause_s = 0.01
    process = fetcher()
    part = folder / "downloads" / "numbers.part"
    wait_for(lambda: part.exists() and part.stat().st_size > 5000)
    process.send_signal(signal_number)
    process.wait(timeout=10)
    assert not (folder / "numbers").exists()

    server.pause_s = 0.0
    assert fetcher().wait(timeout=30) == 0
    assert (folder / "numbers").read_bytes() == CONTENT
    assert server.ranges[1].startswith("bytes=")
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "numbers"]


def test_an_error_page_from_one_source_sends_us_to_the_next(server, folder):
    server.files["numbers"] = CONTENT
    server.faults += ["html"]
    remote = RemoteFile(f"{server.url}numbers", len(CONTENT), f"md5:{md5(CONTENT).hexdigest()}")

    def files(wanted, downloads):
        yield "numbers", download(remote, downloads / "numbers").read_bytes()

    fetch_canonical("demo", folder, [FILE], [Source("first", files), Source("second", files)])
    assert len(server.ranges) == 2
