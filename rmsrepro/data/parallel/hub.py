"""Sentence pairs from huggingface.co and from sacrebleu's collection of test sets, written as files."""

from __future__ import annotations

import gzip
import shutil
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rmsrepro.data.fetch import Patience, SourceUnavailable, read_url
from rmsrepro.data.files import not_writable
from rmsrepro.data.progress import say
from rmsrepro.runs.atomic import atomic_writer

HUB = "https://huggingface.co"


def hub_pairs(repository: str, configuration: str | None, split: str, cache: Path) -> Iterator[dict[str, str]]:
    """Yield the pairs of a hub data set, sentence by language.

    `cache` is where the client keeps its files; it goes when all pairs are read, and stays for another attempt if not.

    Raises:
        SourceUnavailable: no answer, or the client failed.
    """
    read_url(f"{HUB}/api/datasets/{repository}")  # the client retries for half a minute without a network
    import datasets

    say(f"fetching {repository} ({split}) from {HUB}")
    try:
        rows: Any = datasets.load_dataset(repository, configuration, split=split, cache_dir=str(cache))
    except Exception as error:  # whatever the client raises, it is a reason
        raise SourceUnavailable(f"{type(error).__name__}: {error}".splitlines()[0]) from error
    for row in rows:
        yield row.get("translation", row)
    shutil.rmtree(cache, ignore_errors=True)


def sacrebleu_pairs(test_set: str, languages: tuple[str, str]) -> Iterator[dict[str, str]]:
    """Yield the segments of one of sacrebleu's test sets, sentence by language.

    Raises:
        SourceUnavailable: no answer, a wrong checksum, or no folder to keep it (SACREBLEU names one).
    """
    from sacrebleu.dataset import DATASETS

    known = DATASETS[test_set]
    source, target = languages
    say(f"fetching {test_set} {source}-{target} with sacrebleu")
    try:
        if not Path(known._rawdir).is_dir():
            for url in known.data or ():
                _must_answer(url)
        files = known.get_files(f"{source}-{target}")[:2]
        texts = [Path(file).read_bytes().decode().removesuffix("\n").split("\n") for file in files]
    except SourceUnavailable:
        raise
    except (Exception, SystemExit) as error:  # sacrebleu exits where a checksum is wrong
        raise SourceUnavailable(f"sacrebleu {test_set}: {type(error).__name__}: {error}".splitlines()[0]) from error
    for pair in zip(*texts, strict=True):
        yield dict(zip(languages, pair, strict=True))


def write_pairs(pairs: Iterable[dict[str, str]], stem: str, languages: tuple[str, str], folder: Path) -> None:
    """Write `<stem>.<language>.gz` of both languages, one pair a line, both files whole or none.

    Raises:
        SourceUnavailable: the pairs are of other languages.
        DataError: the folder cannot be written or is full.
    """
    target = folder / f"{stem}.{languages[0]}.gz"
    try:
        with ExitStack() as stack:
            files = []
            for language in languages:
                whole = stack.enter_context(atomic_writer(folder / f"{stem}.{language}.gz"))
                files.append(stack.enter_context(gzip.GzipFile(fileobj=whole, mode="wb", compresslevel=3, mtime=0)))
            for pair in pairs:
                for file, language in zip(files, languages, strict=True):
                    if language not in pair:
                        raise SourceUnavailable(f"it has {', '.join(sorted(pair))} and no {language}")
                    file.write(pair[language].replace("\n", " ").encode() + b"\n")
    except OSError as error:
        raise not_writable(target, error) from error


def _must_answer(url: str) -> None:
    try:
        request = urllib.request.Request(url, method="HEAD")
        urllib.request.urlopen(request, timeout=Patience().open_s).close()
    except OSError as error:
        raise SourceUnavailable(f"{url}: {getattr(error, 'reason', error)}") from error
