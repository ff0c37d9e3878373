"""`python -m demur` is the `demur` command."""

from demur.cli import run

run()
