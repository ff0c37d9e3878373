"""What a shell has learnt so far: variables, functions, aliases, files, where it stands."""

from demur.guards.code_execution.places import HOME, canonical
from demur.guards.code_execution.tree import Script  # noqa: TC001 - a type at run time, too
from demur.guards.code_execution.value import Value, joined

__all__ = ["Scope"]

_SET = {
    "HOME": Value(HOME),
    "IFS": Value(" \t\n"),
    "SHELL": Value("/bin/sh"),
    "BASH": Value("/bin/bash"),
    "0": Value("sh"),
}
_MOST = 500


class Scope:
    """The state of one run. Paths are absolute; the home directory is written `/~`."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.variables: dict[str, Value] = {}
        self.functions: dict[str, Script] = {}
        self.aliases: dict[str, str] = {}
        self.files: dict[str, Value] = {}
        self.positional: tuple[Value, ...] = ()

    def variable(self, name: str) -> Value | None:
        """Return the value of a variable, if it is known."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return Value(self.cwd)
        if name.isdigit() and name != "0":
            position = int(name) - 1
            return self.positional[position] if position < len(self.positional) else None
        return _SET.get(name)

    def assign(self, name: str, value: Value) -> None:
        """Record a variable; beyond the limit, new names are ignored."""
        if name in self.variables or len(self.variables) < _MOST:
            self.variables[name] = value

    def path(self, text: str) -> str:
        """Return `text` as an absolute path without `.` and `..`."""
        return canonical(text, self.cwd) if text else self.cwd

    def write(self, path: str, value: Value, *, append: bool = False) -> None:
        """Record the new content of a file."""
        place = self.path(path)
        old = self.files.get(place) if append else None
        if old is not None:
            value = joined([old, value])
        if place in self.files or len(self.files) < _MOST:
            self.files[place] = value
