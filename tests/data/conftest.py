"""A loopback file server that can misbehave, and small files in the formats of the real data sets."""

from __future__ import annotations

import http.server
import io
import struct
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from rmsrepro.data.fetch import Patience


@dataclass
class FileServer:
    """Serves `files`. One of `faults` is used up by each request: a status, or a word that `do_GET` knows."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[int | str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)  # of each request
    ranges: list[str | None] = field(default_factory=list)  # the Range header of each request
    pause_s: float = 0.0  # between chunks of 1000 bytes
    url: str = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    state: FileServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        state = self.state
        asked = self.headers.get("Range")
        state.ranges.append(asked)
        state.paths.append(self.path.lstrip("/"))
        fault = state.faults.pop(0) if state.faults else None
        content = state.files.get(self.path.lstrip("/"))
        if fault == "hang":
            time.sleep(3)
        elif isinstance(fault, int) or content is None:
            self.send_error(fault if isinstance(fault, int) else 404)
        elif fault == "html":
            self._send(200, b"<!DOCTYPE html><title>Busy</title>", {"Content-Type": "text/html; charset=utf-8"})
        elif asked and fault != "no-range":
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
            else:
                span = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self._send(206, content[start:], {"Content-Range": span}, cut=fault == "cut")
        else:
            self._send(200, content, {}, cut=fault == "cut")

    def _send(self, status: int, body: bytes, headers: dict[str, str], cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        body = body[: len(body) // 2] if cut else body
        step = 1000 if self.state.pause_s else len(body)
        try:
            for start in range(0, len(body), max(step, 1)):
                self.wfile.write(body[start : start + step])
                time.sleep(self.state.pause_s)
        except ConnectionError:
            pass


@pytest.fixture
def server() -> Iterator[FileServer]:
    state = FileServer()
    handler = type("Handler", (_Handler,), {"state": state})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        state.url = f"http://127.0.0.1:{http_server.server_port}/"
        threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield state
        http_server.shutdown()


@pytest.fixture
def quick() -> Patience:
    return Patience(open_s=1.0, read_s=0.5, attempts=3, backoff_s=0.01)


@pytest.fixture
def idx_bytes():
    """Encode an array as an IDX file, whose header may lie about the number of items."""

    def encode(array: np.ndarray, count: int | None = None) -> bytes:
        shape = (len(array) if count is None else count, *array.shape[1:])
        return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *shape) + array.tobytes()

    return encode


@pytest.fixture
def tar_gz():
    """Pack members, name by content, as a .tar.gz."""

    def pack(members: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return buffer.getvalue()

    return pack


@pytest.fixture
def mnist_like(idx_bytes) -> dict[str, bytes]:
    """The four files of a data set in MNIST's format: 30 + 10 images of 28 x 28."""
    rng = np.random.default_rng(1)
    files = {}
    for stem, count in (("train", 30), ("t10k", 10)):
        files[f"{stem}-images-idx3-ubyte"] = idx_bytes(rng.integers(0, 256, (count, 28, 28), np.uint8))
        files[f"{stem}-labels-idx1-ubyte"] = idx_bytes(np.arange(count, dtype=np.uint8) % 10)
    return files
