"""`python -m rmsrepro.bench norms` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmsrepro.bench import __main__ as command
from rmsrepro.bench import memory
from rmsrepro.errors import ConfigError

SMALL = ["norms", "--device", "cpu", "--shapes", "8x32", "--quick"]


def test_a_quick_run_writes_every_arm_with_its_spread(tmp_path: Path) -> None:
    target, table = tmp_path / "norms.json", tmp_path / "norms.md"
    assert command.main([*SMALL, "--json", str(target), "--markdown", str(table)]) == 0
    found = json.loads(target.read_text())
    rows = found["rows"]
    assert {row["pass"] for row in rows} == {"forward", "backward", "both"}
    assert {"copy", "F.layer_norm", "F.layer_norm again", "F.rms_norm", "composed rmsnorm"} <= {r["arm"] for r in rows}
    copy = next(row for row in rows if row["arm"] == "copy")
    assert copy["percent_of_copy"] == 100.0
    assert copy["gb_per_s"] == pytest.approx(2 * 8 * 32 * 4 / copy["median_us"] / 1000, abs=0.01)
    assert all(row["iqr_us"] >= 0 and row["blocks"] == 5 for row in rows)
    assert found["machine"]["threads"] >= 1
    assert table.read_text().count("\n| 8x32 float32 ") == len(rows)


def test_explain_times_nothing_and_gives_a_reason_for_each_norm(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*SMALL, "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("impl=auto takes" in line for line in lines)


@pytest.mark.parametrize("shape", ["8", "8x", "0x4", "axb", "²x4", "1x" + "9" * 30])
def test_a_bad_shape_is_refused_by_name(shape: str) -> None:
    with pytest.raises(ConfigError, match=r"--shapes: .*ROWSxWIDTH"):
        command.main(["norms", "--device", "cpu", "--shapes", shape, "--quick"])


def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"nothing.*allowed are norms"):
        command.main([])


@pytest.mark.parametrize("shape", ["100000000x100000000", "999999999999999999x999999999999999999"])
def test_a_shape_that_no_memory_holds_is_refused_with_what_it_needs(shape: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^--shapes {shape}: needs about [\d,.]+ GB .* GB are free; take fewer rows"
    ):
        command.main(["norms", "--device", "cpu", "--shapes", shape, "--quick"])


def test_an_allocation_that_fails_all_the_same_names_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: float("inf"))
    with pytest.raises(ConfigError, match=r"^--shapes 9{8}x9{8}: does not fit .*an allocation of \d+ bytes failed"):
        command.main(["norms", "--device", "cpu", "--shapes", "99999999x99999999", "--quick"])


@pytest.mark.parametrize("threads", ["100000", "9" * 30, "²"])
def test_a_number_of_threads_that_cannot_start_is_refused(threads: str) -> None:
    with pytest.raises(ConfigError, match=f"--threads: {threads}: expected"):
        command.main([*SMALL, "--threads", threads])


@pytest.mark.parametrize(
    ("words", "ignored"),
    [
        (["--table", "--shapes", "8x32"], "shapes"),
        (["--table", "--threads", "1"], "threads"),
        (["--table", "--no-compile"], "no-compile"),
        (["--explain", "--json", "norms.json"], "json"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(words: list[str], ignored: str) -> None:
    with pytest.raises(ConfigError, match=f"^--{ignored}: means nothing with {words[0]}; leave one of them out"):
        command.main(["norms", *words])
