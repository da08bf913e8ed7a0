"""Whether what is to be timed fits into memory, asked before it is made: a system that runs out may end the process."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

import torch

from rmsrepro.errors import ConfigError
from rmsrepro.train.ending import first_line, is_out_of_memory


def require_room(what: str, needed_bytes: int, device: str, way_out: str) -> None:
    """Raise ConfigError, which says `way_out`, where `device` has fewer bytes free than `what` needs."""
    free = free_bytes(device)
    if needed_bytes > free:
        raise ConfigError(
            f"{what}: needs about {_gigabytes(needed_bytes)} of memory, and {_gigabytes(free)} are free; {way_out}"
        )


def free_bytes(device: str) -> int:
    """Return the bytes that can still be had in the memory of `device`, a CPU's or a GPU's."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import psutil

    return psutil.virtual_memory().available


@contextmanager
def refusing_what_does_not_fit(what: str, way_out: str) -> Generator[None]:
    """Turn an allocation that failed in the block all the same into a ConfigError about `what`."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        asked = re.search(r"tried to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
        said = first_line(error) if asked is None else f"an allocation of {asked[1]} failed"
        raise ConfigError(f"{what}: does not fit into memory ({said}); {way_out}") from error


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
