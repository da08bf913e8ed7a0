"""Awkward values arrive in the record as they were meant, and hashes name what decides the numbers."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex

import pytest
import toy
import yaml
from yaml import YAMLError

from rmsrepro import cli
from rmsrepro.compose import compose_config
from rmsrepro.conf import parse_yaml

AWKWARD = ["a=b", "#1", "café", "it's", "a,b", "a b", "~x", "[1]", "{", 'say "x"', "back\\slash", "007", "%20", "é(ü)"]


def quoted(text):
    return '"' + text.replace('"', '\\"') + '"'


@pytest.mark.parametrize("text", AWKWARD)
def test_a_quoted_value_reaches_the_configuration_as_it_is(text):
    assert compose_config([f"tag={quoted(text)}"]).tag == text


@pytest.mark.parametrize("text", ["a=b", "#1", "café", "it's", "a,b", "[1]x", "{", "é(ü)", "a\\b=", '=\\"', "=\\"])
def test_an_unquoted_one_is_answered_with_a_quoted_form_that_works(capsys, text):
    assert cli.main([f"tag={text}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    form = re.search(r"quote the value: ('.*)$", line)[1]
    assert compose_config(shlex.split(form)).tag == text


def test_awkward_tags_and_paths_go_through_to_every_record(tmp_path):
    root = tmp_path / "a (b) [c] ü, d=e's #1"
    root.mkdir()
    overrides = [f"runs.root={quoted(str(root))}", f"data.root={quoted(str(root / 'd'))}", 'tag="a=b,#1 café"']
    assert cli.main([*toy.BASE, "train.max_steps=2", *overrides]) == 0
    assert toy.result(root)["tag"] == "a=b,#1 café"
    saved = yaml.safe_load((toy.run_dir(root) / "config.yaml").read_text(encoding="utf-8"))
    assert saved["runs"]["root"] == str(root)
    assert saved["data"]["root"] == str(root / "d")
    assert saved["tag"] == "a=b,#1 café"
    manifest = json.loads((toy.run_dir(root) / "manifest.json").read_text(encoding="utf-8"))
    assert shlex.split(manifest["command"])[-3:] == overrides


def leaves(part, prefix=""):
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield part, field.name, f"{prefix}{field.name}"


def other(value):
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case list():
            return [*value, 7]
        case dict():
            return {**value, "x": 1}
    return 5


def test_the_hash_changes_with_every_setting_but_paths_logging_and_tag():
    config = compose_config([])
    before = config.hash()
    for part, field, name in list(leaves(config)):
        kept = getattr(part, field)
        setattr(part, field, other(kept))
        unhashed = name in ("tag", "data.root") or name.startswith(("runs.", "track."))
        assert (config.hash() == before) == unhashed, name
        setattr(part, field, kept)


def test_values_of_a_file_that_is_read_twice_are_the_callers_own():
    parse_yaml("a: {b: 1}")["a"]["b"] = 2
    assert parse_yaml("a: {b: 1}") == {"a": {"b": 1}}


@pytest.mark.parametrize("text", ["3", "- [", "a: b: c"])
def test_a_text_that_is_no_configuration_is_an_error_of_yaml(text):
    with pytest.raises(YAMLError):
        parse_yaml(text)


def test_the_hash_does_not_depend_on_order_or_spelling():
    one = compose_config(["train.lr=1e-3", "seed=3", "norm=layernorm", "train.epochs=2"])
    two = compose_config(["norm=layernorm", "train.epochs=2.0", "seed=3", "train.lr=0.001"])
    assert one.hash() == two.hash()


@pytest.mark.parametrize(
    ("overrides", "field", "value"),
    [
        # The recipe sets what the command line does not.
        (["size=tiny"], "train.max_steps", 60),
        (["size=tiny", "train.max_steps=7"], "train.max_steps", 7),
        (["train.max_steps=7", "size=tiny"], "train.max_steps", 7),
        (["task.model=cnn"], "train.lr", 2e-3),
        (["task.model=cnn", "train.batch_size=4"], "train.lr", 1e-4),
        (["norm=batchnorm", "train.batch_size=4"], "norm.unbiased", True),
        (["norm=batchnorm", "train.batch_size=4", "norm.unbiased=false"], "norm.unbiased", False),
        # A preset is stronger than the norm's file and weaker than the command line.
        (["norm=rmsnorm"], "norm.eps", 1e-5),
        (["norm=rmsnorm", "norm.preset=llama"], "norm.eps", 1e-6),
        (["norm=rmsnorm", "norm.preset=llama", "norm.eps=1e-3"], "norm.eps", 1e-3),
        (["norm.preset=nematus_theano"], "norm.shift", True),
        (["norm=layernorm", "norm.preset=llama"], "norm.shift", True),
        (["norm=prmsnorm", "norm.preset=zero"], "norm.p", 0.0625),
    ],
)
def test_the_command_line_is_stronger_than_recipe_preset_and_file(overrides, field, value):
    config = compose_config(overrides)
    group, name = field.split(".")
    assert getattr(getattr(config, group), name) == value
