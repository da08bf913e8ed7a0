"""Questions in rc-data's layout, and archives of them in every form."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MODES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz"}


def question_bytes(passage: str, question: str, answer: str, entities: str = "") -> bytes:
    names = entities or "\n".join(f"{mark}:name of {mark}" for mark in dict.fromkeys(passage.split()) if "@" in mark)
    return f"http://example.org/a\n\n{passage}\n\n{question}\n\n{answer}\n\n{names}".encode()


@pytest.fixture
def make_question() -> Callable[..., bytes]:
    """Return a function that writes one question file."""
    return question_bytes


@pytest.fixture
def members() -> dict[str, bytes]:
    """Return 12 training, 4 validation and 4 test questions by the name that they have in an archive."""
    found = {}
    for folder, count in {"training": 12, "validation": 4, "test": 4}.items():
        for i in range(count):
            passage = f"the @entity{i} met @entity{i + 1} . then @entity{i} left in a hurry , they say ."
            text = question_bytes(passage, f"who left ? @placeholder did , @entity{i + 1} did not", f"@entity{i}")
            found[f"small/questions/{folder}/{folder}{i:02}.question"] = text
    return found


@pytest.fixture
def write_archive(tmp_path) -> Callable[..., Path]:
    """Return a function that packs members as `small` in the form a suffix asks for; the suffix "" is a folder."""

    def write(members: Mapping[str, bytes], suffix: str = ".tar.gz") -> Path:
        path = tmp_path / f"small{suffix}"
        if not suffix:
            for name, content in members.items():
                file = tmp_path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return path
        with tarfile.open(path, MODES[suffix]) as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        os.utime(path, ns=(1, 1))
        return path

    return write


@pytest.fixture
def cache(tmp_path) -> Path:
    """Return a folder for parsed archives."""
    return tmp_path / "cache"
