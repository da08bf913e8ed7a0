"""Colours: one per norm, the same in every chart, told apart with colour-blind eyes too; and those of verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from rmsrepro.report.verdict import Outcome

#: Norm -> colour on a light and on a dark ground. At least 3:1 against it; labels beside them are in ink.
NORMS: dict[str, tuple[str, str]] = {
    "none": ("#4d4d4d", "#8c8c8c"),
    "layernorm": ("#a5380a", "#f0703c"),
    "rmsnorm": ("#1565d8", "#3d8bff"),
    "prmsnorm": ("#6a1b8a", "#b065d0"),
    "l2norm": ("#e05cae", "#ffb3de"),
    "batchnorm": ("#ab8512", "#f0dc4a"),
    "weightnorm": ("#04a06a", "#2fe0a0"),
}
#: For norms that came later, in the order of their names' bytes; such a colour may be shared.
_OTHERS = (("#0f7f8c", "#4fc8d6"), ("#8a5a44", "#c99a82"), ("#5b7a00", "#a6cc3c"))
#: Outcome, or `not measured` -> colour of its sign and words, at least 4.5:1 against the ground.
STANDINGS: dict[str, tuple[str, str]] = {
    "reproduced": ("#0a6e43", "#4fd195"),
    "direction only": ("#1b5fae", "#7db8ff"),
    "not reproduced": ("#b3261e", "#ff8a80"),
    "not tested": ("#5c5f66", "#a9adb6"),
    "not measured": ("#6b6e75", "#8f939c"),
}
#: The page's own colours: ground, raised ground, ink, quiet ink, hairlines, the one accent.
GROUNDS: dict[str, tuple[str, str]] = {
    "ground": ("#fdfdfb", "#15171b"),
    "raised": ("#f4f4f0", "#1e2127"),
    "ink": ("#1b1d21", "#e6e7ea"),
    "quiet": ("#5a5e66", "#a3a8b2"),
    "line": ("#dcdcd6", "#343841"),
    "accent": ("#0d5bb5", "#7db8ff"),
}
#: Dashes that tell arms of one norm apart.
DASHES = (None, "6 3", "2 3", "8 3 2 3")


def norm_colour(norm: str, theme: int = 0) -> str:
    """Return a norm's colour; theme 0 is light, 1 dark."""
    return NORMS.get(norm, _OTHERS[sum(norm.encode()) % len(_OTHERS)])[theme]


def norm_class(norm: str) -> str:
    """Name the class that gives an element a norm's colour: `n-rmsnorm`."""
    return "n-" + "".join(letter if letter.isalnum() else "-" for letter in norm)


def standing_class(standing: Outcome | str) -> str:
    """Name the class of an outcome: `v-direction-only`."""
    return "v-" + standing.replace(" ", "-")


def variables(theme: int, norms: Mapping[str, object] = NORMS) -> str:
    """Return the colours of one theme as CSS custom properties, those of `norms` among them."""
    pairs = {name: colours[theme] for name, colours in GROUNDS.items()}
    pairs |= {standing_class(name): colours[theme] for name, colours in STANDINGS.items()}
    pairs |= {norm_class(norm): norm_colour(norm, theme) for norm in norms}
    return "".join(f"--{name}:{value};" for name, value in pairs.items())
