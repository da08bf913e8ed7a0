"""Text data sets below a data root: what is there is read, what is missing is fetched or named."""

import gzip
from collections.abc import Iterable

import pytest

from rmsrepro.data import brown, ptb, wikitext2
from rmsrepro.data.canonical import Source
from rmsrepro.data.fetch import SourceUnavailable
from rmsrepro.data.files import sha256_hex
from rmsrepro.data.registry import get_data_set
from rmsrepro.data.text_set import KnownText, MissingTextError, TextDataSet, load_own_text
from rmsrepro.errors import DataError

PARTS = {"train.txt": b"a b a\nb\n", "valid.txt": b"a\n", "test.txt": b"b b\n"}
COUNTS = {"train.txt": (2, 6), "valid.txt": (1, 2), "test.txt": (1, 3)}


def known(name: str) -> KnownText:
    lines, tokens = COUNTS[name]
    return KnownText(name, len(PARTS[name]), sha256_hex(PARTS[name]), lines=lines, tokens=tokens)


def published(*, online: bool = True, has: Iterable[str] = PARTS, asked: list | None = None) -> TextDataSet:
    def files(wanted, downloads):
        if asked is not None:
            asked.append(sorted(wanted))
        if not online:
            raise SourceUnavailable("no answer")
        for name in sorted(wanted, key=list(PARTS).index):
            if name not in has:
                raise SourceUnavailable(f"{name}: not here")
            yield name, PARTS[name]

    train, valid, test = map(known, PARTS)
    return TextDataSet("small", (train, valid, test), [Source("here", files)])


def test_one_fetch_brings_all_that_is_missing_and_nothing_else(tmp_path):
    asked: list = []
    data_set = published(asked=asked)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "train.txt").write_text("mine\n")
    assert data_set.load(tmp_path, "valid").lines == ["a"]
    assert data_set.load(tmp_path, "test").lines == ["b b"]
    assert asked == [["test.txt", "valid.txt"]]
    assert (tmp_path / "small" / "train.txt").read_text() == "mine\n"


def test_a_source_that_lacks_another_split_does_not_stand_in_the_way(tmp_path):
    data_set = published(has=["train.txt", "valid.txt"])
    assert data_set.load(tmp_path, "valid").lines == ["a"]
    with pytest.raises(MissingTextError, match=r"test\.txt is not there"):
        data_set.load(tmp_path, "test")


def test_a_split_that_is_not_to_be_had_is_named_with_the_way_out(tmp_path):
    with pytest.raises(MissingTextError, match=r"small/test\.txt is not there \(nor test\.txt\.gz.*data\.root") as e:
        published(online=False).load(tmp_path, "test")
    assert "\n" not in str(e.value)


def test_own_text_is_taken_and_its_difference_is_told(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "train.txt.gz").write_bytes(gzip.compress(b"mine\n"))
    data_set = published(online=False)
    text = data_set.load(tmp_path, "train")
    assert text.lines == ["mine"]
    assert data_set.difference("train", text) == "expected 2 lines and 6 tokens, found 1 lines and 2 tokens"


def test_fetch_replaces_what_is_wrong_and_check_finds_it(tmp_path):
    data_set = published()
    data_set.fetch(tmp_path)
    (tmp_path / "small" / "valid.txt").write_bytes(b"A\n")
    with pytest.raises(DataError, match=r"valid\.txt is not the small that everybody uses: expected 2 bytes"):
        data_set.check(tmp_path)
    data_set.fetch(tmp_path)
    assert [file.size for file in data_set.check(tmp_path)] == [8, 2, 4]


def test_a_compressed_split_that_is_right_is_not_fetched_again(tmp_path):
    (tmp_path / "small").mkdir()
    for name, content in PARTS.items():
        (tmp_path / "small" / f"{name}.gz").write_bytes(gzip.compress(content.replace(b"\n", b"\r\n")))
    assert len(published(online=False).fetch(tmp_path)) == 3


def test_own_text_stands_in_a_named_folder_or_in_the_root(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "train.txt").write_text("root\n")
    (tmp_path / "mine" / "train.txt").write_text("folder\n")
    assert load_own_text(tmp_path, "mine", "train").lines == ["folder"]
    assert load_own_text(tmp_path, "other", "train").lines == ["root"]
    with pytest.raises(MissingTextError, match=r"mine/valid\.txt is not there .*task\.text"):
        load_own_text(tmp_path, "mine", "valid")


def test_brown_sentences_lose_their_tags_only():
    sample = "\n\n\tThe/at 1/2/cd ``/`` dog/nn ./.\n\n\tYes/rb\n"
    assert list(brown.sentences(sample)) == [["The", "1/2", "``", "dog", "."], ["Yes"]]


def test_brown_parts_end_where_a_sentence_ends():
    parts = brown.split_by_words([["w"] * 400_000] * 2 + [["v"] * 200_001] + [["t"]])
    assert [len(part.split()) for part in parts.values()] == [800_000, 200_001, 1]


def test_wikitext_lines_come_back_from_the_rows_of_the_hub():
    assert wikitext2.from_rows(["", " = A = \n", "", " a b . \n"]) == b" \n = A = \n \n a b . \n"


@pytest.mark.parametrize(("module", "tokens"), [(ptb, 929589), (wikitext2, 2088628), (brown, 835524)])
def test_the_corpora_are_known_by_name_and_published_counts(module, tokens):
    assert get_data_set(module.DATA_SET.name) is module.DATA_SET
    assert module.DATA_SET.texts[0].tokens == tokens
