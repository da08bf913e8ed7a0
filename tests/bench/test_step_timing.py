"""Whole steps: the trainer's own, all arms, ratios within one setting, records that the tables can read."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch

from rmsrepro.bench import step_options, step_session, steps
from rmsrepro.bench.protocol import Timing
from rmsrepro.bench.step_arms import (
    arm_config,
    build_steps,
    contest_of_plan,
    contest_of_task,
    counterpart,
    makes_up_data,
)
from rmsrepro.bench.step_batches import by_size, spread, tensors
from rmsrepro.bench.step_records import publish
from rmsrepro.bench.step_session import Session
from rmsrepro.bench.step_table import to_markdown
from rmsrepro.conf import option_names
from rmsrepro.errors import ConfigError
from rmsrepro.report.cells import Cell
from rmsrepro.report.records import TimingRecord, read_records
from rmsrepro.report.run_dirs import arm_variant
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.runs.atomic import read_jsonl, to_json
from rmsrepro.sweep.plan import load_plan
from rmsrepro.tasks.base import Batch, build_task

SMALL = ("task.hidden=[8]", "train.batch_size=4")
CPU = torch.device("cpu")


def made_up(contest, **blocks_ms):
    """Return a session of given times, the reference's second timing its first in reverse."""
    timings = {arm: Timing(tuple(1000 * ms for ms in blocks), 1) for arm, blocks in blocks_ms.items()}
    sentinel = Timing((100.0,) * 4, 1)
    again = Timing(timings["layernorm"].block_us[::-1], 1)
    return Session("made-up", contest, "composed", "cpu", timings, {"layernorm": again}, sentinel, {})


MNIST = contest_of_task("mnist", ["none", "layernorm", "rmsnorm"], "tiny")
SESSION = made_up(MNIST, none=(5.0, 5.1, 4.9, 5.0), layernorm=(10.0, 10.1, 9.9, 10.0), rmsnorm=(8.0, 8.2, 7.8, 8.0))


def test_a_step_is_the_trainers_own_and_leaves_the_parameters_as_they_are(monkeypatch):
    trainers, norms = [], []
    monkeypatch.setattr("rmsrepro.bench.step_arms._require_room", lambda trainer, *_: trainers.append(trainer))
    monkeypatch.setattr("rmsrepro.train.loop.clip_gradients", lambda parameters, _: norms.append(len(parameters)))
    contest = contest_of_task("mnist", ["layernorm"], "tiny", [*SMALL, "train.clip_norm=1", "train.optimizer=sgd"])
    step = build_steps(contest, "composed", CPU, print)["layernorm"]
    (trainer,) = trainers
    before = [parameter.clone() for parameter in trainer.parameters]
    for _ in range(19):  # more than there are made-up batches; the first step was made while building
        step()
    assert len(norms) == step.calls == 20
    assert step.cut_short == 0
    assert all(map(torch.equal, before, trainer.parameters))
    assert all(parameter.grad is None for parameter in trainer.parameters)


def test_an_arm_that_overflows_starts_anew_and_is_counted(monkeypatch):
    trainers = []
    monkeypatch.setattr("rmsrepro.bench.step_arms._require_room", lambda trainer, *_: trainers.append(trainer))
    step = build_steps(contest_of_task("mnist", ["none"], "tiny", SMALL), "composed", CPU, print)["none"]
    (trainer,) = trainers
    before = [parameter.clone() for parameter in trainer.parameters]
    with torch.no_grad():
        trainer.parameters[0].fill_(torch.nan)
    step()
    assert (step.calls, step.cut_short) == (2, 1)
    assert all(map(torch.equal, before, trainer.parameters))
    step()
    assert step.cut_short == 1
    text = to_markdown(replace(SESSION, cut_short={"rmsnorm": 0.25}))
    assert "rmsnorm: 25% of its steps overflowed and were cut short." in text


