"""Tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rmsrepro.errors import single_line
from rmsrepro.report.tables import Table
from rmsrepro.report.text import LEGEND, Block, Text, blocks, commands, reasons

_SPECIAL = re.compile(r"([\\|*~<`$])|((?<!\w)_|_(?!\w))|(\](?=\()|&(?=#?\w+;))")


def escape(text: str) -> str:
    """Escape what would end a cell, make a link or change the letters; an underscore in a word stays readable."""
    return _SPECIAL.sub(r"\\\g<0>", single_line(text))


def code(text: str) -> str:
    """Return text as code on one line, between more backticks than it holds in a row."""
    line = single_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"


def grid(headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> list[str]:
    """Return the lines of one table."""
    lines = ["| " + " | ".join(map(escape, headings)) + " |", "|" + " --- |" * len(headings)]
    for row in rows:
        fields = [f"**{escape(field.text)}**" if field.bold else escape(field.text) for field in row]
        lines.append("| " + " | ".join(fields) + " |")
    return lines


def render(tables: Sequence[Table]) -> str:
    """Render one plan's tables, one size after another."""
    layout = tables[0].layout
    plan = layout.plan
    lines = [f"# {plan.name}: {escape(layout.title)}", ""]
    if layout.source:
        on = f"; the paper's times are of one {layout.hardware}" if layout.hardware else ""
        lines += [f"The paper's numbers: {escape(layout.source + on)}.", ""]
    else:
        lines += ["The paper has no such table: the numbers are an extension, and no claim is judged by them.", ""]
    for table in tables:
        lines += [f"## Size {table.size}", ""]
        for block in blocks(table):
            lines += _block(block)
        lines += _list("Notes", map(escape, [*reasons(table), *table.notes]))
        made_by = [f"{escape(', '.join(labels))}: {code(command)}" for command, labels in commands(table).items()]
        lines += _list("Commands", made_by)
    lines += _list("What the paper says in words (not judged)", map(escape, layout.statements))
    lines += _list("What differs from the paper", map(escape, layout.deviations))
    lines += _list("How to read this", map(escape, LEGEND))
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> list[str]:
    return [f"### {escape(block.title)}", "", *grid(block.headings, block.rows), ""]


def _list(title: str, items: Iterable[str]) -> list[str]:
    listed = [f"- {item}" for item in items]
    return [f"### {title}", "", *listed, ""] if listed else []
