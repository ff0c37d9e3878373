"""Names in the source of a written function: facts by variable, values by name."""

from typing import Any, NamedTuple

__all__ = ["SourceNames"]


class SourceNames(NamedTuple):
    """What the source of a function refers to: facts by variable, values by name."""

    facts: dict[str, str]
    values: dict[str, Any]
    # Lines that must run before the current one.
    lines: list[str]

    def fact_variable(self, path: str) -> str:
        """Return the variable that holds a fact."""
        return self.facts.setdefault(path, f"f{len(self.facts)}")

    def add_value(self, value: Any) -> str:
        """Return a new name for a value."""
        name = f"k{len(self.values)}"
        self.values[name] = value
        return name
