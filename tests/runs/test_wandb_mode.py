import pytest

from rmsrepro.errors import ConfigError
from rmsrepro.runs.wandb_mode import has_api_key, resolve_mode

NOWHERE = {"NETRC": "/nowhere/netrc"}
KEY = {**NOWHERE, "WANDB_API_KEY": "0" * 40}


@pytest.mark.parametrize(
    ("mode", "environment", "expected"),
    [
        ("auto", NOWHERE, "offline"),
        ("auto", KEY, "online"),
        ("auto", {**KEY, "WANDB_MODE": "offline"}, "offline"),
        ("auto", {**KEY, "WANDB_MODE": "dryrun"}, "offline"),
        ("auto", {**KEY, "WANDB_MODE": "Disabled"}, "disabled"),
        ("online", {**KEY, "WANDB_MODE": "offline"}, "online"),
        ("offline", KEY, "offline"),
        ("disabled", KEY, "disabled"),
    ],
)
def test_the_mode_follows_the_setting_then_the_variable_then_the_key(mode, environment, expected):
    assert resolve_mode(mode, environment) == (expected, None)


@pytest.mark.parametrize(
    ("mode", "environment", "word"),
    [
        ("online", NOWHERE, "WANDB_API_KEY"),
        ("auto", {**NOWHERE, "WANDB_MODE": "online"}, "WANDB_API_KEY"),
        ("auto", {**KEY, "WANDB_MODE": "sometimes"}, "'sometimes'"),
    ],
)
def test_a_wish_that_cannot_be_met_is_offline_with_the_reason(mode, environment, word):
    resolved, reason = resolve_mode(mode, environment)
    assert resolved == "offline"
    assert word in reason


def test_an_unknown_setting_is_the_users_error():
    with pytest.raises(ConfigError, match=r"^track\.mode: got 'on', allowed are auto, online, offline"):
        resolve_mode("on", {})


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"machine api.wandb.ai\n login user\n password " + b"0" * 40 + b"\n", True),
        (b"machine wandb.example:8080 login user password " + b"0" * 40 + b"\n", True),
        (b"machine github.com login user password x\n", False),
        (b"machine api.wandb.ai login", False),
        (b"\xff\xfe\x00 garbage", False),
        (b"", False),
    ],
)
def test_a_key_is_found_in_netrc_and_a_broken_file_counts_as_none(tmp_path, content, found):
    (tmp_path / "netrc").write_bytes(content)
    assert has_api_key({"NETRC": str(tmp_path / "netrc")}, "https://wandb.example:8080") is found
