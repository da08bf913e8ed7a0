"""`python -m rmsrepro.data.cloze STORIES ARCHIVE [--urls FOLDER]`: make a cloze archive from `.story` files."""

from __future__ import annotations

import gzip
import lzma
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rmsrepro.arguments import Parser
from rmsrepro.data.cloze.archive import SUFFIXES
from rmsrepro.data.cloze.making import MadeQuestion, write_archive
from rmsrepro.data.cloze.stories import story_questions
from rmsrepro.data.files import not_writable
from rmsrepro.errors import DataError, UserError, fail


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line on stderr that says what is wrong."""
    parser = Parser(
        prog="python -m rmsrepro.data.cloze", description="Make cloze questions from CNN/DailyMail stories."
    )
    parser.add_argument("stories", type=Path, help="the folder of .story files, such as cnn/stories")
    parser.add_argument("archive", type=Path, help=f"what to write: a name that ends in {', '.join(SUFFIXES)}")
    parser.add_argument("--urls", type=Path, help="the folder of the lists wayback_{training,validation,test}_urls.txt")
    try:
        options = parser.parse_args(arguments)
        counts = build(options.stories, options.archive, options.urls)
    except UserError as error:
        return fail(error)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    print(f"{options.archive}  {', '.join(f'{count} {split}' for split, count in sorted(counts.items()))} questions")
    return 0


def build(stories: Path, archive: Path, urls: Path | None) -> Counter[str]:
    """Write the questions of a folder of stories to `archive`, whole or not at all; return their number by split."""
    suffix = next((suffix for suffix in SUFFIXES if archive.name.endswith(suffix)), None)
    if suffix is None:
        raise DataError(f"{archive}: an archive's name ends in {', '.join(SUFFIXES)}")
    counts: Counter[str] = Counter()
    temporary = archive.with_name(f".{archive.name}.tmp")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            file: Any = files.enter_context(temporary.open("wb"))
            if suffix == ".tar.xz":
                file = files.enter_context(lzma.LZMAFile(file, "wb"))
            elif suffix != ".tar":
                file = files.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
            write_archive(file, archive.name.removesuffix(suffix), _counted(story_questions(stories, urls), counts))
        if not counts:
            raise DataError(f"{stories}: no highlight mentions a name that its story has, so there is nothing to ask")
        temporary.replace(archive)
    except OSError as error:
        raise not_writable(archive, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    return counts


def _counted(questions: Iterable[MadeQuestion], counts: Counter[str]) -> Iterator[MadeQuestion]:
    for made in questions:
        counts[made.split] += 1
        yield made


if __name__ == "__main__":
    sys.exit(main())
