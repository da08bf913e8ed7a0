"""Reading text: the same lines however the file was saved, and a plain word about files that are no text."""

import gzip
import lzma

import pytest

from rmsrepro.data.text import read_text
from rmsrepro.errors import DataError

WORDS = "the cat sat\non the mat\n"


@pytest.mark.parametrize(
    "saved",
    [
        WORDS.encode(),
        WORDS.encode("utf-8-sig"),
        WORDS.replace("\n", "\r\n").encode(),
        WORDS.replace("\n", "\r\n").encode("utf-8-sig"),
        WORDS.removesuffix("\n").encode(),
        gzip.compress(WORDS.encode()),
        gzip.compress(WORDS[:9].encode()) + gzip.compress(WORDS[9:].encode()),
        lzma.compress(WORDS.encode("utf-8-sig")),
    ],
    ids=["plain", "bom", "crlf", "bom+crlf", "no last newline", "gz", "two gz members", "xz"],
)
def test_lines_and_checksum_do_not_depend_on_how_the_file_was_saved(tmp_path, saved):
    (tmp_path / "plain.txt").write_bytes(WORDS.encode())
    (tmp_path / "saved.txt").write_bytes(saved)
    plain, text = read_text(tmp_path / "plain.txt"), read_text(tmp_path / "saved.txt")
    assert (text.lines, text.sha256, text.size) == (["the cat sat", "on the mat"], plain.sha256, len(WORDS))


def test_lines_end_at_line_feeds_only_and_blank_ones_count(tmp_path):
    (tmp_path / "t.txt").write_text("a\u2028b\x0cc\x85d\n\n e\ufeff \n", newline="", encoding="utf-8")
    assert read_text(tmp_path / "t.txt").lines == ["a\u2028b\x0cc\x85d", "", " e\ufeff "]


def test_bytes_that_are_not_utf8_are_named_with_line_and_offset(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"one\ntwo caf\xe9 three\n")
    with pytest.raises(DataError, match=r"latin1\.txt is not UTF-8: line 2, byte offset 11 has the byte 0xE9"):
        read_text(path)


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_word_is_refused(tmp_path, content):
    (tmp_path / "empty.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"empty\.txt is empty"):
        read_text(tmp_path / "empty.txt")


def test_a_cut_or_wrongly_named_gzip_file_is_refused(tmp_path):
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(WORDS.encode() * 500)[:60])
    (tmp_path / "plain.txt.gz").write_bytes(WORDS.encode())
    with pytest.raises(DataError, match=r"cut\.txt\.gz is damaged or cut short"):
        read_text(tmp_path / "cut.txt.gz")
    with pytest.raises(DataError, match=r"plain\.txt\.gz is named \.gz but is not"):
        read_text(tmp_path / "plain.txt.gz")
