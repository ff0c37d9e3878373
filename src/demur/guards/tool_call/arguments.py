"""The arguments of a tool call as plain JSON, and the ways into them.

Models hand over arguments as a JSON text or as values. Both end here as one plain value, so
that every check sees what the tool would see. Numbers of any size are kept: ids are often
larger than a double can hold.
"""

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError, InputTypeError

__all__ = ["LARGEST", "Part", "UnreadableError", "named", "read_arguments", "select", "texts"]

LARGEST = 4_000_000
_MOST_PARTS = 200_000
_DEEPEST = 100
_LONGEST_PLACE = 200


class UnreadableError(InputError):
    """The model's text of arguments is no JSON object."""


class Part(NamedTuple):
    """One value within the arguments and the way to it, such as `files.0.path`."""

    place: str
    value: Any


def read_arguments(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return a copy of `arguments` in plain JSON types.

    Raises:
        UnreadableError: The text is no JSON object, or one of its keys stands twice.
        InputError: The arguments are no JSON, too many, or nested too deep.
    """
    if isinstance(arguments, str):
        arguments = _parse(arguments)
    if not isinstance(arguments, Mapping):
        raise InputTypeError.expected("arguments", "an object", arguments)
    reader = _Reader()
    plain: dict[str, Any] = reader.plain(arguments, 0)
    if reader.size > LARGEST:
        raise InputError(f"arguments hold more than {LARGEST} characters", help="pass a reference")
    return plain


def _parse(text: str) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise InputError(f"arguments hold more than {LARGEST} characters", help="pass a reference")
    try:
        value = json.loads(text, object_pairs_hook=_object) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnreadableError("the arguments are no JSON") from error
    if not isinstance(value, dict):
        raise UnreadableError("the arguments are no JSON object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Parsers differ in which of the two they take, so the check and the tool could differ.
        raise ValueError("a key stands twice")
    return value


class _Reader:
    def __init__(self) -> None:
        self.parts = 0
        self.size = 0

    def plain(self, value: Any, depth: int) -> Any:
        self.parts += 1
        if depth > _DEEPEST or self.parts > _MOST_PARTS:
            raise InputError("the arguments are nested too deep, or are too many")
        if isinstance(value, str):
            self.size += len(value)
            return value
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {self._key(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        raise InputTypeError.expected("an argument", "a JSON value", value)

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise InputTypeError.expected("a key", "a string", key)
        self.size += len(key)
        return key


def select(value: Any, path: str) -> Iterator[Part]:
    """Yield the parts at `path`: names and numbers joined by dots, `*` any one, `**` any depth."""
    return _select(value, path.split("."), "")


def _select(value: Any, steps: list[str], place: str) -> Iterator[Part]:
    if not steps:
        yield Part(place, value)
        return
    step, rest = steps[0], steps[1:]
    if step == "**":
        yield from _select(value, rest, place)
    for name, item in _children(value):
        if step == "**":
            yield from _select(item, steps, _join(place, name))
        elif step in {"*", name}:
            yield from _select(item, rest, _join(place, name))


def named(value: Any, names: Container[str], place: str = "") -> Iterator[Part]:
    """Yield the parts at any depth whose own name is one of `names`."""
    for name, item in _children(value):
        if name in names:
            yield Part(_join(place, name), item)
        if isinstance(item, dict | list):
            yield from named(item, names, _join(place, name))


def texts(part: Part) -> Iterator[Part]:
    """Yield every text at or below `part`."""
    if isinstance(part.value, str):
        yield part
        return
    for name, item in _children(part.value):
        # Most parts are texts, and need no recursion.
        if isinstance(item, str):
            yield Part(_join(part.place, name), item)
        elif isinstance(item, dict | list):
            yield from texts(Part(_join(part.place, name), item))


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))


def _join(place: str, name: str) -> str:
    return (f"{place}.{name}" if place else name)[:_LONGEST_PLACE]
