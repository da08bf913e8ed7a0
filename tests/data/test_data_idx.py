import gzip

import numpy as np
import pytest

from rmsrepro.data.idx import read_idx
from rmsrepro.errors import DataError


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (50, 28, 28), np.uint8)


def test_images_are_read_plain_and_compressed(tmp_path, images, idx_bytes):
    plain, packed = tmp_path / "plain", tmp_path / "packed.gz"
    plain.write_bytes(idx_bytes(images))
    packed.write_bytes(gzip.compress(idx_bytes(images)))
    for path in (plain, packed):
        idx = read_idx(path, ndim=3)
        np.testing.assert_array_equal(idx.array, images)
        assert idx.size == 16 + images.size
    assert read_idx(plain, 3).sha256 == read_idx(packed, 3).sha256


def test_big_endian_integers_come_out_native(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(b"\0\0\x0c\x01\0\0\0\x02\0\0\0\x07\xff\xff\xff\xff")
    np.testing.assert_array_equal(read_idx(path, ndim=1).array, [7, -1])


def test_an_image_too_few_is_told_with_both_counts(tmp_path, images, idx_bytes):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(idx_bytes(images[:-1], count=50))
    with pytest.raises(DataError, match=r"train-images.* is cut short: .* says 50 images of 28 x 28.*49 images"):
        read_idx(path, ndim=3)


def test_trailing_bytes_are_refused(tmp_path, images, idx_bytes):
    path = tmp_path / "images"
    path.write_bytes(idx_bytes(images) + b"\0")
    with pytest.raises(DataError, match="followed by other bytes"):
        read_idx(path, ndim=3)


@pytest.mark.parametrize(("written", "belongs"), [(1, 3), (3, 1)])
def test_swapped_files_are_told_apart(tmp_path, idx_bytes, written, belongs):
    path = tmp_path / "file"
    path.write_bytes(idx_bytes(np.zeros((4,) + (28,) * (written - 1), np.uint8)))
    content = {1: "labels", 3: "images"}
    with pytest.raises(DataError, match=f"file holds {content[written]} .* where {content[belongs]} "):
        read_idx(path, ndim=belongs)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x08", b"<!DOCTYPE html><html>", b"\0\0\x07\x03" + bytes(12), b"\x01\0\x08\x03" + bytes(12)],
    ids=["empty", "three bytes", "error page", "unknown type", "no magic"],
)
def test_what_is_not_idx_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"file is not an IDX file: expected .* found "):
        read_idx(path, ndim=3)


def test_a_header_cut_short_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\0\0\x08\x03\0\0\0\x01")
    with pytest.raises(DataError, match="cut short inside its header"):
        read_idx(path, ndim=3)


def test_an_absurd_count_in_the_header_costs_no_memory(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\0\0\x08\x03" + b"\xff" * 12)
    with pytest.raises(DataError, match="cut short"):
        read_idx(path, ndim=3)
