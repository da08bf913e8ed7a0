"""An archive is parsed once: the same from every form, broken files skipped and counted, a damaged one refused."""

import os

import numpy as np
import pytest

from rmsrepro.data.cloze import cache as cache_module
from rmsrepro.data.cloze.archive import find_archive
from rmsrepro.data.cloze.cache import open_archive
from rmsrepro.errors import DataError


def texts(store, split):
    found = {}
    for row, name in enumerate(store.splits[split].names()):
        passage, question = ([store.words[i] for i in part(row)] for part in _parts(store.splits[split]))
        found[name] = (passage, question, store.words[store.splits[split].rows[row, 3]])
    return found


def _parts(split):
    return split.passage, split.question


@pytest.mark.parametrize("suffix", ["", ".tar", ".tar.gz", ".tgz", ".tar.xz"])
def test_every_form_of_an_archive_gives_the_same_questions(members, write_archive, cache, suffix):
    store = open_archive(write_archive(members, suffix), None, cache)
    assert {split: len(rows) for split, rows in store.splits.items()} == {"train": 12, "valid": 4, "test": 4}
    passage, question, answer = texts(store, "valid")["validation02"]
    assert " ".join(passage).startswith("the @entity2 met @entity3 . then")
    assert question[:4] == ["who", "left", "?", "@placeholder"]
    assert answer == "@entity2"


def test_words_are_lower_cased_and_counted_in_the_training_questions_only(make_question, write_archive, cache):
    files = {
        "x/training/a.question": make_question("The the @entity1 .", "THE @placeholder", "@entity1"),
        "x/validation/b.question": make_question("The zebra @entity1 .", "@placeholder", "@entity1"),
    }
    store = open_archive(write_archive(files), None, cache)
    counts = dict(zip(store.words, store.counts.tolist(), strict=True))
    assert counts["the"] == 3
    assert counts["@entity1"] == 2
    assert counts["zebra"] == 0


def test_a_broken_file_in_the_middle_is_skipped_and_counted(members, write_archive, cache, capsys):
    names = list(members)
    members[names[5]] = members[names[5]][:40]
    members[names[13]] = b"\xff\xfe" + members[names[13]]
    store = open_archive(write_archive(members), None, cache)
    assert len(store.splits["train"]) == 11
    assert "training05" not in store.splits["train"].names()
    assert "training06" in store.splits["train"].names()
    assert store.facts["train"]["broken"] == 1
    assert store.facts["valid"]["broken"] == 1
    said = capsys.readouterr().err
    assert "2 broken of 20 questions skipped" in said
    assert "train/training05.question: line 5" in said


def test_an_archive_with_more_than_a_tenth_broken_is_refused(members, write_archive, cache):
    for name in list(members)[:3]:
        members[name] = b"something else\n"
    with pytest.raises(DataError, match=r"3 of 20 questions are broken, such as train/training00\.question"):
        open_archive(write_archive(members), None, cache)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_an_archive_cut_short_is_refused_and_leaves_nothing(members, write_archive, cache, suffix, share):
    path = write_archive(members, suffix)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"cut short|no whole tar archive|no questions|is named"):
        open_archive(path, None, cache)
    assert not list(cache.glob("*-v*"))


def test_an_error_page_saved_as_an_archive_is_refused(tmp_path, cache):
    path = tmp_path / "small.tgz"
    path.write_text("<!DOCTYPE html><title>404</title>" * 40)
    with pytest.raises(DataError, match=r"small\.tgz is no whole tar archive .*error page"):
        open_archive(path, None, cache)


def test_questions_outside_the_folders_of_splits_are_left_out_or_refused(members, write_archive, cache, capsys):
    odd = {"small/questions/extra/x.question": members.pop("small/questions/test/test03.question")}
    open_archive(write_archive({**members, **odd}), None, cache)
    assert "1 questions outside the folders training, validation, test are left out" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"no questions in folders called .*1 \.question files outside"):
        open_archive(write_archive(odd), None, cache)


def test_what_a_mac_packs_beside_each_file_is_no_question(members, write_archive, cache):
    shadows = {name.replace("training0", "._training0"): b"\0\5\26\7" for name in members if "training0" in name}
    store = open_archive(write_archive({**members, **shadows}), None, cache)
    assert len(store.splits["train"]) == 12
    assert "broken" not in store.facts["train"]


def test_answers_that_no_passage_has_and_entities_named_twice_are_counted(make_question, write_archive, cache):
    files = {
        "x/training/a.question": make_question("see @entity1 .", "@placeholder", "@entity1", "@entity1:A\n@entity1:B"),
        "x/training/b.question": make_question("see @entity1 .", "@placeholder", "@entity9", "@entity1:A: B"),
    }
    facts = open_archive(write_archive(files), None, cache).facts["train"]
    assert facts["answer_not_in_passage"] == 1
    assert facts["duplicate_entities"] == 1


def test_the_second_start_reads_neither_archive_nor_questions(members, write_archive, cache, monkeypatch):
    path = write_archive(members)
    first = open_archive(path, None, cache)
    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "checksum", lambda path: pytest.fail(f"{path} is read"))
        patched.setattr(cache_module, "parse_archive", lambda path, *rest: pytest.fail(f"{path} is parsed"))
        second = open_archive(path, None, cache)
    assert second.sha256 == first.sha256
    assert texts(second, "train") == texts(first, "train")
    assert isinstance(second.splits["train"].tokens, np.memmap)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(b"\0" * path.stat().st_size)
    os.utime(path, ns=times)
    with pytest.raises(DataError):
        open_archive(path, None, cache)


@pytest.mark.parametrize("suffix", ["", ".tar.gz"])
def test_a_changed_archive_is_parsed_anew(members, write_archive, cache, suffix):
    before = open_archive(write_archive(members, suffix), None, cache)
    more = members["small/questions/training/training00.question"]
    path = write_archive({**members, "small/questions/training/new.question": more}, suffix)
    after = open_archive(path, None, cache)
    assert len(after.splits["train"]) == len(before.splits["train"]) + 1
    assert after.sha256 != before.sha256


def test_sentences_dropped_with_their_answer_are_counted(make_question, write_archive, cache):
    passage = "@entity1 slept . rain fell on @entity2 . @entity3 voted ."
    files = {
        "x/training/a.question": make_question(passage, "rain fell , says @placeholder", "@entity1"),
        "x/training/b.question": make_question(passage, "@placeholder voted", "@entity3"),
    }
    path = write_archive(files)
    cut = open_archive(path, 1, cache)
    assert texts(cut, "train")["a"][0] == ["rain", "fell", "on", "@entity2", "."]
    assert texts(cut, "train")["b"][0] == ["@entity3", "voted", "."]
    assert cut.facts["train"]["answer_dropped_with_its_sentence"] == 1
    assert open_archive(path, None, cache).facts["train"]["answer_not_in_passage"] == 0


def test_a_cache_that_cannot_be_written_is_named_with_what_to_set(members, write_archive, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/cache cannot be written: .*RMSREPRO_CACHE"):
        open_archive(write_archive(members), None, tmp_path / "file" / "cache")


@pytest.mark.parametrize("place", ["cloze/small.tar.gz", "small.tgz", "cloze/small/questions/test/x.question"])
def test_an_archive_is_found_below_the_root_in_each_form(tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("")
    found = find_archive(tmp_path, "small")
    assert found is not None
    assert (tmp_path / place).is_relative_to(found)
    assert find_archive(tmp_path, "other") is None
