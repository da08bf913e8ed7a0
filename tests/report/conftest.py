"""Places with made-up records, as real files."""

import json

import pytest


@pytest.fixture
def published(tmp_path):
    """Return a function that writes record lines to a folder of committed records and returns the folder."""
    folder = tmp_path / "published"
    folder.mkdir()

    def write(*lines, name="runs.jsonl"):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return write
