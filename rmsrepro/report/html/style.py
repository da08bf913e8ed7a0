"""The page's style sheet: the colours of both themes, and the rules in page.css."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rmsrepro.report.charts.palette import STANDINGS, norm_class, standing_class, variables

_HERE = Path(__file__).parent


def style_sheet(norms: Iterable[str]) -> str:
    """Return the rules for a page that shows these norms."""
    known = dict.fromkeys(norms)
    light, dark = (variables(theme, known) + f"color-scheme:{name}" for theme, name in ((0, "light"), (1, "dark")))
    rules = [
        f":root{{{light}}}",
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}",
        f":root[data-theme=dark]{{{dark}}}",
        f"@media print{{:root,:root:not([data-theme=light]),:root[data-theme=dark]{{{light}}}}}",
    ]
    for norm in known:
        name = norm_class(norm)
        rules.append(f".{name}{{stroke:var(--{name})}}.{name}.b,.{name}.s{{fill:var(--{name});stroke:none}}")
    for standing in STANDINGS:
        name = standing_class(standing)
        rules.append(f".{name}{{--v:var(--{name})}}")
        rules.append(
            f"body:has(#only-{name}:checked) .claims tbody tr:not(.{name}){{display:none}}"
            f"body:has(#only-{name}:checked) .claims tbody tr.none.{name}{{display:revert}}"
        )
    return "\n".join(rules) + "\n" + (_HERE / "page.css").read_text()


def script() -> str:
    """Return what the page can do beyond being read."""
    return (_HERE / "page.js").read_text()
