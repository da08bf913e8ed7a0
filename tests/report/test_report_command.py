import csv
import json
import subprocess
import sys

import pytest
from made_up import result, run_line

from rmsrepro.report import side_by_side
from rmsrepro.report.cli import main, parse
from rmsrepro.sweep.plan import plan_names


@pytest.fixture
def report(tmp_path, capsys):
    """Return a function that runs the command on made-up places and returns exit code, stdout and stderr."""

    def run(*arguments, published=None):
        places = ["--out", str(tmp_path / "out"), "--published", str(published or tmp_path / "none")]
        code = main([*arguments, *places, f"runs.root={tmp_path / 'runs'}"])
        return code, *capsys.readouterr()

    return run


def test_with_nothing_measured_every_table_is_written_in_three_formats_with_an_overview(report, tmp_path):
    code, out, err = report()
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert code == 0
    assert out == ""
    assert {"table1.md", "table10.tex", "figure7.csv", "mnist.md", "overview.md", "elsewhere.md"} <= written
    assert len(written) == len(plan_names()) * 3 + 3
    assert "191 without a number of ours" in err


def test_numbers_of_others_stand_apart_under_their_labels(report, tmp_path):
    report()
    elsewhere = (tmp_path / "out" / "elsewhere.md").read_text()
    assert elsewhere.index("Published elsewhere") < elsewhere.index("Claimed elsewhere without a source")
    assert "24.37" in elsewhere.partition("Claimed elsewhere without a source")[2]
    tables = [path.read_text() for path in (tmp_path / "out").iterdir() if path.name != "elsewhere.md"]
    assert not any("24.37" in text for text in tables)


def test_every_claim_is_listed_with_its_unit_direction_and_source(report, tmp_path):
    report()
    rows = list(csv.DictReader((tmp_path / "out" / "claims.csv").open()))
    assert len(rows) == len({row["id"] for row in rows}) == 233
    found = next(row for row in rows if row["id"] == "table10/rmsnorm/test_error")
    wanted = {"value": "8.83", "unit": "%", "direction": "min", "source": "Table 10, page 9", "reference": "layernorm"}
    assert {key: found[key] for key in wanted} == wanted


def test_a_named_plan_is_printed(report):
    code, out, _ = report("plan=table10", "size=small")
    assert code == 0
    assert out.startswith("# table10: ConvPool-CNN-C on CIFAR-10")
    assert "norm=rmsnorm seed=1,2,3" in out


def test_check_fails_on_contradictions_only(report, published):
    assert report("--check")[0] == 0
    few = published(run_line(seed=1), run_line(state="failed", seed=2))
    assert report("--check", published=few)[0] == 0
    missed = published(*(run_line(seed=seed, error=0.3 + seed / 1000) for seed in (1, 2, 3)))
    code, _, err = report("--check", published=missed)
    assert (code, "1 not reproduced" in err) == (0, True)
    torn = published(run_line(seed=1, error=0.08), run_line(seed=1, error=0.09))
    code, _, err = report("--check", published=torn)
    assert code == 1
    assert "contradiction: table10/rmsnorm" in err


def test_tables_are_written_in_spite_of_contradictions(report, published):
    code, out, err = report("plan=table10", published=published(run_line(seed=1, error=8.9)))
    assert code == 0
    assert "contradictory" in out
    assert "contradiction:" in err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("plan=table11", "known plans are table1"),
        ("size=huge", "allowed are tiny, small, paper"),
        ("--chekc", "--help shows"),
        ("publish", "name the plan"),
        ("--published=", "expected the name of a file or folder"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_2(report, argument, words):
    code, _, err = report(argument)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_the_report_needs_no_torch(tmp_path):
    program = (
        "import sys; from rmsrepro.report.cli import main; "
        f"code = main(['plan=table10', '--out', {str(tmp_path)!r}, 'runs.root={tmp_path}']); "
        "sys.exit(code or int('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


def test_a_runs_root_that_is_not_there_is_said(report, tmp_path):
    assert f"{tmp_path / 'runs'}: no such folder" in report()[2]
    (tmp_path / "runs").mkdir()
    assert f"{tmp_path / 'runs'}: no such folder" not in report()[2]


def test_figures_may_stand_behind_other_words(tmp_path, capsys):
    assert main(["--published", str(tmp_path), "plan=figure4", "--out", str(tmp_path / "f"), "figures"]) == 0
    assert "figures written" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["figures", "publish"], ["publish", "--check"], ["--check", "--html", "x.html"]])
