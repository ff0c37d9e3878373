"""Copy any value as plain JSON up to a limit, and say whether anything was left out."""

from typing import Any, NamedTuple

from demur.providers.node import Node

__all__ = ["BoundedJson", "to_bounded_json"]

_MAX_DEPTH = 12
_MAX_VALUES = 500
_MAX_TEXT_LENGTH = 4000


class BoundedJson(NamedTuple):
    """A value as plain JSON, and whether any of it was left out."""

    value: Any
    cut: bool


def to_bounded_json(raw: Any) -> BoundedJson:
    """Return `raw` as plain JSON: at most 500 values, 12 deep, texts of 4,000 characters."""
    copier = _JsonCopier()
    value = copier.copy_value(Node(raw), _MAX_DEPTH)
    return BoundedJson(value, copier.cut)


class _JsonCopier:
    def __init__(self) -> None:
        self.left = _MAX_VALUES
        self.cut = False

    def copy_value(self, node: Node, depth: int) -> Any:
        self.left -= 1
        raw = node.raw
        if raw is None or isinstance(raw, bool):
            return raw
        if (text := node.text) is not None:
            return self._copy_text(text)
        if isinstance(raw, int | float):
            return self._copy_number(raw)
        if isinstance(raw, bytes | bytearray):
            return self._copy_text(bytes(raw[: _MAX_TEXT_LENGTH + 1]).decode("utf-8", "replace"))
        if depth == 0:
            self.cut = True
            return None
        return self._copy_items(node, depth - 1)

    def _copy_items(self, node: Node, depth: int) -> Any:
        named: dict[str, Any] = {}
        for name, item in node.fields():
            if self._is_full():
                break
            named[name] = self.copy_value(item, depth)
        if named:
            return named
        listed: list[Any] = []
        for item in node:
            if self._is_full():
                break
            listed.append(self.copy_value(item, depth))
        return listed if listed or isinstance(node.raw, list | tuple) else named

    def _is_full(self) -> bool:
        self.cut = self.cut or self.left <= 0
        return self.left <= 0

    def _copy_text(self, text: str) -> str:
        fit = text[:_MAX_TEXT_LENGTH].encode("utf-8", "replace").decode("utf-8")
        self.cut = self.cut or fit != text
        return fit

    def _copy_number(self, number: float) -> Any:
        fits = number == number and abs(number) < 2**63  # noqa: PLR0124 - not a number
        if not fits:
            self.cut = True
            return None
        return number
