"""`python -m rmsrepro.sweep`."""

import sys

from rmsrepro.sweep.cli import main

sys.exit(main(sys.argv[1:]))
