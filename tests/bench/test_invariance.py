"""Table 1, measured and recorded."""

import pytest

from rmsrepro.bench import invariance
from rmsrepro.report.claims import load_table
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan


def test_the_measurements_fill_table_1_and_agree_with_the_paper(tmp_path, capsys):
    assert invariance.main(["--publish", "--published", str(tmp_path)]) == 0
    assert "| layernorm | yes" in capsys.readouterr().out
    (table,) = build_tables(load_plan("table1"), build_index(tmp_path, None))
    assert len(table.cells) == len(load_table("table1").claims) == 30
    assert {cell.state for cell in table.cells} == {"measured"}
    assert {cell.verdict.outcome for cell in table.cells if cell.verdict} == {"reproduced"}


def test_without_a_norm_every_change_is_noticed():
    assert not any(map(invariance.holds, invariance.measure("none").values()))


def test_a_difference_that_is_neither_rounding_nor_a_change_is_no_answer():
    with pytest.raises(ValueError, match="neither"):
        invariance.holds(1e-4)
