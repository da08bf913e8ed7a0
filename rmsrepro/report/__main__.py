"""`python -m rmsrepro.report`: the paper's tables beside ours, from records and runs; computes nothing new."""

from __future__ import annotations

import sys

from rmsrepro.report.cli import main

sys.exit(main(sys.argv[1:]))
