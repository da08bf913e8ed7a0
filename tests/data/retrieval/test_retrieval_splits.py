"""Both layouts are read alike, and what does not go together is refused in one line with both counts."""

import gzip
import os

import numpy as np
import pytest

from rmsrepro.data.retrieval import scan as scan_module
from rmsrepro.data.retrieval.features import FeatureFile, normalise_rows
from rmsrepro.data.retrieval.scan import scan_features
from rmsrepro.data.retrieval.split import Pairs, read_split
from rmsrepro.errors import DataError

ROWS = np.random.default_rng(0).standard_normal((7, 4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_features_of_any_float_type_are_read_as_float32(write_split, dtype):
    read = read_split(write_split(rows=ROWS.astype(dtype)), "train")
    found = read.features.rows(np.array([6, 0, 6]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ROWS.astype(dtype)[[6, 0, 6]].astype(np.float32))
    assert read.images == 7


def test_rows_of_zeros_stay_and_all_others_get_length_one():
    rows = normalise_rows(np.array([[3, 4], [0, 0]], np.float32))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_rows_whose_squares_are_no_float32_get_length_one_too(scale):
    rows = normalise_rows(np.array([[3, 4]], np.float32) * np.float32(scale))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("repeat", [1, 5], ids=["one row each", "five rows each"])
def test_the_layout_of_vsepp_is_read_with_and_without_repeated_rows(tmp_path, captions, repeat):
    (tmp_path / "dev_caps.txt.gz").write_bytes(gzip.compress(captions(7).encode()))
    np.save(tmp_path / "dev_ims.npy", ROWS.repeat(repeat, axis=0))
    read = read_split(tmp_path, "dev")
    assert (read.layout, read.images, read.row_step) == ("vsepp", 7, repeat)
    pairs = Pairs(captions=None, features=read.features, row_step=read.row_step)
    np.testing.assert_array_equal(pairs.image_rows(np.array([0, 6])), ROWS[[0, 6]].astype(np.float32))


@pytest.mark.parametrize(
    ("caption_count", "row_count"), [(34, 7), (35, 6), (7, 7), (35, 35), (36, 7)], ids=lambda count: str(count)
)
def test_counts_that_do_not_go_together_are_both_named(write_split, caption_count, row_count):
    folder = write_split(text="a word\n" * caption_count, rows=np.ones((row_count, 4), np.float32))
    with pytest.raises(
        DataError, match=rf"train\.txt has {caption_count} captions .*has {row_count} rows.* 5 per image"
    ):
        read_split(folder, "train")


def test_as_many_rows_as_captions_are_refused_where_they_are_not_repeated(tmp_path, captions):
    (tmp_path / "dev_caps.txt").write_text(captions(5, each=1))
    np.save(tmp_path / "dev_ims.npy", ROWS[:5])
    with pytest.raises(DataError, match=r"has 5 captions.*as many rows.*expected 5 captions per image"):
        read_split(tmp_path, "dev")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_number_that_is_none_is_refused_with_its_row(write_split, value):
    rows = ROWS.copy()
    rows[5, 2] = value
    with pytest.raises(DataError, match=r"train\.npy: row 5 .*NaN or infinity"):
        read_split(write_split(rows=rows), "train")


def test_a_split_that_is_not_there_is_named_beside_those_that_are(write_split):
    write_split("dev")
    with pytest.raises(DataError, match=r"test\.txt is not there.*splits there: dev, train"):
        read_split(write_split("train"), "test")


def test_missing_features_and_several_networks_are_told_apart(write_split):
    folder = write_split()
    (folder / "images" / "other").mkdir()
    np.save(folder / "images" / "other" / "dev.npy", ROWS)
    with pytest.raises(DataError, match=r"several networks \(cnn, other\): set task\.cnn"):
        read_split(folder, "train")
    with pytest.raises(DataError, match=r"other/train\.npy is not there"):
        read_split(folder, "train", "other")
    with pytest.raises(DataError, match=r"third has no \.npy files; set task\.cnn to one of: cnn, other"):
        read_split(folder, "train", "third")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>404</html>", "cannot be read"),
        (b"", "cannot be read"),
        (np.arange(6), "shape"),
        (np.ones((7, 4), np.int32), "int32"),
        (np.asfortranarray(ROWS), "column by column"),
        (np.ones((0, 4)), "shape"),
    ],
    ids=["a page", "nothing", "one dimension", "integers", "columns", "no rows"],
)
def test_a_file_that_holds_no_rows_of_floats_is_refused(write_split, content, reason):
    path = write_split() / "images" / "cnn" / "train.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(DataError, match=reason) as caught:
        read_split(path.parents[2], "train")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_cut_short_is_refused(write_split):
    path = write_split() / "images" / "cnn" / "train.npy"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train\.npy cannot be read"):
        FeatureFile.open(path)


def test_a_checked_file_is_read_once_and_again_when_it_changes(write_split, monkeypatch):
    path = write_split() / "images" / "cnn" / "train.npy"
    first = scan_features(FeatureFile.open(path))
    monkeypatch.setattr(scan_module, "_BLOCK_BYTES", 1)  # five rows a block: where they are cut does not matter
    scans = []
    whole = scan_module._scan
    monkeypatch.setattr(scan_module, "_scan", lambda file: scans.append(file) or whole(file))
    assert scan_features(FeatureFile.open(path)) == first
    assert not scans
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    np.save(path, ROWS)
    os.utime(path, ns=times)
    assert scan_features(FeatureFile.open(path)).sha256 != first.sha256
    assert len(scans) == 1
