"""Tables as LaTeX for the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rmsrepro.errors import single_line
from rmsrepro.report.tables import Table
from rmsrepro.report.text import Block, Text, blocks, commands

_SPECIALS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "µ": r"$\mu$",
    "–": "--",
    "−": "$-$",
}
_PATTERN = re.compile("|".join(map(re.escape, _SPECIALS)) + r"|(?<![\w.\-])-(?=\d)")


def escape(text: str) -> str:
    """Escape every character that LaTeX reads as something else; the sign of a number becomes a minus."""
    return _PATTERN.sub(lambda match: _SPECIALS.get(match.group(), "$-$"), single_line(text))


def render(tables: Sequence[Table]) -> str:
    """Render one plan's tables, to be read by \\input; wants \\usepackage{booktabs} and utf8 input."""
    lines = []
    for table in tables:
        layout = table.layout
        for block in blocks(table):
            lines += _table(f"{layout.title}, size {table.size}: {block.title}", block)
        # A comment ends at the line's end, so nothing in it can be read as LaTeX.
        lines += [f"% {single_line(command)}" for command in commands(table)]
    return "\n".join(lines) + "\n"


def _table(caption: str, block: Block) -> list[str]:
    return [
        r"\begin{table}",
        r"\footnotesize",
        rf"\caption{{{escape(caption)}}}",
        rf"\begin{{tabular}}{{{'l' * len(block.headings)}}}",
        r"\toprule",
        _row([Text(heading) for heading in block.headings]),
        r"\midrule",
        *(_row(row) for row in block.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _row(fields: Sequence[Text]) -> str:
    cells = [rf"\textbf{{{escape(field.text)}}}" if field.bold else escape(field.text) for field in fields]
    # After the \\ of the row before, a bracket would be taken for a length.
    if cells and cells[0].startswith(("[", "*")):
        cells[0] = "{" + cells[0][0] + "}" + cells[0][1:]
    return " & ".join(cells) + r" \\"
