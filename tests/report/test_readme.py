"""The overview in README.md and the rendered tables beside it are those of the committed records."""

from __future__ import annotations

import re

import pytest
from made_up import run_line, timing_line

from rmsrepro.errors import ConfigError
from rmsrepro.report.cli import main
from rmsrepro.report.places import published_dir
from rmsrepro.report.readme import BEGIN, END, summary, write_overview
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan, plan_names
from tests.conftest import REPOSITORY


def committed_tables():
    index = build_index(published_dir(), None)
    return [table for name in plan_names() for table in build_tables(load_plan(name), index)]


def test_readme_shows_what_the_committed_records_say():
    block = (REPOSITORY / "README.md").read_text().partition(BEGIN)[2].partition(END)[0]
    assert block.strip() == summary(committed_tables()), "`make readme` brings it up to date"


def test_the_committed_tables_and_figures_show_what_the_committed_records_say(tmp_path):
    where = [f"runs.root={tmp_path / 'none'}"]
    assert main(["--out", str(tmp_path / "tables"), *where]) == 0
    assert main(["figures", "--out", str(tmp_path / "figures"), *where]) == 0
    for folder in ("tables", "figures"):
        fresh, kept = tmp_path / folder, REPOSITORY / "results" / "rendered" / folder
        names = sorted(path.name for path in fresh.iterdir())
        assert names == sorted(path.name for path in kept.iterdir())
        changed = [name for name in names if (fresh / name).read_bytes() != (kept / name).read_bytes()]
        assert not changed, "`make readme` brings them up to date"


def overview_of(folder, plan):
    return summary(build_tables(load_plan(plan), build_index(folder, None)))


def test_failed_runs_at_a_smaller_size_are_not_hidden_by_the_cost_of_the_papers(published):
    content = {"task": "transformer", "data": "multi30k", "size": "small"}
    failed = [run_line("pytorch_rmsnorm", plan="table3", seed=seed, state="failed", **content) for seed in (1, 2, 3)]
    text = overview_of(published(*failed), "table3")
    assert re.search(r"small: .*\d failed", text), text


def test_the_times_of_one_impl_on_several_machines_are_counted_apart(published):
    lines = [
        timing_line(arm, [ms, ms + 0.01, ms - 0.01], hardware=hardware, session=hardware)
        for hardware in ("TITAN", "H200", "A100")
        for arm, ms in (("layernorm", 2.0), ("rmsnorm", 1.6))
    ]
    text = overview_of(published(*lines), "table10")
    for hardware in ("TITAN", "H200", "A100"):
        found = re.search(rf"paper, composed, {hardware}: ([^;|]*)", text)
        assert found, text
        assert sum(map(int, re.findall(r"\d+", found[1]))) == 2


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    tables = build_tables(load_plan("table1"), build_index(published_dir(), None))
    write_overview(path, tables)
    assert path.read_text() == f"before\n{BEGIN}\n\n{summary(tables)}\n\n{END}\nafter\n"


def test_a_file_without_marks_is_refused(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("no marks")
    with pytest.raises(ConfigError, match="between which the overview goes"):
        write_overview(path, [])


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        write_overview(path, [])
