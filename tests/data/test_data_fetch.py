import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rmsrepro.data.fetch import RemoteFile, SourceUnavailable, download
from rmsrepro.errors import DataError

CONTENT = os.urandom(200_000)


@pytest.fixture
def remote(server):
    server.files["file.bin"] = CONTENT
    return RemoteFile(f"{server.url}file.bin", len(CONTENT), f"md5:{hashlib.md5(CONTENT).hexdigest()}")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "Ordner mit Größe" / "file.bin"


def part_of(target: Path, content: bytes) -> Path:
    target.parent.mkdir(parents=True)
    part = target.with_name(f"{target.name}.part")
    part.write_bytes(content)
    return part


def test_a_file_is_downloaded_once(server, remote, target, quick):
    for _ in range(2):
        assert download(remote, target, quick) == target
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None]
    assert list(target.parent.iterdir()) == [target]


def test_file_urls_are_read(remote, target, tmp_path, quick):
    (tmp_path / "origin").write_bytes(CONTENT)
    local = replace(remote, url=(tmp_path / "origin").as_uri())
    assert download(local, target, quick).read_bytes() == CONTENT


def test_a_part_is_gone_on_with(server, remote, target, quick):
    part_of(target, CONTENT[:120_000])
    assert download(remote, target, quick).read_bytes() == CONTENT
    assert server.ranges == ["bytes=120000-"]


def test_a_broken_connection_is_resumed_where_it_broke(server, remote, target, quick):
    server.faults += ["cut", "cut"]
    assert download(remote, target, quick).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_server_without_ranges_sends_the_file_afresh(server, remote, target, quick):
    part_of(target, CONTENT[:120_000])
    server.faults += ["no-range"]
    assert download(remote, target, quick).read_bytes() == CONTENT


@pytest.mark.parametrize("length", [50_000, len(CONTENT), len(CONTENT) + 5])
def test_a_part_of_other_content_is_fetched_afresh(server, remote, target, quick, length):
    part_of(target, b"x" * length)
    assert download(remote, target, quick).read_bytes() == CONTENT
    assert server.ranges[-1] is None


def test_a_whole_file_under_the_final_name_with_other_content_is_replaced(remote, target, quick):
    target.parent.mkdir()
    target.write_bytes(b"<html>sorry</html>")
    assert download(remote, target, quick).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_a_bounded_number_of_times(server, remote, target, quick, status):
    server.faults += [status]
    assert download(remote, target, quick).read_bytes() == CONTENT
    target.unlink()
    server.faults += [status] * 9
    with pytest.raises(SourceUnavailable, match=f"HTTP {status} .*after {quick.attempts} attempts"):
        download(remote, target, quick)
    assert len(server.faults) == 9 - quick.attempts
    assert not target.exists()


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_asked_again(server, remote, target, quick, status):
    server.faults += [status]
    with pytest.raises(SourceUnavailable, match=f"HTTP {status}"):
        download(remote, target, quick)
    assert len(server.ranges) == 1


def test_an_error_page_is_never_the_file(server, remote, target, quick):
    server.faults += ["html"]
    with pytest.raises(SourceUnavailable, match="HTML page"):
        download(remote, target, quick)
    assert not any(target.parent.iterdir())


def test_a_wrong_length_is_refused_before_it_is_downloaded(server, remote, target, quick):
    server.files["file.bin"] = CONTENT + b"more"
    with pytest.raises(SourceUnavailable, match=f"offers {len(CONTENT) + 4} bytes where {len(CONTENT)}"):
        download(remote, target, quick)


def test_corrupted_content_is_refused_and_not_kept(server, remote, target, quick):
    server.files["file.bin"] = CONTENT[:-1] + bytes((CONTENT[-1] ^ 1,))
    with pytest.raises(SourceUnavailable, match=r"got md5 .* where .* was expected"):
        download(remote, target, quick)
    assert not any(target.parent.iterdir())


def test_a_server_that_never_answers_costs_the_stated_time(server, remote, target, quick):
    server.faults += ["hang"]
    start = time.monotonic()
    with pytest.raises(SourceUnavailable, match=r"no answer within 1 s|timed out"):
        download(remote, target, quick)
    assert time.monotonic() - start < 2.5


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "http://no-such-host.invalid/x"])
def test_a_host_that_is_not_there_is_told_at_once(remote, target, quick, url):
    with pytest.raises(SourceUnavailable):
        download(replace(remote, url=url), target, quick)


def test_a_cache_that_cannot_be_written_is_not_blamed_on_the_source(remote, quick):
    with pytest.raises(DataError, match=r"cannot be written: .*data\.root"):
        download(remote, Path("/proc/nowhere/file.bin"), quick)


def test_progress_goes_to_stderr_in_plain_lines(remote, target, quick, capsys):
    download(remote, target, quick)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "fetching file.bin from 127.0.0.1 (0.2 MB)\n"
