"""Run the `demur` command: the command table, the parser, and how errors are reported.

Exit statuses are part of the contract: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context,
5 constrained, 6 could not judge.
"""

import argparse
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, cast

from demur.cli.terminal import Paint, print_problem
from demur.errors import DemurError, InputError
from demur.version import __version__

if TYPE_CHECKING:
    from io import TextIOWrapper


STATUSES = "exit: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context, 5 constrained, 6 unjudged"


class Arguments:
    """Adds arguments to a parser or a group; a call adds one.

    The `spec` of an argument is its name and its value, as in a synopsis. `--json` is a flag,
    `--out FILE` takes a value, and `--pin FILE ...` is repeatable. `file [FILE]` is positional
    and optional, `paths PATH...` takes one or more, `ids [ID...]` any number. A value has the
    type of its default, if that is a number.
    """

    def __init__(self, parser: "argparse._ActionsContainer") -> None:
        self.parser: Any = parser

    def __call__(self, spec: str, help_text: str | None = None, **more: Any) -> None:
        """Add an argument; `more` goes to argparse."""
        name, _, value = spec.partition(" ")
        if not name.startswith("-"):
            optional, many = value.startswith("["), "..." in value
            value = value.strip("[]").removesuffix("...")
            if optional or many:
                more["nargs"] = "?" if not many else "*" if optional else "+"
        elif value.endswith("..."):
            more = {"action": "append", "default": [], **more}
            value = value.removesuffix("...").rstrip()
        elif not value and not more:
            more["action"] = "store_true"
        if value:
            more["metavar"] = value
            if isinstance(more.get("default"), int | float):
                more.setdefault("type", type(more["default"]))
        self.parser.add_argument(name, help=help_text, **more)

    def epilog(self, text: str) -> None:
        """Set the text below the help."""
        self.parser.epilog = text

    def either(self, *, required: bool = False) -> Self:
        """Return a group of arguments that exclude each other."""
        return type(self)(self.parser.add_mutually_exclusive_group(required=required))

    def group(self, title: str) -> Self:
        """Return a group of arguments with a title in the help."""
        return type(self)(self.parser.add_argument_group(title))


class CliCommand(NamedTuple):
    """One command: its name, where its functions are (`module[:NAME]`), and its summary."""

    name: str
    module: str
    summary: str


class CommandHandler(NamedTuple):
    """The functions of a command: one adds its arguments, the other runs it."""

    configure: Callable[[Arguments], None]
    run: Callable[[Namespace], int]


_TABLE = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))
# The module of a command is imported only when the command is chosen, so that it starts fast.
COMMANDS = tuple(CliCommand(*row) for row in _TABLE["commands"])
GROUPS: dict[str, str] = _TABLE["groups"]


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser, with the arguments of the command that `words` choose (None: of all)."""
    parser = argparse.ArgumentParser(
        prog="demur", description="The refusal contract for AI agents.", epilog=STATUSES
    )
    parser.add_argument("--version", action="version", version=f"demur {__version__}")
    top = parser.add_subparsers(metavar="COMMAND")
    groups = {
        name: top.add_parser(name, help=summary, description=summary).add_subparsers(
            metavar="COMMAND", required=True
        )
        for name, summary in GROUPS.items()
    }
    for command in COMMANDS:
        group, _, leaf = command.name.rpartition(" ")
        place = groups[group] if group else top
        child = place.add_parser(leaf, help=command.summary, description=command.summary)
        names = command.name.split()
        if words is None or list(words[: len(names)]) == names:
            handler = _load_command(command)
            handler.configure(Arguments(child))
            child.set_defaults(run=handler.run)
    return parser


def _load_command(command: CliCommand) -> CommandHandler:
    """Import the module of a command, and return its `configure_NAME` and `run_NAME`.

    A command that is an object, `module:OBJECT`, has them as methods `configure` and `run`.
    """
    location, _, part = command.module.partition(":")
    module = import_module(location)
    if part:
        handler = getattr(module, part)
        return CommandHandler(handler.configure, handler.run)
    name = command.name.replace(" ", "_").replace("-", "_")
    return CommandHandler(getattr(module, f"configure_{name}"), getattr(module, f"run_{name}"))


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
        print_problem(paint, None, paint("error:", "bold", "red"), text, problem.help)
    return 1


def run() -> NoReturn:
    """Run the command line of this process and exit with its status."""
    # A console that cannot encode a character shows its escape instead of raising.
    cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    sys.exit(main())
