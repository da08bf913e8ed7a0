from pathlib import Path

import pytest

from rmsrepro.data.root import data_root, prepared_root
from rmsrepro.errors import ConfigError, DataError
from rmsrepro.runs.rundir import runs_root


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("RMSREPRO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RMSREPRO_CACHE", raising=False)


def test_the_configured_root_beats_the_variable_which_beats_the_cache(monkeypatch, tmp_path):
    assert data_root() == tmp_path / "cache" / "rmsrepro" / "data"
    monkeypatch.setenv("RMSREPRO_DATA", str(tmp_path / "from variable"))
    assert data_root() == tmp_path / "from variable"
    assert data_root(str(tmp_path / "Größe")) == tmp_path / "Größe"


def test_an_empty_variable_counts_as_not_set(monkeypatch, tmp_path):
    monkeypatch.setenv("RMSREPRO_DATA", "")
    assert data_root() == tmp_path / "cache" / "rmsrepro" / "data"


@pytest.mark.parametrize("launch_dir", [None, "elsewhere"])
def test_a_relative_root_is_meant_from_the_launch_directory(monkeypatch, tmp_path, launch_dir):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    start = tmp_path / launch_dir / "b" if launch_dir else None
    expected = tmp_path / launch_dir / "d" if launch_dir else tmp_path / "d"
    assert data_root("../d", launch_dir=start) == expected


def test_the_same_folder_through_a_symlink_is_the_same_root(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert data_root(str(tmp_path / "link" / "x")) == data_root(str(tmp_path / "real" / "x"))


def test_an_unwritable_cache_gives_way_to_the_fallback(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")  # not even root can write there
    assert data_root(fallback=tmp_path / "runs" / "data") == tmp_path / "runs" / "data"


def test_nowhere_to_write_names_the_setting(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(DataError, match=r"/proc/nowhere.*set data.root=DIR or RMSREPRO_DATA=DIR"):
        data_root(fallback=Path("/proc/neither"))


@pytest.mark.parametrize("by", ["data.root", "RMSREPRO_DATA"])
def test_a_file_as_root_is_refused_by_the_name_of_its_setting(monkeypatch, tmp_path, by):
    file = tmp_path / "file"
    file.touch()
    if by == "RMSREPRO_DATA":
        monkeypatch.setenv(by, str(file))
    with pytest.raises(DataError, match=f"{by} is .*file"):
        data_root(str(file) if by == "data.root" else None)


def test_prepared_data_is_kept_in_the_users_cache_whatever_the_data_root_is(monkeypatch, tmp_path):
    monkeypatch.setenv("RMSREPRO_DATA", "/proc/nowhere")
    assert prepared_root() == tmp_path / "cache" / "rmsrepro" / "prepared"
    monkeypatch.setenv("RMSREPRO_CACHE", "there")
    assert prepared_root(launch_dir=tmp_path / "b") == tmp_path / "b" / "there"


def test_prepared_data_gives_way_to_the_fallback_and_names_its_own_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert prepared_root(fallback=tmp_path / "runs" / "prepared") == tmp_path / "runs" / "prepared"
    with pytest.raises(DataError, match=r"/proc/nowhere.*set RMSREPRO_CACHE=DIR"):
        prepared_root(fallback=Path("/proc/neither"))


def test_the_folder_of_a_user_that_is_not_there_is_refused_with_the_setting_that_names_it(monkeypatch):
    with pytest.raises(ConfigError, match=r"data\.root=~no-such-user/x: ~no-such-user is no user's folder"):
        data_root("~no-such-user/x")
    with pytest.raises(ConfigError, match=r"^runs\.root=~no-such-user: "):
        runs_root("~no-such-user")
    monkeypatch.setenv("RMSREPRO_CACHE", "~no-such-user/x")
    with pytest.raises(ConfigError, match=r"^RMSREPRO_CACHE=~no-such-user/x: "):
        prepared_root()
