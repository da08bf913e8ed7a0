import base64
import hashlib
import json
import shutil
from dataclasses import replace

import pytest

from rmsrepro.data.fetch import SourceUnavailable
from rmsrepro.data.npm import NpmPackage, npm_tarball, read_members

MEMBERS = {
    "package/package.json": b'{"name": "tiny-data", "version": "1.2.3"}',
    "package/data/a": b"alpha" * 999,
}


@pytest.fixture
def package(server, monkeypatch, tar_gz) -> NpmPackage:
    """A package in a registry of its own, which the environment says is the one to use."""
    tarball = tar_gz(MEMBERS)
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"
    version = {"name": "tiny-data", "version": "1.2.3"}
    version["dist"] = {"tarball": f"{server.url}tiny-data/-/tiny-data-1.2.3.tgz", "integrity": integrity}
    about = {"name": "tiny-data", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}
    server.files["tiny-data"] = json.dumps(about).encode()
    server.files["tiny-data/-/tiny-data-1.2.3.tgz"] = tarball
    monkeypatch.setenv("npm_config_registry", server.url)
    return NpmPackage("tiny-data", "1.2.3", len(tarball), f"sha512:{hashlib.sha512(tarball).hexdigest()}")


@pytest.fixture(params=["with npm", "without npm"])
def maybe_npm(request, monkeypatch, tmp_path):
    if request.param == "without npm":
        monkeypatch.setenv("PATH", str(tmp_path))
    elif shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    return request.param


@pytest.mark.usefixtures("maybe_npm")
def test_the_tarball_comes_from_the_configured_registry_once(server, package, tmp_path, quick):
    folder = tmp_path / "Ordner mit Größe"
    for _ in range(2):
        tarball = npm_tarball(package, folder, quick)
        assert read_members(tarball, ["package/data/a"]) == {"package/data/a": MEMBERS["package/data/a"]}
    assert list(folder.iterdir()) == [tarball]
    assert server.paths.count("tiny-data/-/tiny-data-1.2.3.tgz") == 1


@pytest.mark.usefixtures("maybe_npm")
def test_an_unwritable_home_does_not_matter(package, tmp_path, quick, monkeypatch):
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert npm_tarball(package, tmp_path / "downloads", quick).is_file()


@pytest.mark.usefixtures("maybe_npm")
def test_another_tarball_than_the_pinned_one_is_refused(package, tmp_path, quick):
    with pytest.raises(SourceUnavailable, match=r"got md5 \w+ where 0 was expected"):
        npm_tarball(replace(package, checksum="md5:0"), tmp_path / "downloads", quick)
    assert not list((tmp_path / "downloads").glob("*.tgz*"))


def test_an_npm_that_fails_gives_way_to_a_plain_download(package, tmp_path, quick, monkeypatch):
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\necho 'npm error code EBROKEN' >&2\necho 'npm error it is broken' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    assert npm_tarball(package, tmp_path / "downloads", quick).is_file()


def test_both_ways_failing_names_both_reasons(server, package, tmp_path, quick, monkeypatch):
    test_an_npm_that_fails_gives_way_to_a_plain_download(package, tmp_path, quick, monkeypatch)
    server.files.clear()
    with pytest.raises(SourceUnavailable, match=r"npm pack: it is broken; 127\.0\.0\.1: HTTP 404"):
        npm_tarball(package, tmp_path / "other", quick)


def test_a_member_that_is_missing_is_named(tmp_path, tar_gz):
    (tmp_path / "x.tgz").write_bytes(tar_gz(MEMBERS))
    with pytest.raises(SourceUnavailable, match=r"x\.tgz lacks package/data/b"):
        read_members(tmp_path / "x.tgz", ["package/data/a", "package/data/b"])


def test_a_member_with_a_path_that_climbs_writes_nothing(tmp_path, tar_gz):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "x.tgz").write_bytes(tar_gz({"../climbed": b"x", **MEMBERS}))
    read_members(folder / "x.tgz", ["package/data/a"])
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("damage", [lambda _: b"<!DOCTYPE html>", lambda whole: whole[:60]])
def test_a_damaged_tarball_is_told(tmp_path, tar_gz, damage):
    (tmp_path / "x.tgz").write_bytes(damage(tar_gz(MEMBERS)))
    with pytest.raises(SourceUnavailable, match=r"x\.tgz"):
        read_members(tmp_path / "x.tgz", ["package/data/a"])
