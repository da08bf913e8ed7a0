"""Parallel data sets by name: which files they are, what may be missing, and where missing ones come from."""

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from corpora import sentences

from rmsrepro.data.fetch import SourceUnavailable
from rmsrepro.data.parallel import hub, multi30k
from rmsrepro.data.parallel.catalog import parallel_data_set
from rmsrepro.data.parallel.data import PairOptions, load_pairs
from rmsrepro.data.parallel.file_pairs import MissingFileError
from rmsrepro.data.parallel.hub import write_pairs
from rmsrepro.data.registry import get_data_set
from rmsrepro.data.root import ENVIRONMENT_VARIABLE
from rmsrepro.errors import ConfigError, DataError

ENGLISH_GERMAN = ("en", "de")
FILES = {
    "multi30k": (["train"], "val", {"test_2016_flickr": "test_2016_flickr"}),
    "wmt14_en_de": (
        ["train"],
        "newstest2013",
        {name: name for name in ("newstest2014", "newstest2014_full", "newstest2017")},
    ),
    "wmt14_sample": (["train"], "val", {"test": "test"}),
    "libreoffice_help": (["train"], "valid", {"test": "test"}),
    "newstest": (
        ["news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012"],
        "newstest2013",
        {"newstest2014_full": "newstest2014"},
    ),
}


def put_all(folder: Path, stems: list[str]) -> None:
    folder.mkdir(parents=True)
    for seed, stem in enumerate(stems):
        for language in ENGLISH_GERMAN:
            text = "".join(f"{line}\n" for line in sentences(language, 60, seed))
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def offline(monkeypatch):
    """No source answers."""

    def unavailable(*arguments, **options):
        raise SourceUnavailable("no answer")

    monkeypatch.setattr(hub, "read_url", unavailable)
    monkeypatch.setattr(hub, "_must_answer", unavailable)
    monkeypatch.setenv("SACREBLEU", "/nowhere")


@pytest.mark.parametrize("name", FILES)
def test_a_data_set_is_read_from_its_folder_below_the_data_root(name, tmp_path):
    train, valid, tests = FILES[name]
    put_all(tmp_path / "data" / name, [*train, valid, *tests.values()])
    data = load_pairs(name, tmp_path / "data", PairOptions(vocabulary=310), tmp_path / "cache")
    assert len(data.train) == 60 * len(train)
    assert data.valid.name == valid
    assert list(data.tests) == list(tests)
    assert data.valid.sources == sentences("en", 60, len(train))
    assert data.tokenized == (name == "wmt14_sample")
    assert {f"{train[-1]}.de", f"{valid}.en", "subwords.model"} < set(data.checksums())


@pytest.mark.parametrize("name", FILES)
def test_a_test_set_that_is_not_there_is_no_error(name, tmp_path, offline):
    train, valid, _ = FILES[name]
    put_all(tmp_path / "data" / name, [*train, valid])
    data = load_pairs(name, tmp_path / "data", PairOptions(vocabulary=310), tmp_path / "cache")
    assert data.tests == {}


def test_a_test_set_with_one_side_only_is_left_out_and_its_missing_file_named(tmp_path, capsys):
    put_all(tmp_path / "mine", ["train", "valid", "test"])
    (tmp_path / "mine" / "test.de.gz").unlink()
    data = load_pairs("parallel", tmp_path, PairOptions(vocabulary=310, folder="mine"), tmp_path / "cache")
    assert data.tests == {}
    assert f"going on without the test set test: {tmp_path}/mine/test.de is not there" in capsys.readouterr().err


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_training_or_development_file_that_is_not_there_is_named_in_one_line(name, split, tmp_path, offline):
    train, valid, _ = FILES[name]
    put_all(tmp_path / "data" / name, [*train, valid])
    stem = train[-1] if split == "train" else valid
    (tmp_path / "data" / name / f"{stem}.de.gz").unlink()
    with pytest.raises(MissingFileError, match=rf"{name}/{stem}\.de is not there.*data\.root") as error:
        load_pairs(name, tmp_path / "data", PairOptions(vocabulary=310), tmp_path / "cache")
    assert "\n" not in str(error.value)