def test_an_overflow_ends_with_the_call_it_comes_in_though_a_state_is_carried():
    contest = contest_of_task("lstm_lm", ["none"], "tiny", ["task.hidden=8", "task.layers=1", "data=ptb"])
    step = build_steps(contest, "composed", CPU, print)["none"]
    step.begin(2)
    with torch.no_grad():
        step._trainer.parameters[0].fill_(torch.nan)
    for _ in range(4):
        step()
    assert (step.calls, step.cut_short) == (5, 1)


@pytest.mark.parametrize("task", [task for task in option_names("task") if makes_up_data(task)])
def test_made_up_data_are_the_same_for_every_norm_and_need_no_files(task, tmp_path):
    def batch(norm):
        contest = contest_of_task(task, [norm], "tiny", [f"data.root={tmp_path / 'nothing'}"])
        made = build_task(arm_config(contest, norm, "composed", "cpu"), CPU)
        made.load_synthetic()
        return made.batch(0, 0), made.batches_per_epoch()

    (first, number), (second, other) = batch("layernorm"), batch("rmsnorm")
    assert number == other > 0
    assert first.weight == second.weight > 0
    ours, theirs = tensors(first.inputs), tensors(second.inputs)
    assert len(ours) == len(theirs) > 0
    assert all(map(torch.equal, ours, theirs))


def test_a_block_is_of_the_same_batches_each_time_the_middle_one_where_it_is_of_one(monkeypatch):
    contest = contest_of_task("cnndm_qa", ["none"], "tiny")
    step = build_steps(contest, "composed", CPU, print)["none"]
    task, seen = step._trainer.task, []
    monkeypatch.setattr(task, "batch", lambda epoch, index, batch=task.batch: seen.append(index) or batch(epoch, index))
    for calls in (1, 3, 3):
        step.begin(calls)
        for _ in range(calls):
            step()
    ordered = by_size(task)
    sizes = [sum(tensor.numel() for tensor in tensors(task.batch(0, index).inputs)) for index in ordered]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert seen[:7] == [*spread(ordered, 1), *spread(ordered, 3), *spread(ordered, 3)]
    assert spread([4, 2, 7], 1) == [2]
    assert spread([4, 2, 7], 6) == [4, 4, 2, 2, 7, 7]


def test_steps_that_accumulate_are_those_of_one_epoch_by_the_size_of_all_their_batches(monkeypatch):
    contest = contest_of_task("mnist", ["none"], "tiny", ["train.accumulate=2"])
    task = build_task(arm_config(contest, "none", "composed", "cpu"), CPU)
    sizes = [9, 1, 2, 2, 1, 4, 7]
    monkeypatch.setattr(task, "batches_per_epoch", lambda: len(sizes))
    monkeypatch.setattr(task, "batch", lambda epoch, index: Batch(torch.zeros(sizes[index]), weight=1, items=1))
    assert by_size(task) == [1, 2, 0]


def test_an_arm_is_compared_within_its_code_base():
    contest = contest_of_plan("table3", "tiny")
    assert counterpart(contest, "pytorch_rmsnorm", "layernorm") == "pytorch_layernorm"
    assert counterpart(contest, "theano_weightnorm", "layernorm") == "theano_layernorm"
    assert counterpart(contest, "pytorch_prmsnorm", "none") == "pytorch_baseline"
    assert counterpart(contest_of_plan("table6", "tiny"), "batchnorm_lstm", "none") == "baseline"


def test_ratios_noise_and_the_bound_follow_from_the_blocks():
    assert SESSION.versus_reference("rmsnorm").value == pytest.approx(0.8, rel=1e-3)
    assert SESSION.noise("layernorm").value == pytest.approx(1)
    # Half of LayerNorm's step is the norm: were it free, the step would be twice as fast and no faster.
    assert SESSION.bound("layernorm").value == pytest.approx(2.0, rel=1e-3)
    assert SESSION.bound("none") is None
    text = to_markdown(SESSION)
    assert "| layernorm | 10.00 |" in text
    assert re.search(r"\| 50\.0 \[49\.\d, 50\.\d\] % \| 2\.00x as fast \|", text)
    assert "layernorm again (noise)" in text


