"""Whatever is wrong with the command line is said in one line before anything starts."""

import json

import pytest
from sweep import sweeping

from rmsrepro.compose import compose_config
from rmsrepro.errors import ConfigError
from rmsrepro.sweep import cli
from rmsrepro.sweep import specs as specs_module
from rmsrepro.sweep.options import parse
from rmsrepro.sweep.plan import Plan, load_plan
from rmsrepro.sweep.slurm import slurm_parameters
from rmsrepro.sweep.specs import build_specs
from rmsrepro.train.place import run_directory


def specs(*words):
    return build_specs(parse(words))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("plan=nope", "plan=nope: known plans are table1"),
        ("size=huge", "size=huge: allowed are tiny, small, paper"),
        ("arms=layrnorm", "no arm layrnorm; it has baseline, batchnorm, layernorm"),
        ("seeds=1,1", "each seed counts once"),
        ("seeds=1,x", "expected whole numbers"),
        ("seeds=1," + 5000 * "9", "seeds=999999999999999999...: expected whole numbers"),
        ("seeds=4294967296", "allowed is 0 to 4294967295"),
        ("workers=0", "whole number of 1 or more"),
        ("workers=" + 5000 * "9", "workers=999999999999999999...: expected a whole number of 1 or more"),
        ("workers=1000", "a processor for each"),
        ("launcher=pbs", "allowed are local, slurm"),
        ("slurm.time=3", "means nothing with launcher=local"),
        ("train.lr=-1", "train.lr=-1.0: allowed is a finite number above 0"),
        ("train.lrr=1", "no such setting (did you mean train.lr?)"),
        ("train.lr=1,2", "names several values"),
        ("norm=none", "the plan's arms choose the norm"),
        ("task=mnist", "the plan chooses the task"),
        ("seed=1", "write seeds=1,2,3"),
        ("runs.overwrite=true", "throws no finished run away"),
        ("++seed=4", "write seeds=1,2,3"),
        ("++runs.overwrite=true", "throws no finished run away"),
        ("--json=--status", "cannot be written"),
        ("--frobnicate", "no such flag"),
        ("tiny", "write key=value"),
        ("--json=/no/such/folder/x.json", "cannot be written"),
    ],
)
def test_a_fault_is_refused_before_anything_starts(word, said, capsys, root):
    assert sweeping.main(["seeds=1", word]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err
    assert not root.exists()


def test_a_number_for_slurm_is_checked():
    for value in ("1h", 5000 * "9"):
        with pytest.raises(ConfigError, match=r"slurm.time=\S+ expected a whole number"):
            slurm_parameters({"time": value}, gpu=False)
    assert slurm_parameters({"time": "90", "partition": "12"}, gpu=True) == {
        "name": "rmsrepro",
        "timeout_min": 90,
        "gpus_per_node": 1,
        "slurm_partition": "12",
    }


def test_a_plan_must_be_named(capsys):
    assert cli.main([]) == 2
    assert "plan: not given" in capsys.readouterr().err


def test_a_plans_runs_are_its_arms_times_seeds_seed_by_seed():
    found = specs("plan=table10", "size=tiny", "seeds=4,7")
    arms = list(load_plan("table10").arms)
    assert [(spec.arm, spec.seed) for spec in found] == [(arm, seed) for seed in (4, 7) for arm in arms]
    own = ("task=cifar10", "size=tiny", "norm=none", "track.group=plan:table10", "seed=4")
    assert (len(arms), set(own) - set(found[0].overrides)) == (6, set())


def test_a_run_of_a_sweep_is_the_run_that_its_command_makes():
    (spec,) = specs("plan=table10", "size=tiny", "arms=prmsnorm", "seeds=7", "train.lr=0.5")
    assert compose_config(list(spec.overrides)).hash() == spec.rundir.path.name
    assert spec.overrides[-1] == "seed=7"
    assert "norm.p=0.125" in spec.overrides
    assert "track.group=plan:table10" in spec.overrides


def test_an_override_is_stronger_than_the_plans_own():
    (spec,) = specs("plan=lstm_lm", "size=tiny", "arms=baseline", "seeds=1", "data=ptb")
    assert [word for word in spec.overrides if word.startswith("data=")] == ["data=ptb"]


def test_an_override_may_name_the_seed(tmp_path):
    found = specs("plan=mnist", "size=tiny", "arms=rmsnorm", "seeds=1,2", f"runs.root={tmp_path}/x${{seed}}")
    assert [spec.rundir.path.parents[2] for spec in found] == [tmp_path / "x1", tmp_path / "x2"]
    assert [run_directory(compose_config(list(spec.overrides))).path for spec in found] == [
        spec.rundir.path for spec in found
    ]


def test_a_plan_that_shows_anothers_runs_has_those_runs():
    own, shown = specs("plan=table10", "size=tiny"), specs("plan=table9", "size=tiny")
    assert [spec.rundir.path for spec in own] == [spec.rundir.path for spec in shown]
    assert {spec.plan for spec in shown} == {"table10"}
    assert len(specs("plan=table9,table10", "size=tiny")) == len(own)


def use_plan(monkeypatch, **fields):
    plan = Plan(title="t", name="mnist", task="mnist", **fields)
    for module in (specs_module, cli):
        monkeypatch.setattr(module, "load_plan", lambda name: plan)


def test_arms_that_an_override_makes_equal_are_refused(monkeypatch):
    use_plan(monkeypatch, arms={"a": ["norm=prmsnorm", "norm.p=0.1"], "b": ["norm=prmsnorm"]})
    with pytest.raises(ConfigError, match=r"arms a and b are one and the same run with norm.p=0.5"):
        specs("plan=mnist", "size=tiny", "seeds=1", "norm.p=0.5")


def test_a_plan_without_runs_says_so(capsys):
    assert cli.main(["plan=table1"]) == 0
    assert "plan=table1 has no runs" in capsys.readouterr().err


def test_a_plan_that_nobody_should_expect_to_finish_says_so(monkeypatch, capsys):
    untried = {"paper": {"state": "too costly", "why": "a year"}}
    use_plan(monkeypatch, arms={"a": ["norm=none"]}, untried=untried)
    for size, note in (("tiny", ""), ("paper", "note: plan=mnist at size=paper is too costly: a year\n")):
        assert cli.main(["plan=mnist", f"size={size}", "seeds=1", "--dry-run"]) == 0
        assert capsys.readouterr().err == note


def test_a_dry_run_lists_states_and_commands_and_makes_nothing(capsys, root):
    assert sweeping.main(["--dry-run", "arms=rmsnorm", "seeds=3", "tag='a b'"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("missing  python -m rmsrepro task=mnist size=tiny norm=rmsnorm track=none device=cpu")
    assert line.endswith("seed=3")
    assert not root.exists()


def test_status_as_json(tmp_path, capsys):
    file = tmp_path / "status.json"
    assert sweeping.main(["--status", f"--json={file}", "arms=rmsnorm", "seeds=1,2"]) == 0
    found = json.loads(file.read_text())
    assert (found["expected"], found["done"], found["to_do"]) == (2, 0, 2)
    assert [run["seed"] for run in found["runs"]] == [1, 2]
    assert found["runs"][0]["command"][:3] == ["python", "-m", "rmsrepro"]
    assert found["estimated_train_s_left"] is None
