import re
import subprocess
import sys
import time
from collections import Counter
from html.parser import HTMLParser

import pytest
from made_up import run_line
from made_up_campaign import write_campaign

from rmsrepro.report.claims import Column
from rmsrepro.report.elsewhere import load_published, load_unsourced
from rmsrepro.report.html.page import render_page
from rmsrepro.report.layout import Layout, LayoutRow
from rmsrepro.report.overview import tally
from rmsrepro.report.runs_index import Index, build_index
from rmsrepro.report.statistics import estimate
from rmsrepro.report.tables import Table, build_tables
from rmsrepro.sweep.plan import Plan, load_plan, plan_names

VOID = {"meta", "link", "input", "br", "hr"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and keeps ids, texts and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        if name not in VOID:
            self.open.append(name)
        self.attributes += [(name, key, value) for key, value in attributes]
        self.ids += [value for key, value in attributes if key == "id"]

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.texts.append(text)


def page_of(published, tmp_path):
    index = build_index(published, None)
    tables = {name: build_tables(load_plan(name), index) for name in plan_names()}
    return render_page(tables, index, [load_published(), load_unsourced()], tmp_path / "report.html"), tables


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    write_campaign(folder / "published", seeds=3)
    return page_of(folder / "published", folder)


def test_with_nothing_measured_the_page_shows_the_papers_numbers_and_says_so(tmp_path):
    text, _ = page_of(tmp_path, tmp_path)
    outline = Outline(text)
    assert "191" in outline.texts
    assert "22.4" in outline.texts
    assert any("not measured" in words for words in outline.texts)
    assert not re.search(r"\bnan\b", " ".join(outline.texts), re.IGNORECASE)


def test_the_page_needs_nothing_but_itself(campaign):
    text, _ = campaign
    for name, key, value in Outline(text).attributes:
        if key in ("src", "href", "xlink:href") and (name, value) != ("link", "data:,"):
            assert value.startswith("#"), (name, value)
    assert "@import" not in text
    assert "url(http" not in text


def test_every_id_is_unique_and_every_link_within_the_page_arrives(campaign):
    outline = Outline(campaign[0])
    assert [name for name, count in Counter(outline.ids).items() if count > 1] == []
    inner = {value[1:] for _, key, value in outline.attributes if key == "href" and value.startswith("#")}
    assert inner <= set(outline.ids)


def test_the_counts_are_those_of_the_overview(campaign):
    text, tables = campaign
    lines = tally(table for sized in tables.values() for table in sized)
    wanted = sum((line.outcomes for line in lines), Counter())
    glance = text[text.index('id="glance"') : text.index('id="claims"')]
    shown = re.findall(r"<li><strong>(\d+)</strong>.*?<span>(.*?)</span>", glance)
    found = {name: int(count) for count, name in shown}
    assert {name: found[name] for name in wanted} == dict(wanted)
    assert found["not measured"] == sum(sum(line.unmeasured.values()) for line in lines if line.claims)
    assert len(re.findall(r'<tr role="row" class="v-', text)) == sum(found.values())


def test_strange_words_stay_words(tmp_path):
    nasty = '<script>alert("1")</script> & \' `'
    rows = [LayoutRow("arm", nasty, nasty, None, True), LayoutRow("arm2", "b", "c", None, True)]
    column = Column(heading=nasty, metric="m", unit="1", direction="min")
    layout = Layout(Plan(title="p", name="p_1", arms={}), nasty, rows, {"e": column}, deviations=[nasty])
    cells = [layout.cell(row, "e", "small") for row in rows]
    cells[0].state, cells[0].ours, cells[0].command = "measured", estimate([1.0, 2.0]), f"run {nasty}"
    index = Index(notes=[f"p_1/{nasty}"])
    text = render_page({"p_1": [Table(layout, "small", cells, [nasty])]}, index, [], tmp_path / "r.html")
    outline = Outline(text)
    assert text.count("<script>") == 1
    assert outline.texts.count(nasty) >= 4
    assert f"run {nasty}" in outline.texts


def test_numbers_without_a_source_stand_in_their_own_section_only(tmp_path):
    text, _ = page_of(tmp_path, tmp_path)
    apart = text.index('id="unsourced"')
    assert "24.37" in text[apart:]
    assert "24.37" not in text[:apart]


def test_a_single_seed_has_no_interval_and_a_failed_one_says_why(published, tmp_path):
    failed = run_line(arm="layernorm", state="diverged", seed=1) | {"message": "loss is nan at step 7"}
    text, _ = page_of(published(run_line(seed=1, error=0.09), failed), tmp_path)
    words = " ".join(Outline(text).texts)
    assert "9.00 ± n/a [n/a]" in words
    assert "1 of at least 3 seeds" in words
    assert "failed: 1 failed: loss is nan at step 7" in words


def test_a_fact_is_a_word_without_a_spread(published, tmp_path):
    fact = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "command": "pytest"}
    text, _ = page_of(published(fact | {"column": "dataset_rescale", "value": 1.0}), tmp_path)
    assert '<span class="ours">yes</span>' in text
    assert "1 ± n/a" not in text


def test_runs_at_hand_are_links_from_where_the_page_lies(published, tmp_path):
    index = build_index(published(run_line(seed=1), run_line(seed=2)), None)
    runs = tmp_path / "my runs #1, 50 %" / "cifar10" / "rmsnorm" / "abc"
    index.runs[0] = type(index.runs[0])(**{**index.runs[0].__dict__, "where": str(runs), "folder": runs})
    tables = {"table10": build_tables(load_plan("table10"), index)}
    text = render_page(tables, index, [], tmp_path / "out" / "report.html")
    (link,) = re.findall(r'href="(\.\./[^"]*)"', text)
    assert link == "../my%20runs%20%231%2C%2050%20%25/cifar10/rmsnorm/abc/"
    assert '<span title="runs.jsonl:2">seed 2</span>' in text


def test_the_same_records_give_the_same_page(published, tmp_path):
    folder = published(*(run_line(seed=seed, error=0.09 + seed / 1000) for seed in (1, 2, 3)))
    assert page_of(folder, tmp_path)[0] == page_of(folder, tmp_path)[0]


@pytest.mark.slow
def test_two_thousand_runs_take_under_ten_seconds_and_five_megabytes(tmp_path):
    assert write_campaign(tmp_path / "published", seeds=17) >= 2000
    started = time.process_time()
    text, _ = page_of(tmp_path / "published", tmp_path)
    assert time.process_time() - started < 10
    assert len(text.encode()) < 5e6


def test_neither_page_nor_figures_need_torch(tmp_path):
    program = (
        "import sys; from rmsrepro.report.cli import main; "
        f"code = main(['--html', {str(tmp_path / 'r.html')!r}, 'plan=table10', 'runs.root={tmp_path}']); "
        f"code += main(['figures', '--out', {str(tmp_path / 'f')!r}, 'plan=figure4', 'runs.root={tmp_path}']); "
        "sys.exit(code or int('torch' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "f" / "figure4.svg").is_file()