def test_files_of_ones_own_are_named_by_folder_and_stems(tmp_path):
    put_all(tmp_path / "elsewhere" / "mine", ["corpus.clean", "dev", "final"])
    options = PairOptions(vocabulary=310, folder="mine", train_stem="corpus.clean", valid_stem="dev", test_stem="final")
    for root, folder in [(tmp_path / "elsewhere", "mine"), (tmp_path, str(tmp_path / "elsewhere" / "mine"))]:
        data = load_pairs("parallel", root, replace(options, folder=folder), tmp_path / "cache")
        assert (len(data.train), data.valid.name, list(data.tests)) == (60, "dev", ["final"])
    with pytest.raises(DataError, match=r"mine/other\.en is not there .*task\.train_stem"):
        load_pairs("parallel", tmp_path / "elsewhere", replace(options, train_stem="other"), tmp_path / "cache")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"source": "de"}, "two different"),
        ({"max_length": 0}, r"task\.max_length=0"),
        ({"limit_pairs": -1}, r"task\.limit_pairs=-1"),
        ({"vocabulary": 0}, r"task\.vocabulary=0"),
    ],
)
def test_options_that_no_corpus_can_have_are_refused(options, told):
    with pytest.raises(ConfigError, match=told):
        PairOptions(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"test_stem": "../b/test"}, r"task\.test_stem=\.\./b/test: .*task\.folder"),
        ({"valid_stem": "b/dev"}, r"task\.valid_stem=b/dev: .*task\.folder"),
        ({"valid_stem": "dev", "test_stem": "dev"}, r"task\.test_stem=dev: is the development set too.*without a test"),
        ({"valid_stem": "dev", "test_stem": "valid"}, r"task\.test_stem=valid: .*another name"),
    ],
)
def test_stems_under_which_nothing_could_be_reported_are_refused(options, told, tmp_path):
    with pytest.raises(ConfigError, match=told):
        load_pairs("parallel", tmp_path, PairOptions(**options), tmp_path / "cache")


def test_a_name_that_is_no_parallel_data_set_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(ConfigError, match=r"data=mnist .*libreoffice_help, multi30k"):
        load_pairs("mnist", tmp_path, PairOptions(), tmp_path)


def test_multi30k_has_a_tokenised_variant_that_is_lower_cased(tmp_path):
    stems = [f"{stem}.lc.norm.tok" for stem in ("train", "val", "test_2016_flickr")]
    put_all(tmp_path / "multi30k", stems)
    options = PairOptions(vocabulary=310, lowercase=True, tokenized=True)
    data = load_pairs("multi30k", tmp_path, options, tmp_path / "cache")
    assert data.tokenized
    assert (data.valid.name, list(data.tests)) == ("val", ["test_2016_flickr"])
    with pytest.raises(ConfigError, match=r"task\.lowercase=true"):
        parallel_data_set("multi30k", PairOptions(tokenized=True))


def test_the_full_newstest2014_is_not_reported_as_the_filtered_one(tmp_path, offline):
    folder = tmp_path / "wmt14_en_de"
    put_all(folder, ["train", "newstest2013"])
    for count, name in [(3003, "newstest2014_full"), (2737, "newstest2014"), (60, "newstest2014")]:
        for language in ENGLISH_GERMAN:
            (folder / f"newstest2014.{language}").write_text("a\n" * count)
        data = load_pairs("wmt14_en_de", tmp_path, PairOptions(vocabulary=310), tmp_path / "cache")
        assert list(data.tests) == [name]


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        ({"newstest2014": 2737, "newstest2014_full": 3003}, {"newstest2014": 2737, "newstest2014_full": 3003}),
        ({"newstest2014": 3003, "newstest2014_full": 3003}, {"newstest2014_full": 3003}),
        ({"newstest2014": 3003, "newstest2014_full": 2737}, {"newstest2014": 2737, "newstest2014_full": 3003}),
        ({"newstest2014_full": 2737}, {"newstest2014": 2737}),
    ],
)
def test_each_variant_of_newstest2014_is_reported_once_under_its_own_name(lines, reported, tmp_path, offline):
    folder = tmp_path / "wmt14_en_de"
    put_all(folder, ["train", "newstest2013"])
    for stem, count in lines.items():
        for language in ENGLISH_GERMAN:
            (folder / f"{stem}.{language}").write_text("a\n" * count)
    data = load_pairs("wmt14_en_de", tmp_path, PairOptions(vocabulary=310), tmp_path / "cache")
    assert {name: len(sentences) for name, sentences in data.tests.items()} == reported


@pytest.mark.parametrize(("count", "name"), [(3003, "newstest2014_full"), (2737, "newstest2014")])
def test_the_news_tests_alone_name_newstest2014_by_its_content_too(count, name, tmp_path, offline):
    folder = tmp_path / "newstest"
    put_all(folder, [*parallel_data_set("newstest", PairOptions()).train, "newstest2013"])
    for language in ENGLISH_GERMAN:
        (folder / f"newstest2014.{language}").write_text("a\n" * count)
    assert list(load_pairs("newstest", tmp_path, PairOptions(vocabulary=310), tmp_path / "cache").tests) == [name]
    get_data_set("newstest").check(tmp_path)


def published(monkeypatch) -> list[str]:
    """Let huggingface.co have multi30k; return what is asked for."""
    asked = []

    def pairs(repository, configuration, split, cache):
        asked.append(split)
        for en, de in zip(sentences("en", 60), sentences("de", 60), strict=True):
            yield {"de": de, "en": f"{en}\nsecond line"}

    monkeypatch.setattr(multi30k, "hub_pairs", pairs)
    return asked


