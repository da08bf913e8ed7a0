from __future__ import annotations

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
