import errno
import gzip
import lzma
from pathlib import Path

import pytest

from rmsrepro.data.files import (
    find_split_file,
    open_maybe_compressed,
    read_maybe_compressed,
    write_atomically,
)
from rmsrepro.errors import DataError

TEXT = b"ein Satz\nnoch einer\n" * 5000


@pytest.mark.parametrize("name", ["plain", "text.gz", "text.xz", "a gz file without its suffix"])
def test_the_content_tells_the_compression(tmp_path, name):
    path = tmp_path / "Ordner mit Größe" / name
    path.parent.mkdir()
    packed = {"plain": TEXT, "text.xz": lzma.compress(TEXT)}
    path.write_bytes(packed.get(name, gzip.compress(TEXT)))
    assert read_maybe_compressed(path) == TEXT
    with open_maybe_compressed(path) as file:
        assert sum(1 for _ in file) == 10000


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_all_members_of_concatenated_files_are_read(tmp_path, compress):
    path = tmp_path / "text.gz"
    path.write_bytes(compress(TEXT) + compress(b"last line\n"))
    assert read_maybe_compressed(path) == TEXT + b"last line\n"


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_truncated_file_is_an_error_with_its_path(tmp_path, compress, keep):
    path = tmp_path / "text.gz"
    packed = compress(TEXT)
    path.write_bytes(packed[: int(len(packed) * keep)])
    with pytest.raises(DataError, match=r"text\.gz is damaged or cut short"):
        read_maybe_compressed(path)
    with (
        pytest.raises(DataError, match=r"text\.gz is damaged or cut short"),
        open_maybe_compressed(path) as file,
    ):
        list(file)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("behind", [b"<html>error</html>", lzma.compress(b"a")[:5], gzip.compress(b"a", mtime=0)[:5]])
def test_what_follows_the_first_member_and_is_none_is_an_error(tmp_path, compress, behind):
    path = tmp_path / "text"
    path.write_bytes(compress(TEXT) + behind)
    with pytest.raises(DataError, match="damaged"):
        read_maybe_compressed(path)
    path.write_bytes(compress(TEXT) + bytes(8) + compress(b"last line\n") + bytes(4))
    assert read_maybe_compressed(path) == TEXT + b"last line\n"


def test_a_flipped_byte_is_an_error(tmp_path):
    path = tmp_path / "text.gz"
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 1  # in the checksum at the end
    path.write_bytes(packed)
    with pytest.raises(DataError, match="damaged"):
        read_maybe_compressed(path)


@pytest.mark.parametrize("content", [b"<!DOCTYPE html>", b"plain text\n", b""])
def test_what_is_named_gz_and_is_not_is_refused(tmp_path, content):
    path = tmp_path / "train.en.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.en\.gz is named \.gz but is not"):
        open_maybe_compressed(path)


def test_a_missing_file_is_an_error_with_its_path(tmp_path):
    with pytest.raises(DataError, match=r"absent.* cannot be read: No such file"):
        open_maybe_compressed(tmp_path / "absent")


def test_a_split_is_found_plain_first(tmp_path):
    assert find_split_file(tmp_path, "train.en") is None
    for suffix in (".xz", ".gz", ""):
        (tmp_path / f"train.en{suffix}").touch()
        assert find_split_file(tmp_path, "train.en") == tmp_path / f"train.en{suffix}"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "data"
    write_atomically(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(DataError, match=r"data cannot be written: No space left on device; set data\.root"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_who_reads_the_old_file_goes_on_reading_it(tmp_path):
    path = tmp_path / "data"
    write_atomically(path, b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_folder_that_cannot_be_written_names_the_setting():
    with pytest.raises(DataError, match=r"/proc/nowhere.* cannot be written: .*data.root or RMSREPRO_DATA"):
        write_atomically(Path("/proc/nowhere/data"), b"x")
