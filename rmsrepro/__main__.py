"""`python -m rmsrepro`."""

from rmsrepro.cli import entry

entry()
