"""Fields of a file by their form: mappings, lists and texts, each problem with its place."""

from collections.abc import Iterable, Iterator, Mapping

from demur.codes.suggest import did_you_mean
from demur.errors import Problem
from demur.source import Item

__all__ = ["Form"]


class Form:
    """Reads values of the form they must have, collecting every problem on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(where, problem, help_text))

    def fields(self, item: Item, known: Iterable[str], what: str) -> Mapping[str, Item]:
        """Return the values of a mapping, and report the keys that nobody knows."""
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
                self.report(where, f"unknown key `{key}`", hint)
        return item.value

    def is_text(self, item: Item, what: str) -> bool:
        """Return whether the value is a text, and report it if not."""
        good = isinstance(item.value, str) and bool(item.value.strip())
        if not good:
            self.report(item.where, f"`{what}` must be a text", "quote it")
        return good

    def text(self, fields: Mapping[str, Item], key: str, parent: Item) -> str:
        """Return the text under `key`, which must be there."""
        if key not in fields:
            self.report(parent.where, f"`{key}` is missing")
            return ""
        return str(fields[key].value) if self.is_text(fields[key], key) else ""

    def items(self, item: Item | None, what: str) -> list[Item]:
        """Return the items of a list that may be absent."""
        if item is None:
            return []
        if isinstance(item.value, list):
            return item.value
        self.report(item.where, f"`{what}` is a list")
        return []

    def texts(self, item: Item | None, what: str) -> tuple[str, ...]:
        """Return the texts of a list that may be absent."""
        return tuple(one.value for one in self.items(item, what) if self.is_text(one, what))

    def pairs(self, item: Item | None, what: str) -> Iterator[tuple[str, str]]:
        """Yield the texts of a mapping that may be absent, by key."""
        if item is None:
            return
        if not isinstance(item.value, dict):
            self.report(item.where, f"`{what}` is a mapping")
            return
        for key, child in item.value.items():
            if self.is_text(child, key):
                yield key, child.value
