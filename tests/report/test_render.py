import csv
import io
import re

import pytest
from made_up import run_line, table10

from rmsrepro.report import csv_table, latex, markdown
from rmsrepro.report.claims import Column
from rmsrepro.report.layout import Layout, LayoutRow
from rmsrepro.report.statistics import estimate
from rmsrepro.report.tables import Table, mark_best
from rmsrepro.sweep.plan import Plan

NASTY = ["rms_norm", "p=6.25%", "A&B", "x^2", "~", "{", "\\", "#", "$5", "a|b", "[1]", "<b>", "*bold*"]


@pytest.fixture
def table():
    """A table whose every label is trouble, with one missing and one negative-zero cell."""
    rows = [LayoutRow(f"arm{number}", label, None, None, True) for number, label in enumerate(NASTY)]
    column = Column(heading="Err_or % & more", metric="m", unit="1", direction="min")
    layout = Layout(Plan(title="p", name="p_1", arms={}), "Ti_tle | 100 %", rows, {"e": column})
    cells = [layout.cell(row, "e", "small") for row in rows]
    for number, cell in enumerate(cells[1:]):
        cell.state, cell.ours = "measured", estimate([-0.001 + number, 0.0005 + number, 0.0 + number])
        cell.command = "python -m rmsrepro 'tag=\"a|b\"' norm=rms_norm"
    mark_best(cells)
    return Table(layout, "small", cells)


def body(text):
    return [line for line in text.splitlines() if not line.startswith("%")]


def test_latex_has_no_bare_special_and_every_row_as_many_cells_as_columns(table):
    for line in body(latex.render([table])):
        bare = re.sub(r"\\(?:[&%$#_{}]|\\|[a-zA-Z]+)", "", line)  # what remains after every escape and command
        bare = re.sub(r"\$(?:-|)\$", "", bare)
        assert not re.search(r"[%#_~^\\]", bare), line
        assert bare.count("{") == bare.count("}"), line
        if line.endswith(r" \\"):
            assert bare.count("&") == 11, line
            assert not line.startswith(("[", "*"))


def test_latex_uses_booktabs_rules_in_order(table):
    rules = [line for line in body(latex.render([table])) if line.startswith("\\") and line.endswith("rule")]
    assert rules == [r"\toprule", r"\midrule", r"\bottomrule"]


def test_markdown_rows_have_as_many_cells_as_headings_and_pipes_are_escaped(table):
    text = markdown.render([table])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(NASTY) + 2
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {13}
    assert "a\\|b" in text
    assert "rms_norm |" in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("[95 %]", "[95 %]"),
        ("[a](b)", r"[a\](b)"),
        ("A&B", "A&B"),
        ("A&lt;B", r"A\&lt;B"),
        ("$a$", r"\$a\$"),
        ("_a_b_", r"\_a_b\_"),
        ("a\nb", "a b"),
    ],
)
def test_markdown_changes_no_letters_and_makes_no_links(text, escaped):
    assert markdown.escape(text) == escaped


def test_a_command_stays_one_line_of_code_whatever_it_holds():
    assert markdown.code("run a\nb") == "`run a b`"
    assert markdown.code("run ``a`` `b`") == "``` run ``a`` `b` ```"


def test_csv_reads_back_as_it_was(table):
    rows = list(csv.DictReader(io.StringIO(csv_table.render([table]))))
    assert [row["label"] for row in rows] == NASTY
    assert rows[0]["ours"] == ""
    assert rows[0]["state"] == "not measured"
    assert float(rows[2]["ours"]) == pytest.approx(1 - 0.0005 / 3)


def test_a_verdict_is_shown_with_rule_n_and_the_interval_it_rests_on(published):
    errors = {"layernorm": (0.4000, 0.4100, 0.4050), "rmsnorm": (0.4001, 0.4104, 0.4052)}
    lines = [
        run_line(arm, seed=seed, error=error, size="small")
        for arm, found in errors.items()
        for seed, error in enumerate(found, start=1)
    ]
    (built,) = table10(published(*lines))
    (row,) = [row for row in csv.DictReader(io.StringIO(csv_table.render([built]))) if row["claim"] == CLAIM]
    assert (row["verdict"], row["verdict_n"], row["verdict_level"]) == ("not reproduced", "3", "0.9")
    assert float(row["relative_low"]) < float(row["verdict_low"]) < float(row["verdict_high"])
    assert row["commits"] == "c0ffee"
    text = markdown.render([built])
    assert re.search(r"n=3, 90% interval \[-0\.002, 0\.049\]: comparable to LayerNorm", text)
    assert "| 0.02 [-0.01, 0.06] |" in text  # the 95 % interval


CLAIM = "table10/rmsnorm/test_error"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_csv_has_one_row_a_cell_whatever_line_ends_a_text_holds(table, end):
    table.cells[0].detail = f"it{end}failed"
    text = csv_table.render([table])
    assert len(text.splitlines()) == len(NASTY) + 1
    assert "it failed" in text


@pytest.mark.parametrize("module", [markdown, latex, csv_table])
def test_no_format_prints_a_negative_zero_or_nan(table, module):
    text = module.render([table])
    assert not re.search(r"(-|\$-\$)0\.0+(?!\d)", text)
    assert "nan" not in text.lower()


def test_a_missing_cell_is_a_dash_with_a_note(table):
    text = markdown.render([table])
    row = next(line for line in text.splitlines() if line.startswith("| rms_norm"))
    assert row.split(" | ")[2] == "–"
    assert "not measured" in row
    assert "–: no number; the column State says why" in text
    assert "rms\\_norm & -- & -- &" in latex.render([table])


def test_the_best_is_bold_in_both_text_formats(table):
    best = [cell.label for cell in table.cells if cell.best_ours]
    assert best == ["p=6.25%"]
    assert "**0.00 ± 0.001 [0.00, 0.00]**" in markdown.render([table])
    assert r"\textbf{0.00 $\pm$ 0.001 [0.00, 0.00]}" in latex.render([table])
