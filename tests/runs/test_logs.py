import io
import logging
import sys
from pathlib import Path

import pytest

from rmsrepro.runs.logs import setup_run_logging


@pytest.fixture
def logger(tmp_path):
    logger = setup_run_logging(tmp_path / "log")
    yield logger
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True


def test_everything_is_in_the_log_and_warnings_on_stderr(logger, tmp_path, capsys):
    logging.getLogger("rmsrepro.train").info("step 1")
    logging.getLogger("rmsrepro.train").warning("ouch")
    assert capsys.readouterr().err == "WARNING: ouch\n"
    text = (tmp_path / "log").read_text()
    assert "INFO rmsrepro.train: step 1" in text
    assert "WARNING rmsrepro.train: ouch" in text


def test_the_next_run_in_a_process_gets_its_own_log(logger, tmp_path):
    logger.info("first")
    assert setup_run_logging(tmp_path / "log2") is logger
    logger.info("second")
    assert "second" not in (tmp_path / "log").read_text()
    assert "first" not in (tmp_path / "log2").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_with_one_line(logger, capsys):
    setup_run_logging("/dev/full")
    logger.info("one")
    logger.info("two")
    err = capsys.readouterr().err
    assert err.splitlines() == ["WARNING: cannot write /dev/full (No space left on device); logging to it stops"]


def test_warnings_follow_a_replaced_stderr(logger, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    logger.warning("beside the bar")
    assert shown.getvalue() == "WARNING: beside the bar\n"
