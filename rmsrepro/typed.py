"""Turn plain values into typed dataclasses, refusing what does not fit with the field's full name."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rmsrepro.errors import ConfigError

T = TypeVar("T")

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def build(cls: type[T], values: Any, path: str = "") -> T:
    """Build the dataclass `cls` from a mapping; `path` is the field's name so far, for messages."""
    if not isinstance(values, dict):
        raise ConfigError(f"{path or 'config'}={values!r}: expected a group of settings")
    hints = get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls)]  # pyrefly: ignore[bad-argument-type]
    for key in values:
        if key not in known:
            raise ConfigError(
                f"{_join(path, str(key))}: no such setting; {path or 'the config'} has {', '.join(known)}"
            )
    for needed in dataclasses.fields(cls):  # pyrefly: ignore[bad-argument-type]
        optional = needed.default is not dataclasses.MISSING or needed.default_factory is not dataclasses.MISSING
        if not optional and needed.name not in values:
            raise ConfigError(f"{_join(path, needed.name)}: not given")
    return cls(**{key: convert(hints[key], value, _join(path, key)) for key, value in values.items()})


def convert(hint: Any, value: Any, path: str) -> Any:
    """Return `value` as the type `hint` says, or raise ConfigError naming the field and what is allowed."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (inner,) = [arg for arg in args if arg is not type(None)]
        return convert(inner, value, path)
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else build(hint, value, path)  # pyrefly: ignore[bad-argument-type]
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}={_show(value)}: expected a list like [1,2]")
        return origin(convert(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if hint is dict or origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{path}={_show(value)}: expected a mapping like {{a:1}}")
        return value
    if hint is Any:
        return value
    return _scalar(hint, value, path)


def _scalar(hint: type, value: Any, path: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if hint is int and (whole or (isinstance(value, float) and value.is_integer())):
        if abs(value) >= 1 << 63:
            raise ConfigError(f"{path}={_show(value)}: expected a whole number that 64 bits hold")
        return int(value)
    if hint is float and (whole or isinstance(value, float)):
        return float(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    if hint is str and (whole or isinstance(value, float)):
        return str(value)
    raise ConfigError(f"{path}={_show(value)}: expected {_WORDS.get(hint, hint.__name__)}")


def _show(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
