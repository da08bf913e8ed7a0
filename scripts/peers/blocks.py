"""The line protocol between a comparison and its workers; standard library only, as it runs in every environment.

A worker waits for a line on its standard input, works one block, and answers with one line of JSON:
`{"items": ..., "elapsed": seconds, "processor": seconds, "tokens": ...}`. So arms that live side by side take turns,
and what starting one costs is in no block.
"""

from __future__ import annotations

import json
import os
import sys
import time


class Blocks:
    """The worker's side: `done` ends a block, and returns when the next one may begin.

    The process leaves where the other side has closed the line. What the worker prints goes to standard error.
    """

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._begin()

    def _begin(self) -> None:
        if not sys.stdin.readline():
            os._exit(0)  # whatever the worker's libraries would still do at their end
        self._elapsed, self._processor = time.perf_counter(), time.process_time()

    def done(self, items: int, tokens: int | None = None) -> None:
        """Answer that a block of `items` (target tokens or sentences) is done; `tokens` were put out by a search."""
        elapsed, processor = time.perf_counter() - self._elapsed, time.process_time() - self._processor
        answer = {"items": items, "elapsed": elapsed, "processor": processor, "tokens": tokens}
        print(json.dumps(answer), file=self._answers, flush=True)
        self._begin()
