"""Run the `demur` command: the command table, the parser, and how errors are reported.

Exit statuses are part of the contract: 0 allowed, 1 error, 2 usage, 3 refused,
4 needs something, 5 allowed with limits, 6 could not judge.
"""

import argparse
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, cast

from demur.cli.terminal import Paint, print_problem, wrap_text
from demur.errors import DemurError, InputError
from demur.source.item import did_you_mean
from demur.version import __version__

if TYPE_CHECKING:
    from io import TextIOWrapper


STATUSES = {
    0: "allowed",
    1: "error",
    2: "usage",
    3: "refused",
    4: "needs something",
    5: "allowed with limits",
    6: "could not judge",
}
USAGE_ERROR = 2


class UsageError(InputError):
    """A command line that cannot be used: options that contradict, or a value that is unknown."""


class CommandParser(argparse.ArgumentParser):
    """A parser that ignores the case of choices, suggests likely names, and shows an example."""

    example = ""
    statuses: Mapping[int, str] = {}

    def format_help(self) -> str:
        """Return the help, with the exit statuses and the example below it."""
        parts = [super().format_help()]
        if self.statuses:
            parts.append(_list_statuses(self.statuses, "; ") + "\n")
        if self.example:
            parts.append(f"example:\n  {self.example}\n")
        return "\n".join(parts)

    def error(self, message: str) -> NoReturn:
        """Report a wrong command line, and exit."""
        self.fail(message, f"`{self.prog} --help` shows the arguments")

    def fail(self, problem: str, help_text: str) -> NoReturn:
        """Print a usage error with its help, and exit with its status."""
        sys.exit(_report_error(UsageError(problem, help=help_text)))

    @property
    def option_names(self) -> list[str]:
        """The long names of the options."""
        return [name for name in self._option_string_actions if name.startswith("--")]

    @property
    def positionals(self) -> list[argparse.Action]:
        """The arguments that are not options."""
        return [action for action in self._actions if not action.option_strings]

    def find_option(self, name: str) -> argparse.Action | None:
        """Return the option of this name, or None."""
        return self._option_string_actions.get(name)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; a command refuses what it does not know."""
        values, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            self._refuse_unknown(unknown)
        return values, unknown

    def _refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        option = next((word for word in unknown if word.startswith("-")), None)
        if option is None:
            self.fail(f"unexpected argument `{unknown[0]}`", f"see `{self.prog} --help`")
        name = option.partition("=")[0]
        meant = did_you_mean(name, self._option_string_actions)
        self.fail(f"unknown option `{name}`", meant or f"`{self.prog} --help` shows the options")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        value = super()._get_value(action, arg_string)
        if action.choices is None or isinstance(action.choices, Mapping):
            return value
        return match_choice(value, action.choices)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        if isinstance(choices, Mapping):
            self.fail(f"unknown command `{value}`", _suggest_command(self.prog, str(value)))
        name = "/".join(action.option_strings) or action.dest
        known = [str(choice) for choice in choices]
        meant = did_you_mean(str(value), known) or f"one of {', '.join(known)}"
        self.fail(f"unknown value `{value}` of {name}", meant)


def _list_statuses(statuses: Mapping[int, str], separator: str) -> str:
    meanings = separator.join(f"{status} {text}" for status, text in statuses.items())
    return wrap_text(f"exit: {meanings}")


def match_choice(value: Any, choices: Iterable[Any]) -> Any:
    """Return the choice that equals `value` but for case and `-` or `_`; else the value."""
    folded = {str(choice).casefold().replace("-", "_"): choice for choice in choices}
    return folded.get(str(value).casefold().replace("-", "_"), value)


def _suggest_command(prog: str, word: str) -> str:
    """Return the command that was probably meant; a word may be the second of a command."""
    before = prog.split()[1:]
    names = [c.name.split() for c in COMMANDS if c.name.split()[: len(before)] == before]
    same = [" ".join(name) for name in names if word in name] if not before else []
    if same:
        return f"did you mean {' or '.join(f'`demur {name}`' for name in same)}?"
    meant = did_you_mean(word, {name[len(before)] for name in names})
    return meant or f"`{prog} --help` lists the commands"


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
            if (optional or many) and "nargs" not in more:
                more["nargs"] = "?" if not many else "*" if optional else "+"
        elif value.endswith("..."):
            more = {"action": "append", "default": [], **more}
            value = value.removesuffix("...").rstrip()
        elif not value and not more:
            more["action"] = "store_true"
        if not value and more.get("choices"):
            # Choices in the usage line would be longer than a terminal is wide.
            more["metavar"] = name.lstrip("-").upper().replace("-", "_")
            choices = ", ".join(map(str, more["choices"]))
            help_text = f"{help_text}: {choices}" if help_text else f"one of {choices}"
        if value:
            more["metavar"] = value
            if isinstance(more.get("default"), int | float):
                more.setdefault("type", type(more["default"]))
        action = self.parser.add_argument(name, help=help_text, **more)
        if action.nargs == argparse.REMAINDER:
            # There may be no further words; Python before 3.12 would ask for some.
            action.required = False

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
    """One command: its name, where its functions are (`module[:NAME]`), and its help.

    `statuses` holds the meaning of each exit status.
    """

    name: str
    module: str
    summary: str
    example: str
    statuses: Mapping[int, str]

    def build_parser(self) -> CommandParser:
        """Return a parser of this command alone."""
        parser = CommandParser(prog=f"demur {self.name}")
        _load_command(self).configure(Arguments(parser))
        return parser


class CommandHandler(NamedTuple):
    """The functions of a command: one adds its arguments, the other runs it."""

    configure: Callable[[Arguments], None]
    run: Callable[[Namespace], int]


def _read_command(row: dict[str, Any]) -> CliCommand:
    meanings = {**_COMMON_STATUSES, **row.get("exit", {})}
    statuses = {int(status): meanings[status] for status in sorted(meanings, key=int)}
    return CliCommand(row["name"], row["module"], row["summary"], row["example"], statuses)


_COMMON_STATUSES = {"0": "done", "1": "an error", str(USAGE_ERROR): "usage"}
_TABLE = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))
# The module of a command is imported only when the command is chosen, so that it starts fast.
COMMANDS = tuple(map(_read_command, _TABLE["commands"]))
GROUPS: dict[str, str] = _TABLE["groups"]
SECTIONS: dict[str, list[str]] = _TABLE["sections"]


class _TopParser(CommandParser):
    """The parser of `demur` itself; its help lists the commands by section."""

    def format_help(self) -> str:
        summaries = {**{c.name: c.summary for c in COMMANDS}, **GROUPS}
        space = max(len(name) for names in SECTIONS.values() for name in names)
        lines = ["usage: demur COMMAND ...", "", self.description or ""]
        for title, names in SECTIONS.items():
            lines += ["", f"{title}:"]
            lines += [f"  {name.ljust(space)}  {summaries[name]}" for name in names]
        lines += ["", "`demur COMMAND --help` shows the arguments of a command and an example."]
        lines += ["`demur --version` shows the version.", "", _list_statuses(STATUSES, ", "), ""]
        return "\n".join(lines)


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser, with the arguments of the command that `words` choose (None: of all)."""
    parser = _TopParser(prog="demur", description="The refusal contract for AI agents.")
    parser.add_argument("--version", action="version", version=f"demur {__version__}")
    top = parser.add_subparsers(metavar="COMMAND", parser_class=CommandParser)
    groups = {
        name: top.add_parser(name, help=summary, description=summary).add_subparsers(
            metavar="COMMAND"
        )
        for name, summary in GROUPS.items()
    }
    for command in COMMANDS:
        group, _, leaf = command.name.rpartition(" ")
        place = groups[group] if group else top
        child = place.add_parser(leaf, help=command.summary, description=command.summary)
        child.example, child.statuses = command.example, command.statuses
        names = command.name.split()
        if words is None or list(words[: len(names)]) == names:
            handler = _load_command(command)
            handler.configure(Arguments(child))
            child.set_defaults(run=handler.run)
    return parser