def test_what_is_not_there_is_fetched_once_into_the_data_root(tmp_path, monkeypatch):
    asked = published(monkeypatch)
    for _ in range(2):
        data = load_pairs("multi30k", tmp_path / "data", PairOptions(vocabulary=310), tmp_path / "cache")
    assert asked == ["train", "validation", "test"]
    assert data.valid.sources == [f"{line} second line" for line in sentences("en", 60)]
    assert (tmp_path / "data" / "multi30k" / "val.de.gz").is_file()


def test_tokenised_multi30k_is_fetched_and_only_as_it_is_known(tmp_path, monkeypatch):
    there, known = tmp_path / "there", {}
    there.mkdir()
    for seed, stem in enumerate(("train", "val", "test_2016_flickr")):
        for language in ENGLISH_GERMAN:
            text = "".join(f"{line}\n" for line in sentences(language, 60, seed)).encode()
            name = f"{stem}.lc.norm.tok.{language}"
            (there / name).write_bytes(text)
            known[name] = (len(text), hashlib.sha256(text).hexdigest())
    monkeypatch.setattr(multi30k, "_PREPARED_FOLDER", f"{there.as_uri()}/")
    monkeypatch.setattr(multi30k, "_PREPARED_FILES", known)
    options = PairOptions(vocabulary=310, lowercase=True, tokenized=True)
    data = load_pairs("multi30k", tmp_path / "data", options, tmp_path / "cache")
    assert (len(data.train), list(data.tests)) == (60, ["test_2016_flickr"])
    (there / "val.lc.norm.tok.de").write_text("other\n" * 60)
    with pytest.raises(MissingFileError, match=r"could not be fetched.*github\.com/multi30k/dataset"):
        load_pairs("multi30k", tmp_path / "other", options, tmp_path / "cache")
    french = PairOptions(target="fr", lowercase=True, tokenized=True)
    with pytest.raises(MissingFileError, match=r"no train\.lc\.norm\.tok\.fr is known"):
        load_pairs("multi30k", tmp_path / "data", french, tmp_path / "cache")


def test_the_known_tokenised_multi30k_is_the_real_one():
    folder = Path(os.environ.get(ENVIRONMENT_VARIABLE, "nowhere")) / "multi30k"
    for name, (size, sha256) in multi30k._PREPARED_FILES.items():
        if not (folder / f"{name}.gz").is_file():
            pytest.skip("real data is not there")
        text = gzip.decompress((folder / f"{name}.gz").read_bytes())
        assert (len(text), hashlib.sha256(text).hexdigest()) == (size, sha256)


def test_a_data_root_that_cannot_be_written_gets_nothing_and_the_cache_all(tmp_path, monkeypatch):
    published(monkeypatch)
    (tmp_path / "data").write_text("a file where a folder should be: writable by nobody, root included")
    data = load_pairs("multi30k", tmp_path / "data", PairOptions(vocabulary=310), tmp_path / "cache")
    assert len(data.train) == 60
    assert list((tmp_path / "cache").rglob("train.en.gz"))


@pytest.mark.parametrize("name", ["multi30k", "wmt14_en_de"])
def test_fetching_without_a_network_is_one_line_that_says_what_to_set(name, tmp_path, offline):
    with pytest.raises(DataError, match=r"could not be fetched \(no answer\).*data\.root") as error:
        get_data_set(name).fetch(tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_with_other_counts_than_the_published_one_is_told_by_check(tmp_path):
    put_all(tmp_path / "multi30k", ["train", "val", "test_2016_flickr"])
    with pytest.raises(DataError, match=r"train\.en\.gz has 60 lines; the published train has 29000"):
        get_data_set("multi30k").check(tmp_path)


def test_pairs_are_written_both_or_none(tmp_path):
    with pytest.raises(SourceUnavailable, match="no de"):
        write_pairs([{"en": "a", "de": "b"}, {"en": "a"}], "train", ENGLISH_GERMAN, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["multi30k", "newstest", "wmt14_sample", "libreoffice_help"])
def test_the_real_files_keep_every_line(name, tmp_path):
    root = Path(os.environ.get(ENVIRONMENT_VARIABLE, "/nowhere"))
    if not (root / name).is_dir():
        pytest.skip(f"no {name} below ${ENVIRONMENT_VARIABLE}")
    counts = {"multi30k": 29_000, "newstest": 13_071, "wmt14_sample": 10_000, "libreoffice_help": 27_459}
    data = load_pairs(name, root, PairOptions(vocabulary=1000, max_length=200), tmp_path / "cache")
    facts = data.facts()["train"]
    assert facts["read"] == counts[name]
    assert facts["kept"] == len(data.train) > 0.9 * counts[name]
