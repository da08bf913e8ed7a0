"""The command `python -m rmsrepro`: one run, or with -m one run after another, each in a fresh process.

Exit 0: done. 1: the run failed, with its traceback in the run's log. 2: the configuration or the data is at fault,
said in one line. 130 and 143: interrupted, after a checkpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rmsrepro.errors import ConfigError, UserError, fail


def entry() -> None:
    """Run the command line and leave with its exit code."""
    _open_closed_streams()
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the run takes the signal over; there is nothing to save yet.
        print("interrupted: before the first step", file=sys.stderr)
        code = 130
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Run `argv` and return the exit code."""
    overrides, flags = _split(argv)
    try:
        if not flags:
            return _run(overrides)
        if flags == ["--cfg=job"]:
            return _show_config(overrides)
        if flags == ["--multirun"] and not any("hydra/" in override for override in overrides):
            from rmsrepro import multirun

            return multirun.run(overrides)
        if "--multirun" in flags and any(flag.startswith("--cfg") for flag in flags):
            raise ConfigError("-m and --cfg: name one job of the sweep without -m to see its configuration")
        return _hydra(argv, overrides)
    except UserError as error:
        return fail(error)
    except BrokenPipeError:
        # The reader of our output has gone, as `... | head` does; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from rmsrepro import cli_errors

        if cli_errors.is_usage_error(error):
            return fail(cli_errors.one_line(error, overrides))
        if not isinstance(error, OSError):
            raise
        print(f"failed: {error}", file=sys.stderr)
        return 1


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell overrides from flags; flags come back in their long form, with the word that belongs to them."""
    overrides, flags = [], []
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            overrides.append(word)
        elif word in ("-c", "--cfg"):
            flags.append(f"--cfg={next(words, '')}")
        elif word in ("-m", "--multirun"):
            flags.append("--multirun")
        else:
            flags.append(word)
    return overrides, flags


def _open_closed_streams() -> None:
    """Give a process that was started with closed streams /dev/null instead, before a file takes their numbers."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w"))


def _run(overrides: list[str]) -> int:
    from rmsrepro.compose import compose_config

    config = compose_config(overrides)
    from rmsrepro.train.place import run_directory, say_done

    # A run that is done is named at once; torch alone takes seconds to import.
    rundir = run_directory(config)
    if not config.runs.overwrite and "WORLD_SIZE" not in os.environ and rundir.is_done():
        return say_done(rundir, config)
    from rmsrepro.train.run import train

    return train(config, overrides)


def _show_config(overrides: list[str]) -> int:
    from dataclasses import asdict

    from omegaconf import OmegaConf

    from rmsrepro.compose import compose_config

    print(OmegaConf.to_yaml(asdict(compose_config(overrides))), end="")
    return 0


def _hydra(argv: Sequence[str], overrides: list[str]) -> int:
    """Let Hydra serve --help, --info, shell completion, other launchers and its other flags."""
    import hydra
    from hydra._internal.utils import get_args_parser
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig

    from rmsrepro.compose import finish, register_defaults
    from rmsrepro.conf import conf_dir
    from rmsrepro.overrides import check_overrides

    parser = get_args_parser()
    try:
        parser.exit_on_error = False
        _, unknown = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise ConfigError(f"{error}; --help lists what there is") from error
    if unknown:
        raise ConfigError(f"{unknown[0]}: no such flag; --help lists what there is")
    check_overrides([override for override in overrides if "=" in override or override.startswith("~")])
    # Hydra then raises its errors instead of printing them over many lines.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_defaults()
    codes: list[int] = []

    @hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")
    def job(cfg: DictConfig) -> int:
        from rmsrepro.train.run import train

        chosen = list(HydraConfig.get().overrides.task)
        codes.append(train(finish(cfg, chosen), chosen))
        return codes[-1]

    previous = sys.argv
    sys.argv = [previous[0], *argv]
    try:
        job()
    finally:
        sys.argv = previous
    return max(codes, default=0)