def test_a_drifting_machine_is_named():
    drifting = replace(SESSION, sentinel=Timing((100.0, 100.0, 110.0, 120.0), 1))
    assert drifting.drift == pytest.approx(0.2)
    assert "drifted by +20.0% over the session: more than 5%" in to_markdown(drifting)


def test_records_fill_the_time_cells_of_the_table(tmp_path):
    contest = contest_of_plan("table10", "small")
    times = {"baseline": (5.0, 5.1, 4.9, 5.0), "layernorm": (10.0, 10.1, 9.9, 10.0), "rmsnorm": (8.0, 8.2, 7.8, 8.0)}
    publish(made_up(contest, **times), tmp_path)
    path = publish(replace(made_up(contest, **times), name="later"), tmp_path)
    publish(replace(made_up(contest, **times), impl="fused"), tmp_path)
    records, complaints = read_records(path)
    assert complaints == []
    assert all(isinstance(record, TimingRecord) for record in records)
    # The later session took the place of the earlier one of the same impl and machine.
    assert {record.session for record in records if record.impl == "composed"} == {"later"}
    (table,) = build_tables(load_plan("table10"), build_index(tmp_path, None), "small")
    cells: list[Cell] = [cell for cell in table.cells if cell.is_ratio and cell.arm == "rmsnorm"]
    assert [cell.impl for cell in cells] == ["composed", "fused"]
    assert cells[0].relative == pytest.approx(0.8, rel=1e-3)
    assert cells[0].command == "python -m rmsrepro.bench steps --plan table10 --size small --impls composed --publish"
    assert cells[0].verdict is not None
    assert cells[0].verdict.rule != "session"
    variants = {record.arm: record.variant for record in records if isinstance(record, TimingRecord)}
    assert variants == {arm: arm_variant("table10", arm, "small") for arm in times}


def test_publishing_times_keeps_lines_of_another_kind(tmp_path):
    fact = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "column": "weight_scaling"}
    line = to_json(fact | {"value": 1, "command": "c"}) + "\n"
    (tmp_path / "timing-table10.jsonl").write_text(line)
    path = publish(made_up(contest_of_plan("table10", "small"), layernorm=(1.0, 1.0, 1.1)), tmp_path)
    assert path.read_text().startswith(line)


def test_the_command_times_every_arm_and_names_those_that_an_impl_cannot_compute(tmp_path, capsys):
    file = tmp_path / "steps.json"
    words = ["task=mnist", "size=tiny", "norms=none,batchnorm,layernorm", "impls=composed,fused", *SMALL]
    budget = ["--blocks", "3", "--block-ms", "1", "--budget-s", "5", "--device", "cpu", "--json", str(file)]
    assert steps.main([*words, *budget]) == 0
    sessions = json.loads(file.read_text())["sessions"]
    assert list(sessions[0]["arms"]) == ["none", "batchnorm", "layernorm"]
    assert sessions[0]["arms"]["none"]["reference"] == "layernorm"
    assert len(sessions[0]["arms"]["none"]["block_ms"]) == 3
    assert "norm_share_percent" in sessions[0]["arms"]["layernorm"]
    assert set(sessions[0]["conditions"]) == {"before", "after"}
    assert "arm batchnorm is not timed with impl=fused" in capsys.readouterr().err


