"""The command `python -m rmsrepro`: one run, or with -m one run after another, each in a fresh process.

Exit 0: done. 1: the run failed, with its traceback in the run's log. 2: the configuration or the data is at fault,
said in one line. 130 and 143: interrupted, after a checkpoint.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rmsrepro.errors import UserError


def entry() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run `argv` and return the exit code."""
    from rmsrepro import cli_errors

    overrides = [arg for arg in argv if not arg.startswith("-")]
    try:
        flags = [arg for arg in argv if arg.startswith("-")]
        if not flags:
            return _run(overrides)
        if flags == ["--cfg"] and overrides[:1] == ["job"]:
            return _show_config(overrides[1:])
        if flags in (["-m"], ["--multirun"]) and not any("hydra/" in override for override in overrides):
            from rmsrepro import multirun

            return multirun.run(overrides)
        return _hydra(argv)
    except UserError as error:
        return fail(str(error))
    except BrokenPipeError:
        # The reader of our output has gone, as `... | head` does; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if not cli_errors.is_usage_error(error):
            raise
        return fail(cli_errors.one_line(error, overrides))


def fail(message: str) -> int:
    """Print one line about what the user can mend and return 2."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _run(overrides: list[str]) -> int:
    from rmsrepro.compose import compose_config

    config = compose_config(overrides)
    from rmsrepro.train.run import train

    return train(config, overrides)


def _show_config(overrides: list[str]) -> int:
    from dataclasses import asdict

    from omegaconf import OmegaConf

    from rmsrepro.compose import compose_config

    print(OmegaConf.to_yaml(asdict(compose_config(overrides))), end="")
    return 0


def _hydra(argv: Sequence[str]) -> int:
    """Let Hydra serve --help, --info, shell completion, other launchers and its other flags."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig

    from rmsrepro.compose import finish, register_defaults
    from rmsrepro.conf import conf_dir

    # Hydra then raises its errors instead of printing them over many lines.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_defaults()
    codes: list[int] = []

    @hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")
    def job(cfg: DictConfig) -> int:
        from rmsrepro.train.run import train

        overrides = list(HydraConfig.get().overrides.task)
        codes.append(train(finish(cfg, overrides), overrides))
        return codes[-1]

    previous = sys.argv
    sys.argv = [previous[0], *argv]
    try:
        job()
    finally:
        sys.argv = previous
    return max(codes, default=0)
