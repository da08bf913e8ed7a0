"""A corpus is the same pairs of lines however its files were saved; what cannot be read is named."""

import gzip
import lzma
import re

import pytest
from corpora import training_text

from rmsrepro.data.parallel import lines as lines_module
from rmsrepro.data.parallel.lines import examine, read_lines
from rmsrepro.errors import DataError

NO_LINE_ENDS = ["a\u2028b", "a\u2029b", "a\x85b", "a\rb", "a\x0bb", "a\x0cb", "a\x1cb", "a\x1db", "a\x1eb"]
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("text", NO_LINE_ENDS)
def test_only_a_line_feed_ends_a_line(put, text):
    path = put("x", [text, "c"])
    assert list(read_lines([path])) == [text.encode(), b"c"]
    assert examine(path).lines == 2


def test_characters_that_look_like_line_ends_leave_pairs_aligned(put, corpus, load):
    source = [f"{text} dog" for text in NO_LINE_ENDS] + corpus["train.en"]
    put("train.en", source)
    put("train.de", ["hund"] * len(NO_LINE_ENDS) + corpus["train.de"])
    assert training_text(load())[: len(NO_LINE_ENDS)] == [(text, "hund") for text in source[: len(NO_LINE_ENDS)]]


SAVED = {
    "plain": lambda raw: raw,
    "bom": lambda raw: BOM + raw,
    "crlf": lambda raw: raw.replace(b"\n", b"\r\n"),
    "bom and crlf": lambda raw: BOM + raw.replace(b"\n", b"\r\n"),
    "no last line feed": lambda raw: raw[:-1],
    "gz": gzip.compress,
    "gz in members": lambda raw: gzip.compress(raw[:1001]) + gzip.compress(raw[1001:2002]) + gzip.compress(raw[2002:]),
    "xz": lzma.compress,
}


@pytest.mark.parametrize("how", SAVED)
def test_vocabulary_data_and_checksums_are_the_same_however_the_files_were_saved(how, put, corpus, load):
    clean = load()
    for name, content in corpus.items():
        raw = "".join(f"{line}\n" for line in content).encode()
        put(name, SAVED[how](raw))
    data = load()
    assert data.checksums() == clean.checksums()
    assert training_text(data) == training_text(clean)
    assert data.valid.sources == corpus["valid.en"]
    assert data.tests["test"].references == corpus["test.de"]
    removed = data.facts()["train"]
    assert removed["byte_order_marks_removed"] == 2 * ("bom" in how)
    assert removed["carriage_returns_removed"] == 600 * ("crlf" in how)


def test_a_byte_order_mark_inside_a_file_is_text(put):
    path = put("x", ["a", "\ufeffb"])
    assert list(read_lines([path])) == [b"a", BOM + b"b"]
    assert not examine(path).byte_order_mark


def test_blocks_of_any_size_give_the_same_lines(put, monkeypatch):
    content = ["", "ä", "", "b\rc", "x" * 50, ""]
    path = put("x", BOM + "\r\n".join(content).encode())
    expected = examine(path)
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(lines_module, "_BLOCK_BYTES", size)
        assert examine(path) == expected
        assert [line.decode() for line in read_lines([path])] == content[:-1]
    assert expected.lines == len(content) - 1


@pytest.mark.parametrize("name", ["train.en", "train.de", "valid.en", "test.de"])
def test_text_that_is_not_utf_8_is_named_with_line_and_byte(name, put, corpus, load):
    first = "".join(f"{line}\n" for line in corpus[name][:7]).encode()
    path = put(
        name, first + "caf\u00e9 x\n".encode("latin-1") + "".join(f"{line}\n" for line in corpus[name][8:]).encode()
    )
    told = f"{path} is not UTF-8: line 8, byte offset {len(first) + 3} has the byte 0xE9"
    with pytest.raises(DataError, match=re.escape(told)):
        load()


def damaged(raw: bytes) -> dict[str, bytes]:
    packed = gzip.compress(raw)
    return {"cut": packed[: len(packed) // 2], "plain": raw, "page": b"<!DOCTYPE html>", "empty": b""}


@pytest.mark.parametrize("how", ["cut", "plain", "page", "empty"])
def test_a_gz_file_that_is_none_is_one_line_that_names_it(how, put, corpus, load, tmp_path):
    (tmp_path / "data" / "c" / "train.de").unlink()
    path = put("train.de.gz", damaged("".join(f"{line}\n" for line in corpus["train.de"]).encode())[how])
    with pytest.raises(DataError, match=re.escape(str(path))) as error:
        load()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("stem", ["train", "valid", "test"])
def test_files_of_different_lengths_are_refused_with_both_counts(stem, put, corpus, load):
    lines = corpus[f"{stem}.de"]
    path = put(f"{stem}.de", lines[:-1])
    with pytest.raises(DataError, match=rf"{stem}\.en has {len(lines)} lines and .*{stem}\.de has {len(lines) - 1}:"):
        load()
    assert path.is_file()


def test_an_empty_corpus_is_refused(put, corpus, load):
    put("train.en", b"")
    put("train.de", b"")
    with pytest.raises(DataError, match=r"train\.en is empty"):
        load()
