"""Run the `demur` command: parse, call, report errors, return the exit status."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from demur.cli.commands import build_parser
from demur.cli.terminal import Paint
from demur.errors import DemurError, InputError, one_line

if TYPE_CHECKING:
    from io import TextIOWrapper

__all__ = ["main", "run"]

INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words)
    args = parser.parse_args(words)
    if "run" not in args:
        parser.print_help()
        return 2
    try:
        status = cast("int", args.run(args))
        # Flush here, so that a closed pipe raises while the handlers below can still catch it.
        sys.stdout.flush()
    except DemurError as error:
        return _report_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. Scripts must not take that for success.
        _close_output()
        return CLOSED_PIPE
    except OSError as error:
        reason = str(error.strerror or error).lower()
        if error.filename is None:
            _close_output()
        return _report_error(InputError(reason, where=str(error.filename or "output")))
    return status


def _close_output() -> None:
    """Redirect standard output to devnull, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: DemurError) -> int:
    paint = Paint(sys.stderr)
    for problem in error.problems:
        text = f"{problem.where}: {problem.problem}" if problem.where else problem.problem
        print(f"{paint('error:', 'bold', 'red')} {one_line(text)}", file=sys.stderr)
        if problem.help:
            print(f"  {paint('help:', 'cyan')} {one_line(problem.help)}", file=sys.stderr)
    return 1


def run() -> NoReturn:
    """Run the command line of this process and exit with its status."""
    # A console that cannot encode a character shows its escape instead of raising.
    cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    sys.exit(main())
