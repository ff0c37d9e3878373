"""Copy any value as plain JSON up to a limit, and say whether anything was left out."""

from typing import Any, NamedTuple

from demur.providers.node import Node

__all__ = ["Plain", "plain"]

_DEEPEST = 12
_MOST_VALUES = 500
_LONGEST_TEXT = 4000


class Plain(NamedTuple):
    """A value as plain JSON, and whether any of it was left out."""

    value: Any
    cut: bool


def plain(raw: Any) -> Plain:
    """Return `raw` as plain JSON: at most 500 values, 12 deep, texts of 4,000 characters."""
    copier = _Copier()
    value = copier.copy(Node(raw), _DEEPEST)
    return Plain(value, copier.cut)


class _Copier:
    def __init__(self) -> None:
        self.left = _MOST_VALUES
        self.cut = False

    def copy(self, node: Node, depth: int) -> Any:
        self.left -= 1
        raw = node.raw
        if raw is None or isinstance(raw, bool):
            return raw
        if (text := node.text) is not None:
            return self._text(text)
        if isinstance(raw, int | float):
            return self._number(raw)
        if isinstance(raw, bytes | bytearray):
            return self._text(bytes(raw[: _LONGEST_TEXT + 1]).decode("utf-8", "replace"))
        if depth == 0:
            self.cut = True
            return None
        return self._many(node, depth - 1)

    def _many(self, node: Node, depth: int) -> Any:
        named: dict[str, Any] = {}
        for name, item in node.fields():
            if self._full():
                break
            named[name] = self.copy(item, depth)
        if named:
            return named
        listed: list[Any] = []
        for item in node:
            if self._full():
                break
            listed.append(self.copy(item, depth))
        return listed if listed or isinstance(node.raw, list | tuple) else named

    def _full(self) -> bool:
        self.cut = self.cut or self.left <= 0
        return self.left <= 0

    def _text(self, text: str) -> str:
        fit = text[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")
        self.cut = self.cut or fit != text
        return fit

    def _number(self, number: float) -> Any:
        fits = number == number and abs(number) < 2**63  # noqa: PLR0124 - not a number
        if not fits:
            self.cut = True
            return None
        return number
