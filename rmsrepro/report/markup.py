"""HTML and SVG elements as text that is escaped unless it is markup already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_VOID = {"meta", "link", "input", "br", "hr"}


class Markup(str):
    """Text that is markup; any other string is escaped where it becomes a child of an element."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one element; `class_` gives class, `aria_label` aria-label; None and False leave an attribute out."""
    opened = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        opened.append(key if value is True else f'{key}="{escape(_plain(value))}"')
    start = f"<{' '.join(opened)}>"
    return Markup(start) if name in _VOID else Markup(f"{start}{join(children)}</{name}>")


def join(children: Child) -> Markup:
    """Return children one after another, escaping what is not markup."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(children, quote=False))
    return Markup("".join(map(join, children)))


def _plain(value: object) -> str:
    """Write numbers of coordinates without a tail of zeros, to a tenth of a unit."""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
