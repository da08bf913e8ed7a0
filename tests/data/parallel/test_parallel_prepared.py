"""What is made of a corpus is made once, by one process, whole or not at all, and goes on where it was killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from corpora import sentences, training_text

from rmsrepro.data.parallel import file_pairs, prepared, shards
from rmsrepro.data.parallel.data import PairOptions, load_pairs
from rmsrepro.errors import DataError

LOAD = """
import sys
from pathlib import Path
from rmsrepro.data.parallel import shards
from rmsrepro.data.parallel.data import PairOptions, load_pairs
if __name__ == "__main__":
    shards.SHARD_PAIRS = 40
    data = load_pairs("parallel", Path(sys.argv[1]), PairOptions(folder="c", vocabulary=340), Path(sys.argv[2]))
    print(data.checksums()["subwords.model"], len(data.train), "torch" in sys.modules)
"""


@pytest.fixture
def start(tmp_path):
    """Load the corpus `c` in a process of its own, with shards of 40 pairs."""
    script = tmp_path / "load.py"
    script.write_text(LOAD)

    def run() -> subprocess.Popen:
        command = [sys.executable, str(script), str(tmp_path / "data"), str(tmp_path / "cache")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return run


def kept_files(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def test_a_second_start_reads_no_training_text(corpus, load, monkeypatch):
    first = load()

    def never(*arguments):
        raise AssertionError("made again")

    monkeypatch.setattr(file_pairs, "examine", never)
    monkeypatch.setattr(prepared, "learn_subwords", never)
    monkeypatch.setattr(prepared, "encode_corpus", never)
    second = load()
    assert training_text(second) == training_text(first)
    assert (second.facts(), second.checksums()) == (first.facts(), first.checksums())


def test_other_text_and_other_options_are_prepared_anew(put, corpus, load):
    first = load()
    put("train.de", [*corpus["train.de"][:-1], "ein anderer hund"])
    assert training_text(load())[-1][1] == "ein anderer hund"
    assert len(load(vocabulary=330).vocabulary) == 330
    assert len(load(limit_pairs=100).train) == 100
    assert training_text(first)[-1][1] == corpus["train.de"][-1]


def test_a_file_that_changed_is_read_again(put, corpus, load):
    load()
    put("train.de", corpus["train.de"][:-1])
    with pytest.raises(DataError, match=r"300 lines and .* 299"):
        load()


def test_a_file_replaced_by_one_of_its_size_and_time_is_read_again(put, corpus, load):
    load()
    path = put("train.de", corpus["train.de"])
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    load()
    path.write_bytes(path.read_bytes().replace(b"hund", b"hand"))
    os.utime(path, ns=times)
    assert "hund" not in " ".join(target for _, target in training_text(load()))


def test_several_processes_give_what_one_gives_in_the_same_order(corpus, load, tmp_path, monkeypatch):
    alone = load()
    monkeypatch.setattr(shards, "SHARD_PAIRS", 40)
    together = load_pairs(
        "parallel", tmp_path / "data", PairOptions(folder="c", vocabulary=340), tmp_path / "another cache"
    )
    assert training_text(together) == training_text(alone)
    assert together.facts() == alone.facts()
    for side in ("source", "target"):
        assert np.array_equal(getattr(together.train, side).ids, getattr(alone.train, side).ids)


def test_shards_that_are_done_are_not_made_again(corpus, load, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_PAIRS", 40)
    monkeypatch.setattr(shards, "_encode_in_processes", _encode_then_die)
    with pytest.raises(KeyboardInterrupt):
        load()
    (work,) = tmp_path.rglob("*.shards")
    times = {path: path.stat().st_mtime_ns for path in work.iterdir()}
    assert len(times) == 3
    made = []
    monkeypatch.setattr(shards, "_encode_in_processes", _encode_here(made))
    data = load()
    assert sorted(made) == [f"{index:05d}.npz" for index in range(3, 8)]
    assert training_text(data) == list(zip(corpus["train.en"], corpus["train.de"], strict=True))
    assert not list(tmp_path.rglob("*.shards"))


def _encode_then_die(pieces, subwords, rules, workers):
    for piece, _ in zip(pieces, range(3), strict=False):
        shards._encode(piece, subwords, rules)
    raise KeyboardInterrupt


def _encode_here(made):
    def run(pieces, subwords, rules, workers):
        for piece in pieces:
            made.append(piece.path.name)
            shards._encode(piece, subwords, rules)

    return run


def test_processes_that_start_together_make_it_once_and_agree(corpus, start, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda process: process.communicate(timeout=120), [start() for _ in range(3)]))
    assert len({out for out, _ in answers}) == 1
    assert answers[0][0].endswith(" 300 False\n"), answers[0]
    assert sum("learning" in err for _, err in answers) == 1
    assert sum("encoding" in err for _, err in answers) == 1


def test_a_killed_start_leaves_nothing_that_is_taken_for_whole(corpus, start, load, tmp_path):
    for pause_s in (0.4, 0.8, 1.2, 1.6):
        process = start()
        time.sleep(pause_s)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert psutil.wait_procs(workers, timeout=20)[1] == [], "workers outlive the process that they work for"
    out, err = start().communicate(timeout=120)
    assert out.endswith(" 300 False\n"), err
    assert training_text(load()) == list(zip(corpus["train.en"], corpus["train.de"], strict=True))
    # A checksum whose writing was cut short may stay under its temporary name, which nobody reads.
    left = [name for name in kept_files(tmp_path / "cache") if not name.startswith("examined/")]
    assert not [name for name in left if "shards" in name or "merged" in name or name.endswith(".tmp")]


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY\x01"])
@pytest.mark.parametrize("name", ["subwords.json", "counts.json", "hashes.npy", "source.ids.npy", "target.offsets.npy"])
def test_a_cache_that_lost_a_file_or_its_content_is_one_line_with_the_way_out(name, content, load, corpus, tmp_path):
    load()
    (path,) = (tmp_path / "cache" / "parallel").rglob(name)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"delete (it|the file) and repeat the run"):
        load()


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_a_damaged_vocabulary_is_one_line_with_the_way_out(content, load, corpus, tmp_path):
    load()
    (path,) = (tmp_path / "cache" / "parallel").rglob("subwords.model")
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"delete it and repeat the run"):
        load()


def test_a_large_vocabulary_has_wider_ids(put, corpus, load, monkeypatch):
    monkeypatch.setattr(shards, "id_type", lambda vocabulary: np.dtype(np.int32))
    data = load()
    assert data.train.source.ids.dtype == np.int32
    assert training_text(data)[0] == (corpus["train.en"][0], corpus["train.de"][0])


def test_subwords_are_learned_from_a_bounded_sample_spread_over_the_text(put, corpus, load, monkeypatch):
    monkeypatch.setattr(prepared, "SAMPLE_PAIRS", 100)
    put("train.en", sentences("en", 301))
    put("train.de", sentences("de", 301))
    facts = load().facts()["vocabulary"]
    assert (facts["every_nth_pair"], facts["sentences"]) == (4, 2 * 76)


def test_a_cache_that_cannot_be_written_is_one_line_with_the_setting(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written: .*RMSREPRO_CACHE") as error:
        load_pairs("parallel", tmp_path / "data", PairOptions(folder="c", vocabulary=340), tmp_path / "file" / "cache")
    assert "\n" not in str(error.value)
