from __future__ import annotations

import json

import pytest

from rmsrepro.bench.__main__ import main
from rmsrepro.errors import ConfigError

pytestmark = pytest.mark.usefixtures("kernels")


def test_the_benchmark_times_every_layer_beside_torchs_and_writes_it_down(tmp_path, capsys):
    files = [tmp_path / "cells.json", tmp_path / "cells.md"]
    options = ["--sizes", "3,2,4,5", "--quick", "--blocks", "3", "--threads", "1"]
    assert main(["cells", *options, "--json", str(files[0]), "--markdown", str(files[1])]) == 0
    written = json.loads(files[0].read_text())
    assert [(r["cell"], r["pass"]) for r in written["cells"]] == [
        (cell, pass_) for cell in ("lstm", "gru") for pass_ in ("forward", "both")
    ]
    for record in written["cells"]:
        assert {"torch's layer", "torch's layer again", "fused prmsnorm", "composed none"} < set(record["arms"])
        assert record["arms"]["fused rmsnorm"]["vs_torch"]["ratio"] > 0
        assert "fused rmsnorm / torch's layer" in record["ratios"]
    assert "GRU, T, B, in, H = 3, 2, 4, 5, forward + backward" in files[1].read_text()
    assert "order-embedding (GRU) 1.69" in capsys.readouterr().out


def test_a_size_that_means_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"--sizes: 3,2: expected T,B,IN,H"):
        main(["cells", "--sizes", "3,2"])


def test_a_size_that_no_memory_holds_is_refused_before_anything_is_timed():
    with pytest.raises(ConfigError, match=r"^--sizes 10{9}, 10{3}, 10{3}, 10{3}: needs about .* are free; take fewer"):
        main(["cells", "--sizes", "3,2,4,5", "1000000000,1000,1000,1000"])


def test_two_blocks_are_refused_as_they_have_no_spread_worth_showing():
    with pytest.raises(ConfigError, match="--blocks: 2: expected a whole number of 3 or more"):
        main(["cells", "--blocks", "2"])


def test_passes_that_the_table_would_not_time_are_refused():
    with pytest.raises(ConfigError, match="--passes: means nothing with --table"):
        main(["cells", "--table", "--passes", "forward"])
