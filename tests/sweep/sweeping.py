"""The real sweep over stand-ins for runs; run as a program, it is a sweep that can be sent signals."""

from __future__ import annotations

import sys
from pathlib import Path

from rmsrepro.sweep import cli, slurm
from rmsrepro.sweep.launcher import LocalLauncher

PROGRAM = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
BASE = ("plan=mnist", "size=tiny", "track=none", "device=cpu")


class StandIns(LocalLauncher):
    def __init__(self, slots):
        super().__init__(slots, PROGRAM)


class SubmittedStandIns(slurm.SubmititLauncher):
    def __init__(self, options, folder, **settings):
        super().__init__(options, folder, **settings, program=PROGRAM)


def main(argv):
    cli.LocalLauncher = StandIns
    slurm.SubmititLauncher = SubmittedStandIns
    return cli.main([*BASE, *argv])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
