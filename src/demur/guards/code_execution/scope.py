"""What a shell has learnt so far: variables, functions, aliases, files, where it stands."""

from demur.guards.code_execution.places import HOME, canonical_path
from demur.guards.code_execution.tree import ShellScript  # noqa: TC001 - a type at run time, too
from demur.guards.code_execution.value import TextValue, join_values

__all__ = ["ShellState"]

_INITIAL_VARIABLES = {
    "HOME": TextValue(HOME),
    "IFS": TextValue(" \t\n"),
    "SHELL": TextValue("/bin/sh"),
    "BASH": TextValue("/bin/bash"),
    "0": TextValue("sh"),
}
_MAX_ENTRIES = 500


class ShellState:
    """The state of one run. Paths are absolute; the home directory is written `/~`."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.variables: dict[str, TextValue] = {}
        self.functions: dict[str, ShellScript] = {}
        self.aliases: dict[str, str] = {}
        self.files: dict[str, TextValue] = {}
        self.positional: tuple[TextValue, ...] = ()

    def variable_value(self, name: str) -> TextValue | None:
        """Return the value of a variable, if it is known."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return TextValue(self.cwd)
        if name.isdigit() and name != "0":
            position = int(name) - 1
            return self.positional[position] if position < len(self.positional) else None
        return _INITIAL_VARIABLES.get(name)

    def assign(self, name: str, value: TextValue) -> None:
        """Record a variable; beyond the limit, new names are ignored."""
        if name in self.variables or len(self.variables) < _MAX_ENTRIES:
            self.variables[name] = value

    def resolve_path(self, text: str) -> str:
        """Return `text` as an absolute path without `.` and `..`."""
        return canonical_path(text, self.cwd) if text else self.cwd

    def write_file(self, path: str, value: TextValue, *, append: bool = False) -> None:
        """Record the new content of a file."""
        place = self.resolve_path(path)
        old = self.files.get(place) if append else None
        if old is not None:
            value = join_values([old, value])
        if place in self.files or len(self.files) < _MAX_ENTRIES:
            self.files[place] = value