def find_command(words: Sequence[str]) -> CliCommand | None:
    """Return the command that the first words name, or None."""
    names = (" ".join(words[:1]), " ".join(words[:2]))
    return next((command for command in COMMANDS if command.name in names), None)


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
        return _ask_for_command(parser, words)
    try:
        status = cast("int", args.run(args))
        # Flush here, so that a closed pipe raises while the handlers below can still catch it.
        if sys.stdout is not None:
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


def _ask_for_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print the help of `demur`, or the commands of a group, as a usage error."""
    if not words:
        parser.print_help()
        return USAGE_ERROR
    names = [c.name.split()[1] for c in COMMANDS if c.name.startswith(f"{words[0]} ")]
    problem, help_text = f"`demur {words[0]}` needs a command", f"one of {', '.join(names)}"
    return _report_error(UsageError(problem, help=help_text))


def _close_output() -> None:
    """Redirect standard output to devnull, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: DemurError) -> int:
    """Print an error; the status of one that lies in the command line itself is that of usage."""
    paint = Paint(sys.stderr)
    for problem in error.problems:
        text = f"{problem.where}: {problem.problem}" if problem.where else problem.problem
        print_problem(paint, None, paint("error:", "bold", "red"), text, problem.help)
    in_option = any((problem.where or "").startswith("--") for problem in error.problems)
    return USAGE_ERROR if in_option or isinstance(error, UsageError) else 1


def run() -> NoReturn:
    """Run the command line of this process and exit with its status."""
    # A console that cannot encode a character shows its escape instead of raising.
    # Without standard output (`>&-`) there is none; a hook then blocks by its status.
    if sys.stdout is not None:
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    sys.exit(main())