def test_two_commands_at_once_are_refused(words, capsys):
    assert main([*words, "plan=table4"]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--html", "x.html"),
        ("--html", "a=b.html"),
        ("--readme", "README.md"),
        ("--out", "tables"),
        ("--published", "records"),
        ("--plan", "table4,table5"),
        ("--size", "tiny"),
        ("--runs.root", "runs"),
    ],
)
def test_a_value_stands_behind_a_space_or_an_equals_sign(flag, value):
    assert parse([flag, value]) == parse([f"{flag}={value}"]) != parse([])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["publish", "plan=mnist", "size=tiny"], "--size: means nothing with publish"),
        (["--html", "--out", "pages"], "--out: says where tables or figures go"),
        (["--html", "/"], "--html=/: is a folder; name a file in it"),
        (["--html=."], "--html=.: is a folder"),
    ],
)
def test_an_option_that_would_be_passed_over_or_cannot_be_meant_is_refused(words, said, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_figures_say_what_they_leave_out(published, tmp_path, capsys):
    folder = published(run_line(plan="gone"))
    where = ["--published", str(folder), f"runs.root={tmp_path / 'runs'}", "--out", str(tmp_path / "out")]
    assert main(["figures", "plan=mnist", *where]) == 0
    assert "note: gone/rmsnorm: there is no such plan" in capsys.readouterr().err


def test_the_page_has_a_name_of_its_own_where_none_is_given():
    for words in (["--html"], ["--html", "plan=table4"]):
        assert parse(words).html.name == "report.html"


def test_comparing_runs_says_how_it_is_used(capsys):
    assert side_by_side.main(["--help"]) == 0
    assert "RUN_DIRECTORY" in capsys.readouterr().out


def test_comparing_runs_shows_a_metric_that_is_not_finite(tmp_path, capsys):
    for name, metrics in (("a", {"test/error": 0.1}), ("b", {"test/error": "Infinity", "test/accuracy": 0.1})):
        content = result() | {"metrics": metrics, "primary": list(metrics)[-1]}
        (tmp_path / name).write_text(json.dumps(content))
    assert side_by_side.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert " inf " in capsys.readouterr().out


def test_comparing_runs_names_whatever_they_do_not_share(tmp_path, capsys):
    for name, changes in (("a", {}), ("b", {"size": "small", "device": "[/b]", "items": "pairs"})):
        (tmp_path / name).write_text(json.dumps(result() | changes))
    assert side_by_side.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    title, _, _, *rows = capsys.readouterr().out.splitlines()
    assert title.strip() == "task cifar10, data cifar10"
    assert [[word in row for word in ("paper", "TITAN", "small", "[/b]")] for row in rows if "rmsnorm │" in row] == [
        [True, True, False, False],
        [False, False, True, True],
    ]


def test_a_flag_is_not_taken_for_the_name_of_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--out", "--check"]) == 2
    assert "argument --out: expected one argument" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_read_is_refused_and_not_taken_for_empty(published, monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    folder = published(run_line())
    assert main(["--check", "--published", str(folder)]) == 2
    assert f"--published={folder}: cannot be read" in capsys.readouterr().err


def test_a_folder_of_records_that_is_not_there_is_said(report, tmp_path):
    assert f"--published={tmp_path / 'none'}: no such folder" in report("plan=table10")[2]
