"""Run the command line inside the test's own process, with its streams caught."""

import contextlib
import io
import sys
from typing import NamedTuple

from demur.cli.main import INTERRUPTED, find_command, main

__all__ = ["Ran", "demur"]


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


def demur(*words: object, stdin: str | bytes = "") -> Ran:
    """Return how `demur words…` ends; its status must be one that the command documents."""
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(word) for word in words])
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdin = before
    command = find_command([str(word) for word in words])
    # A proxy ends with the status of its server, and any command when it is interrupted.
    if command is not None and command.name != "mcp proxy" and status != INTERRUPTED:
        assert status in command.statuses, f"`demur {command.name}` does not document {status}"
    return Ran(status, out.getvalue(), err.getvalue())
