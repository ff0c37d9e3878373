"""`python -m demur` is the `demur` command."""

from demur.cli.main import run

run()