def test_a_session_of_torch_s_operations_leaves_out_norms_that_torch_does_not_have(capsys):
    words = ["task=mnist", "size=tiny", "norms=none,layernorm,prmsnorm,l2norm", "impls=torch", *SMALL]
    assert steps.main([*words, "--blocks", "3", "--block-ms", "1", "--budget-s", "5", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "| layernorm |" in out
    for norm in ("prmsnorm", "l2norm"):
        assert f"| {norm} |" not in out
        assert f"arm {norm} is not timed with impl=torch: torch has no operation for this norm" in err


def test_a_budget_that_is_used_up_leaves_out_the_last_implementations_and_keeps_what_was_timed(tmp_path, capsys):
    file = tmp_path / "steps.json"
    words = ["task=mnist", "size=tiny", "norms=layernorm,rmsnorm", "impls=composed,torch", *SMALL]
    assert steps.main([*words, "--blocks", "3", "--budget-s", "0.001", "--device", "cpu", "--json", str(file)]) == 1
    assert [session["impl"] for session in json.loads(file.read_text())["sessions"]] == ["composed"]
    assert "impl torch: nothing is left of 0 s" in capsys.readouterr().err


def test_a_session_of_chosen_threads_says_so_in_its_command(tmp_path):
    contest = contest_of_plan("table10", "small")
    path = publish(made_up(contest, layernorm=(1.0, 1.0, 1.1)), tmp_path, threads=3)
    assert all(row["command"].endswith("--impls composed --threads 3 --publish") for row in read_jsonl(path))


def test_tables_with_times_are_timed_each_set_of_runs_once():
    found = steps.timed_plans()
    assert {"table10", "mnist", "lstm_lm"} <= set(found)
    assert not {"table1", "table8", "figure3", "figure1"} & set(found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one of task=T, --plan NAME or --all"),
        (["task=nope"], "task=nope: known are"),
        (["--plan", "table11"], "known plans are"),
        (["--plan", "table1"], "has no runs"),
        (["task=mnist", "--publish"], "name it with --plan NAME"),
        (["--plan", "mnist", "--publish", "train.batch_size=4"], "train.batch_size=4: records are of the plan's own"),
        (["--plan", "mnist", "--publish", "impls=auto"], "impls=auto: it stands for several"),
        (["--plan", "figure1", "--publish"], "figure1 shows runs of table2; name that one"),
        (["--plan", "mnist", "norms=none"], "a plan's arms choose the norms"),
        (["task=mnist", "norm=none"], "norm=none: allowed are overrides"),
        (["task=mnist", "norms=nrom", "size=tiny"], "norm=nrom: known are"),
        (["task=mnist", "train.lr=-1"], "allowed is a finite number above 0"),
        (
            ["task=mnist", "--blocks", "0"],
            "expected a whole number of 1 or more; --help shows",
        ),
        (["task=mnist", "--blocks", "2"], "expected a whole number of 3 or more, as fewer blocks have no spread"),
        (["task=mnist", "--published", "here"], "nothing is published; add --publish"),
        (["task=mnist", "--no-such"], "unrecognized arguments: --no-such"),
        (["task=mnist", "size=tiny", "train.batch_size=100000000000"], "train.batch_size=100000000000: does not fit"),
        (["task=mnist", "size=tiny", "task.hidden=[100000000]"], "take a smaller size or batch, or fewer norms"),
        (["task=mnist", f"train.batch_size={10**20}"], "expected a whole number that 64 bits hold"),
    ],
)
def test_a_fault_is_refused_in_one_line(words, said):
    with pytest.raises(ConfigError) as refusal:
        steps.main([*words, "--device", "cpu", "--budget-s", "5"])
    assert said in str(refusal.value)


def test_overrides_may_stand_on_both_sides_of_an_option():
    args = step_options.parse(["task=mnist", "train.batch_size=8", "--size", "tiny", "task.hidden=[8]"])
    assert (args.task, args.size, args.overrides) == ("mnist", "tiny", ["train.batch_size=8", "task.hidden=[8]"])


def test_arms_that_do_not_fit_into_memory_together_are_refused(monkeypatch):
    import psutil

    class Full:
        available = 1000

    monkeypatch.setattr(psutil, "virtual_memory", Full)
    with pytest.raises(ConfigError, match=r"needs about .* are free; take a smaller size"):
        step_session.run_session(MNIST, "composed", CPU, print, blocks=3, block_ms=1.0, budget_s=5.0)
