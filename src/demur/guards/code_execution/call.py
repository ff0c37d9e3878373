"""One program that would run, with everything a rule may ask about it."""

from collections.abc import Iterable
from typing import NamedTuple

from demur.guards.code_execution.value import EMPTY, CommandArg, TextValue

__all__ = ["ProgramCall", "ParsedOptions", "CommandHit", "WrittenFile", "parse_options"]


class WrittenFile(NamedTuple):
    """A file that a call writes, and whether it appends to it."""

    target: CommandArg
    append: bool


class CommandHit(NamedTuple):
    """A rule that holds for a call, and the target it holds for."""

    rule: str
    target: str = ""


class ProgramCall(NamedTuple):
    """A program with its arguments, redirections, input and environment.

    `verb` is the program's name in lower case without path and extension; `name` is the word as
    written. `via` lists the programs that start it (`sudo`, `xargs`, `docker`).
    """

    verb: str
    name: CommandArg
    args: tuple[CommandArg, ...]
    via: tuple[str, ...] = ()
    stdin: TextValue = EMPTY
    piped: bool = False
    writes: tuple[WrittenFile, ...] = ()
    reads: tuple[CommandArg, ...] = ()
    environment: tuple[tuple[str, TextValue], ...] = ()
    cwd: str = "/"

    @property
    def texts(self) -> list[str]:
        """The arguments as plain texts."""
        return [arg.text for arg in self.args]

    def has_arg(self, *wanted: str) -> bool:
        """Whether one of these texts is exactly an argument."""
        return any(arg.text in wanted for arg in self.args)


class ParsedOptions(NamedTuple):
    """Parsed arguments: option names, option values, and operands."""

    names: frozenset[str]
    values: dict[str, CommandArg]
    operands: tuple[CommandArg, ...]

    def has_any(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return not self.names.isdisjoint(names)


def parse_options(
    args: Iterable[CommandArg], value_options: frozenset[str] = frozenset()
) -> ParsedOptions:
    """Parse `args`; `value_options` are the options that take the next word as their value.

    Short options may be bundled (`-rf`), long ones may carry `=value`; `--` ends them all.
    """
    names: set[str] = set()
    values: dict[str, CommandArg] = {}
    operands: list[CommandArg] = []
    rest = iter(args)
    for arg in rest:
        text = arg.text
        if text == "--":
            operands.extend(rest)
            break
        if len(text) < 2 or text[0] != "-":
            operands.append(arg)
        elif text.startswith("--") or text in value_options:
            name, equals, given = text.partition("=")
            names.add(name)
            if equals:
                values[name] = arg._replace(text=given, offset=None)
            elif name in value_options and (value := next(rest, None)):
                values[name] = value
        else:
            _parse_short_bundle(arg, names, values, rest, value_options)
    return ParsedOptions(frozenset(names), values, tuple(operands))


def _parse_short_bundle(
    arg: CommandArg,
    names: set[str],
    values: dict[str, CommandArg],
    rest: "Iterable[CommandArg]",
    value_options: frozenset[str],
) -> None:
    """Parse a bundle of short options; one that takes a value ends the bundle."""
    for at, letter in enumerate(arg.text[1:], start=2):
        name = f"-{letter}"
        names.add(name)
        if name in value_options:
            given = arg.text[at:]
            if given:
                values[name] = arg._replace(text=given, offset=None)
            elif value := next(iter(rest), None):
                values[name] = value
            return
