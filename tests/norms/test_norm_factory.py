"""The factory and the configuration: presets hold what the code bases do, and mistakes are named."""

import importlib
import pkgutil
import subprocess
import sys

import pytest
import torch

import rmsrepro.norms
from rmsrepro.conf import option_names
from rmsrepro.errors import ConfigError
from rmsrepro.norms import NormFactory, build_norm, find_family, norm_config, norm_names
from rmsrepro.norms.base import SITES
from rmsrepro.norms.config import NormConfig

# One row per code base: eps, its place, rounding of k, RMSNorm's shift, the side of the norm where a bias stands.
PRESETS = {
    "paper_torch": (1e-8, "outside", "floor", False, "outside"),
    "paper_tensorflow": (1e-8, "inside", "floor", False, "outside"),
    "order_embedding": (1e-5, "inside", "floor", False, "inside"),
    "attentive_reader": (1e-5, "inside", "floor", False, "inside"),
    "nematus_tensorflow": (1e-5, "inside", "floor", False, "inside"),
    "nematus_theano": (1e-5, "inside", "floor", True, "inside"),
    "lasagne": (1e-6, "inside", "floor", True, "outside"),
    "zero": (1e-8, "inside", "floor", False, "outside"),
    "llama": (1e-6, "inside", "ceil", False, "outside"),
    "gemma": (1e-6, "inside", "ceil", False, "outside"),
    "torch": (torch.finfo(torch.float32).eps, "inside", "ceil", False, "outside"),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_hold_each_code_bases_semantics(preset):
    cfg = norm_config("rmsnorm", preset)
    assert (cfg.eps, cfg.eps_placement, cfg.rounding, cfg.shift, cfg.bias_placement) == PRESETS[preset]
    assert cfg.axes == ("hw" if preset == "lasagne" else "chw")
    assert cfg.gain_offset == (1.0 if preset == "gemma" else 0.0)
    assert cfg.cast_before_gain == (preset == "llama")
    assert cfg.preset == preset


def test_every_preset_is_in_the_table_and_builds_every_norm(norm):
    assert option_names("norm/preset") == sorted(PRESETS)
    for preset in PRESETS:
        assert NormFactory(norm_config(norm, preset)).linear(4, 6)(torch.randn(3, 4)).shape == (3, 6)


def test_torch_preset_equals_torchs_default(impl):
    x = torch.randn(4, 16) * 1e-3
    torch.testing.assert_close(build_norm("rmsnorm", 16, preset="torch", impl=impl)(x), torch.nn.RMSNorm(16)(x))


def test_a_field_given_by_hand_beats_the_preset_and_the_preset_beats_the_norm():
    assert norm_config("prmsnorm", "lasagne").p == 0.0625
    assert norm_config("layernorm", "gemma").shift is True
    assert norm_config("weightnorm", "nematus_theano").eps == 1e-5
    cfg = norm_config("rmsnorm", "lasagne", eps=0.5)
    assert (cfg.eps, cfg.axes) == (0.5, "hw")


def test_a_norm_is_one_module_and_one_yaml():
    families = {
        m.name
        for m in pkgutil.iter_modules(rmsrepro.norms.__path__)
        if hasattr(importlib.import_module(f"rmsrepro.norms.{m.name}"), "Family")
    }
    assert norm_names() == sorted(families)
    assert all(norm_config(name).name == name for name in norm_names())


def test_every_norm_serves_the_sites_it_names(norm):
    factory = NormFactory(norm_config(norm))
    factory.require(find_family(norm).sites)
    assert set(find_family(norm).sites) <= set(SITES)


@pytest.mark.parametrize("spelling", ["rms_norm", "RMSNorm", "rms-norm", "RmsNorm"])
def test_spelling_of_names_does_not_matter(spelling):
    assert torch.equal(build_norm(spelling, 4)(torch.ones(4)), build_norm("rmsnorm", 4)(torch.ones(4)))


MISTAKES = {
    "p of zero": (lambda: build_norm("prmsnorm", 8, p=0.0), ["norm.p=0.0", "0 < p <= 1"]),
    "p above one": (lambda: build_norm("prmsnorm", 8, p=1.5), ["norm.p=1.5", "0 < p <= 1"]),
    "p not a number": (lambda: build_norm("prmsnorm", 8, p=float("nan")), ["norm.p=nan", "0 < p <= 1"]),
    "partial layernorm": (lambda: build_norm("layernorm", 8, p=0.5), ["norm.p=0.5", "layernorm", "allowed is 1"]),
    "no such norm": (lambda: build_norm("rmsnrm", 8), ["norm=rmsnrm", "rmsnorm", "weightnorm"]),
    "name of a wrong type": (lambda: build_norm(None, 8), ["norm=None", "rmsnorm"]),
    "no such preset": (lambda: build_norm("rmsnorm", 8, preset="lama"), ["norm.preset=lama", "llama"]),
    "no such field": (lambda: build_norm("rmsnorm", 8, epsilon=1e-5), ["norm.epsilon", "eps_placement"]),
    "no such option": (lambda: build_norm("rmsnorm", 8, extra={"alpha": 1}), ["norm.extra.alpha", "rmsnorm"]),
    "no such impl": (lambda: build_norm("rmsnorm", 8, impl="cuda"), ["impl=cuda", "composed"]),
    "eps below zero": (lambda: build_norm("rmsnorm", 8, eps=-1e-5), ["norm.eps=-1e-05", "not negative"]),
    "eps without end": (lambda: build_norm("rmsnorm", 8, eps=float("inf")), ["norm.eps=inf", "finite"]),
    "eps as text": (lambda: build_norm("rmsnorm", 8, eps="x"), ["norm.eps=x", "a number"]),
    "eps of nothing": (lambda: build_norm("rmsnorm", 8, eps=None), ["norm.eps=null", "a number"]),
    "p as a switch": (lambda: build_norm("prmsnorm", 8, p=True), ["norm.p=true", "a number"]),
    "gain as a number": (lambda: build_norm("rmsnorm", 8, gain=1), ["norm.gain=1", "true or false"]),
    "offset without end": (lambda: build_norm("rmsnorm", 8, gain_offset=float("nan")), ["norm.gain_offset", "finite"]),
    "axes as a list": (lambda: build_norm("rmsnorm", 8, axes=["c"]), ["norm.axes=['c']", "text"]),
    "no such axes": (lambda: build_norm("rmsnorm", 8, axes="wh"), ["norm.axes=wh", "chw, hw, c"]),
    "no such place": (lambda: build_norm("rmsnorm", 8, eps_placement="in"), ["norm.eps_placement=in", "inside"]),
    "momentum of zero": (lambda: build_norm("batchnorm", 8, momentum=0.0), ["norm.momentum=0.0", "<= 1"]),
    "config by hand": (lambda: NormFactory(NormConfig(shift="yes")), ["norm.shift=yes", "true or false"]),
    "no features": (lambda: build_norm("rmsnorm", 0), ["rmsnorm", "0 features"]),
    "half a feature": (lambda: build_norm("batchnorm", 8.5), ["batchnorm", "8.5 features"]),
    "weightnorm alone": (lambda: build_norm("weightnorm", 8), ["weightnorm", "'features'", "linear, conv2d"]),
    "batch of one": (
        lambda: NormFactory(norm_config("batchnorm")).require(["linear"], batch_rows=1),
        ["train.batch_size=1", "batchnorm", "at least 2"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_in_one_line_with_what_is_allowed(mistake):
    make, words = MISTAKES[mistake]
    with pytest.raises(ConfigError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


def test_norm_settings_are_read_without_torch():
    check = "from rmsrepro.norms.config import NormConfig; NormConfig().validate()"
    code = f"import sys; {check}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
