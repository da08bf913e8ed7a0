from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from rmsrepro.kernels.cpu import library


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def kernels() -> None:
    """Skip where the compiled kernels are not built: only the generic loops run there."""
    if library.library is None:
        pytest.skip(library.missing)


@pytest.fixture(params=["kernel", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with the compiled kernels, and with torch's operations as where they are not built."""
    if request.param == "torch":
        monkeypatch.setattr(library, "library", None)
    elif library.library is None:
        pytest.skip(library.missing)
    return request.param


@pytest.fixture(params=["avx512", "avx2", "portable"])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run with the CPU kernels of each instruction set that this processor has."""
    if not library.use_instruction_set(request.param):
        pytest.skip(f"this processor lacks {request.param}")
    yield request.param
    library.use_instruction_set(None)
