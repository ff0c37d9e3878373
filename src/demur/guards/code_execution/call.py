"""One program that would run, with everything a rule may ask about it."""

from collections.abc import Iterable
from typing import NamedTuple

from demur.guards.code_execution.value import EMPTY, Arg, Value

__all__ = ["Call", "Options", "Sight", "Written", "options"]


class Written(NamedTuple):
    """A file that a call writes, and whether it appends to it."""

    target: Arg
    append: bool


class Sight(NamedTuple):
    """A rule that holds for a call, and the target it holds for."""

    rule: str
    target: str = ""


class Call(NamedTuple):
    """A program with its arguments, redirections, input and environment.

    `verb` is the program's name in lower case without path and extension; `name` is the word as
    written. `via` lists the programs that start it (`sudo`, `xargs`, `docker`).
    """

    verb: str
    name: Arg
    args: tuple[Arg, ...]
    via: tuple[str, ...] = ()
    stdin: Value = EMPTY
    piped: bool = False
    writes: tuple[Written, ...] = ()
    reads: tuple[Arg, ...] = ()
    environment: tuple[tuple[str, Value], ...] = ()
    cwd: str = "/"

    @property
    def texts(self) -> list[str]:
        """The arguments as plain texts."""
        return [arg.text for arg in self.args]

    def has(self, *wanted: str) -> bool:
        """Whether one of these texts is exactly an argument."""
        return any(arg.text in wanted for arg in self.args)


class Options(NamedTuple):
    """Parsed arguments: option names, option values, and operands."""

    names: frozenset[str]
    values: dict[str, Arg]
    operands: tuple[Arg, ...]

    def any(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return not self.names.isdisjoint(names)


def options(args: Iterable[Arg], valued: frozenset[str] = frozenset()) -> Options:
    """Parse `args`; `value_options` are the options that take the next word as their value.

    Short options may be bundled (`-rf`), long ones may carry `=value`; `--` ends them all.
    """
    names: set[str] = set()
    values: dict[str, Arg] = {}
    operands: list[Arg] = []
    rest = iter(args)
    for arg in rest:
        text = arg.text
        if text == "--":
            operands.extend(rest)
            break
        if len(text) < 2 or text[0] != "-":
            operands.append(arg)
        elif text.startswith("--") or text in valued:
            name, equals, given = text.partition("=")
            names.add(name)
            if equals:
                values[name] = arg._replace(text=given, offset=None)
            elif name in valued and (value := next(rest, None)):
                values[name] = value
        else:
            _short(arg, names, values, rest, valued)
    return Options(frozenset(names), values, tuple(operands))


def _short(
    arg: Arg,
    names: set[str],
    values: dict[str, Arg],
    rest: "Iterable[Arg]",
    valued: frozenset[str],
) -> None:
    """Parse a bundle of short options; one that takes a value ends the bundle."""
    for at, letter in enumerate(arg.text[1:], start=2):
        name = f"-{letter}"
        names.add(name)
        if name in valued:
            given = arg.text[at:]
            if given:
                values[name] = arg._replace(text=given, offset=None)
            elif value := next(iter(rest), None):
                values[name] = value
            return
