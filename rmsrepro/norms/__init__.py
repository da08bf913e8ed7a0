"""Normalisers: formulas, modules, and the factory that models ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmsrepro.norms.factory import NormFactory, build_norm, find_family, norm_config, norm_names

__all__ = ["NormFactory", "build_norm", "find_family", "norm_config", "norm_names"]


def __getattr__(name: str) -> Any:
    """Import torch only when a norm is built, so that the configuration can be read without it."""
    if name in __all__:
        from rmsrepro.norms import factory

        return getattr(factory, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
