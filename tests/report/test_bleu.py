import json

import pytest
from made_up import result

from rmsrepro.report.cli import main

GOOD = ["the cat sat on the mat today", "a dog ran in the park fast"] * 10
WORSE = ["the cat sat on a mat today", "the dog ran in park fast"] * 10


def translated(folder, hypotheses, references=GOOD, tokenizer="13a", **changes):
    """Lay out what the command reads of a finished translation run."""
    folder.mkdir()
    scores = {name: {"bleu_signature": f"nrefs:1|tok:{tokenizer}"} for name in ("valid", "newstest2014")}
    content = result(task="transformer", data="wmt14_en_de", facts={"scores": scores}, **changes)
    (folder / "result.json").write_text(json.dumps(content))
    (folder / "translations.newstest2014.txt").write_text("".join(f"{line}\n" for line in hypotheses))
    if references:
        (folder / "references.newstest2014.txt").write_text("".join(f"{line}\n" for line in references))
    return str(folder)


def test_the_translations_of_runs_are_tested_against_the_first_runs(tmp_path, capsys):
    runs = [translated(tmp_path / "a", GOOD), translated(tmp_path / "b", WORSE), translated(tmp_path / "c", GOOD)]
    assert main(["bleu", *runs]) == 0
    title, _, first, worse, same, _ = capsys.readouterr().out.splitlines()
    assert title.startswith("newstest2014, 20 sentences; nrefs:1")
    assert "tok:13a" in title
    assert first.split() == ["100.00", "base", "base", runs[0]]
    assert all(float(p) < 0.05 for p in worse.split()[1:3])
    assert same.split()[1:3] == ["1.0000", "1.0000"]


def test_text_that_runs_scored_as_it_is_is_compared_as_it_is(tmp_path, capsys):
    runs = [translated(tmp_path / name, GOOD, tokenizer="none") for name in "ab"]
    assert main(["bleu", *runs, "--set", "newstest2014"]) == 0
    assert "tok:none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"references": WORSE}, "(references); compare runs of one test set"),
        ({"tokenizer": "none"}, "(tokenized); compare runs of one test set"),
        ({"hypotheses": GOOD[1:]}, "19 translations for 20 references"),
        ({"references": []}, "cannot be read (No such file or directory); repeat the run, or give --references FILE"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_in_one_line(tmp_path, capsys, change, words):
    runs = [translated(tmp_path / "a", GOOD), translated(tmp_path / "b", **({"hypotheses": GOOD} | change))]
    assert main(["bleu", *runs]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("facts", [None, "none", {"scores": ["newstest2014"]}])
def test_a_run_whose_facts_name_no_scores_is_refused_in_one_line(tmp_path, capsys, facts):
    runs = [translated(tmp_path / name, GOOD) for name in "ab"]
    path = tmp_path / "b" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"facts": facts}))
    assert main(["bleu", *runs]) == 2
    assert capsys.readouterr().err.startswith(f"error: {runs[1]}: a run of transformer translates nothing")


def test_runs_that_kept_no_references_are_scored_against_a_given_file(tmp_path, capsys):
    runs = [translated(tmp_path / name, text, references=[]) for name, text in (("a", GOOD), ("b", WORSE))]
    (tmp_path / "given").write_text("\n".join(GOOD))
    assert main(["bleu", *runs, "--references", str(tmp_path / "given")]) == 0
    assert "100.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "words"),
    [(["a"], "two runs or more"), (["a", "a"], "each once"), (["a", "none"], "there is no result.json")],
)
def test_two_finished_runs_are_needed(tmp_path, capsys, names, words):
    translated(tmp_path / "a", GOOD)
    assert main(["bleu", *(str(tmp_path / name) for name in names)]) == 2
    assert words in capsys.readouterr().err


def test_runs_of_other_tasks_are_refused(tmp_path, capsys):
    for name in "ab":
        (tmp_path / name).write_text(json.dumps(result()))
    assert main(["bleu", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a run of cifar10 translates nothing" in capsys.readouterr().err
