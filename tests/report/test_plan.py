import pytest
import yaml

from rmsrepro import conf
from rmsrepro.compose import compose_config
from rmsrepro.conf import option_names
from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError
from rmsrepro.report.layout import layout_of
from rmsrepro.sweep.plan import load_plan, plan_names

PLANS = plan_names()


def arms_of(name, size="small"):
    """Return what each arm's runs override."""
    plan = load_plan(name)
    return {arm: plan.overrides(arm, size) for arm in plan.arms}


def test_every_table_and_figure_and_the_extensions_have_a_plan():
    names = [
        *(f"table{n}" for n in range(1, 11)),
        *(f"figure{n}" for n in range(1, 8)),
        "cloze",
        "cloze_brown",
        "lstm_lm",
        "mnist",
        "mnist_cnn",
    ]
    assert sorted(names) == sorted(PLANS)


def test_an_arm_overrides_its_size_and_no_key_is_given_twice():
    for name in PLANS:
        for size in SIZES:
            for arm, run in arms_of(name, size).items():
                keys = [override.partition("=")[0] for override in run]
                assert len(keys) == len(set(keys)), (name, arm, run)


def test_the_same_runs_shown_twice_are_the_same_overrides():
    assert arms_of("table8") == arms_of("table7")
    figure1 = arms_of("figure1")
    assert figure1 == {arm: run for arm, run in arms_of("table2").items() if arm in figure1}
    assert ["norm=none" in run or "norm=layernorm" in run for run in figure1.values()] == [True, True]


@pytest.mark.parametrize("name", PLANS)
def test_rows_of_the_paper_have_an_arm_or_are_quoted(name):
    layout = layout_of(load_plan(name))
    # Table 1 is measured by tests; figure 3 reports the extremes over its arms.
    if name not in ("table1", "figure3"):
        assert all(row.planned or row.origin for row in layout.rows)
    assert {row.arm for row in layout.rows if row.planned} == set(load_plan(name).arms)


@pytest.mark.parametrize("name", [name for name in PLANS if load_plan(name).task in option_names("task")])
def test_plans_of_the_tasks_that_are_there_compose_to_a_run_an_arm(name):
    plan = load_plan(name)
    if plan.runs_of:
        return
    hashes = [compose_config(run).hash() for run in arms_of(name).values()]
    assert len(set(hashes)) == len(plan.arms)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"task": "mnist"}, "title: not given"),
        ({"title": "t", "arm": {}}, "arm: no such setting"),
        ({"title": "t", "sizes": {"huge": []}}, "size=huge: allowed are tiny, small, paper"),
        ({"title": "t", "untried": {"paper": {"state": "lazy", "why": ""}}}, "allowed are too costly"),
        ({"title": "t", "runs_of": "base", "only": ["layrnorm"]}, "no arm layrnorm; it has layernorm"),
        ({"title": "t", "runs_of": "base", "common": ["norm.p=1"]}, "leave out arms, common and sizes"),
        ({"title": "t", "runs_of": "mine"}, "runs_of=mine: shows the runs of mine itself"),
        ({"title": "t", "runs_of": "nobody"}, "plan=mine: runs_of=nobody: known plans are base, mine"),
        ({"title": "t", "seeds": []}, "seeds=[]: expected one seed or more"),
        ({"title": "t", "seeds": [1, 1]}, "seeds=[1,1]: expected one seed or more, each once"),
        ({"title": "t", "sizes": {"small": None}}, "sizes.small=null: expected a list"),
        ({"title": "t", "sizes": {"small": "train.lr=1"}}, "sizes.small=train.lr=1: expected a list"),
        ({"title": "t", "arms": {"a": ["norm=none", "size=paper"]}}, "size=paper: leave it out"),
        ({"title": "t", "common": ["++seed=4"]}, "++seed=4: leave it out"),
        ({"title": "t", "sizes": {"small": ["task=mnist"]}}, "task=mnist: leave it out"),
        (["title"], "mine.yaml: expected a mapping"),
        ("title: [t", "mine.yaml: not valid YAML"),
        ("title: ${t", "mine.yaml: not valid YAML"),
        (b"title: \xe9", "mine.yaml: not valid YAML"),
    ],
)
def test_a_plan_with_a_fault_is_refused_in_one_line(tmp_path, monkeypatch, content, words):
    folder = tmp_path / "plan"
    folder.mkdir()
    text = content if isinstance(content, str | bytes) else yaml.safe_dump(content)
    (folder / "mine.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "base.yaml").write_text(yaml.safe_dump({"title": "b", "arms": {"layernorm": ["norm=layernorm"]}}))
    monkeypatch.setattr(conf, "conf_dir", lambda: tmp_path)
    with pytest.raises(ConfigError) as refusal:
        load_plan("mine")
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_plan_that_shows_anothers_runs_reads_each_file_once(monkeypatch):
    read = []
    monkeypatch.setattr("rmsrepro.sweep.plan.load_yaml", lambda name: read.append(name) or conf.load_yaml(name))
    assert load_plan("figure7").runs_plan == "table3"
    assert read == ["plan/figure7.yaml", "plan/table3.yaml"]


def test_an_arm_whose_name_is_a_number_is_an_arm(tmp_path, monkeypatch):
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "mine.yaml").write_text("title: t\narms: {1: [norm=none]}\n")
    monkeypatch.setattr(conf, "conf_dir", lambda: tmp_path)
    assert load_plan("mine").arm("1").overrides == ["norm=none"]


def test_an_unknown_plan_is_refused():
    with pytest.raises(ConfigError, match="known plans are table1"):
        load_plan("table11")
