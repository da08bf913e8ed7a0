"""Bad settings end with exit code 2 and one line, before data is read or torch imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from rmsrepro import cli

NOWHERE = "data.root=/nowhere"

WRONG = {
    # names
    "train.lrr=1": "train.lrr: no such setting (did you mean train.lr?)",
    "norn=layernorm": "norn: no such setting (did you mean norm?)",
    "+foo=1": "foo: no such setting",
    "+train.foo=1": "train.foo: no such setting",
    "task.foo=1": "task.foo: no such setting",
    "task=cifar11": "task=cifar11: known are",
    "norm=": "norm=: known are batchnorm, l2norm, layernorm",
    "size=large": "size=large: known are paper, small, tiny",
    "norm.preset=foo": "norm.preset=foo: known presets are attentive_reader",
    # types
    "train.lr=abc": "train.lr=abc: expected a number",
    "train.lr=[1]": "train.lr=[1]: expected a number",
    "train.batch_size=1.5": "train.batch_size=1.5: expected a whole number",
    "train.batch_size=true": "train.batch_size=true: expected a whole number",
    "train.batch_size=null": "train.batch_size=null: expected a whole number",
    "norm.gain=1": "norm.gain=1: expected true or false",
    "tag=true": "tag=true: expected text",
    "task.hidden=5": "task.hidden=5: expected a list",
    "task.hidden=[1,x]": "task.hidden[1]=x: expected a whole number",
    "norm.extra=3": "norm.extra=3: expected a mapping",
    "size=5": "size=5: expected a file of conf/size: paper, small, tiny",
    "task=null": "task=null: expected a file of conf/task",
    "train={lr:1}": "train={lr:1}: expected a file of conf/train",
    # ranges
    "train.batch_size=0": "train.batch_size=0: allowed is 1 or more",
    "train.max_steps=0": "train.max_steps=0: allowed is 1 or more",
    "train.eval_every=-1": "train.eval_every=-1: allowed is 0 or more",
    "train.lr=nan": "train.lr=nan: allowed is a finite number above 0",
    "train.epochs=inf": "train.epochs=inf: allowed is a finite number above 0",
    "train.beta1=1": "train.beta1=1.0: allowed is 0 <= beta1 < 1",
    "train.weight_decay=-1": "train.weight_decay=-1.0: allowed is 0 or more",
    "train.stop_at=nan": "train.stop_at=nan: allowed is a finite number",
    "norm.p=0": "norm.p=0.0: allowed is 0 < p <= 1",
    "norm.eps=-1": "norm.eps=-1.0: allowed is",
    "seed=-1": "seed=-1: allowed is 0 to 4294967295",
    "track.log_every=0": "track.log_every=0: allowed is 1 or more",
    "runs.checkpoint_every=0": "runs.checkpoint_every=0: allowed is 1 or more",
    # words
    "impl=foo": "impl=foo: allowed are auto, composed",
    "device=tpu": "device=tpu: allowed are auto, cpu, cuda",
    "train.optimizer=lion": "train.optimizer=lion: allowed are adam",
    "task.model=rnn": "task.model=rnn: allowed are mlp, cnn",
    # what would leave the configuration without a part
    "~norm": "~norm: nothing can be removed",
    "~train.lr": "~train.lr: nothing can be removed",
    "recipe=[]": "recipe=[]: a recipe belongs to its task",
    "norm.name=layernorm": "norm.name=layernorm: write norm=layernorm",
    "=3": "=3: write key=value",
    "layernorm": "cannot read layernorm: write key=value",
    "seed=1,2": "seed=1,2 names several values: add -m to run each",
    "--fast": "--fast: no such flag",
}


@pytest.mark.parametrize(("override", "said"), WRONG.items(), ids=list(WRONG))
def test_a_wrong_setting_is_refused_in_one_line(capsys, root, override, said):
    assert cli.main([NOWHERE, override]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"error: {said}")
    assert captured.out == ""
    assert not root.exists()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["norm=batchnorm", "norm.p=0.5"], "norm.p=0.5: batchnorm has no partial statistic"),
        (["norm=batchnorm", "train.batch_size=1"], "train.batch_size=1: norm=batchnorm"),
        (["impl=fused", "norm.p=2"], "norm.p=2.0: allowed is 0 < p <= 1"),
        (["device=cuda"], "device=cuda: torch sees no CUDA device"),
    ],
)
def test_a_combination_that_cannot_run_is_refused_before_data_is_read(capsys, root, overrides, said):
    if overrides == ["device=cuda"] and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert cli.main([NOWHERE, *overrides]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")
    assert not root.exists()


@pytest.mark.parametrize("arguments", [["--help"], ["norm.p=0"], ["train.lrr=1"], ["--cfg", "job"]])
def test_answers_that_need_no_torch_do_not_import_it(arguments):
    program = (
        "import sys; from rmsrepro import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1] == "False"


def test_a_done_run_is_named_without_torch():
    program = (
        "import sys; from rmsrepro import cli, compose; from rmsrepro.train.place import run_directory\n"
        "from rmsrepro.runs.atomic import write_json_atomic\n"
        "from rmsrepro.runs.result import build_result, build_timing\n"
        "place = run_directory(compose.compose_config([])); place.create(); place.write_status('done')\n"
        "timing = build_timing(step_seconds=[], items=0, steps=1, train_s=1.0, peak_memory_bytes=None)\n"
        "texts = {key: 'x' for key in ('task', 'norm', 'impl', 'size', 'data', 'device', 'config_hash')}\n"
        "found = {'metrics': {'loss': 1.0}, 'primary': 'loss', 'direction': 'min', 'timing': timing, 'params': 1}\n"
        "write_json_atomic(place.result_json, build_result(**texts, **found, seed=1, commit=None))\n"
        "assert cli.main([]) == 0; assert 'torch' not in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ended.stdout.endswith("result.json\n")
