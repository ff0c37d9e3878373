"""The arguments of a tool call as plain JSON, and the ways into them.

Models hand over arguments as a JSON text or as values. Both end here as one plain value, so
that every check sees what the tool would see. Numbers of any size are kept: ids are often
larger than a double can hold.
"""

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError, InputTypeError

__all__ = [
    "MAX_ARGUMENTS_LENGTH",
    "ArgumentPart",
    "UnreadableArgumentsError",
    "find_named",
    "read_arguments",
    "select_parts",
    "find_texts",
]

MAX_ARGUMENTS_LENGTH = 4_000_000
_MAX_PARTS = 200_000
_MAX_DEPTH = 100
_MAX_PLACE = 200


class UnreadableArgumentsError(InputError):
    """The model's text of arguments is no JSON object."""


class ArgumentPart(NamedTuple):
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
        arguments = _parse_json(arguments)
    if not isinstance(arguments, Mapping):
        raise InputTypeError.wrong_type("arguments", "an object", arguments)
    reader = _ArgumentReader()
    plain: dict[str, Any] = reader.to_json_value(arguments, 0)
    if reader.size > MAX_ARGUMENTS_LENGTH:
        raise InputError(
            f"arguments hold more than {MAX_ARGUMENTS_LENGTH} characters", help="pass a reference"
        )
    return plain


def _parse_json(text: str) -> dict[str, Any]:
    if len(text) > MAX_ARGUMENTS_LENGTH:
        raise InputError(
            f"arguments hold more than {MAX_ARGUMENTS_LENGTH} characters", help="pass a reference"
        )
    try:
        value = json.loads(text, object_pairs_hook=_unique_object) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnreadableArgumentsError("the arguments are no JSON") from error
    if not isinstance(value, dict):
        raise UnreadableArgumentsError("the arguments are no JSON object")
    return value


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Parsers differ in which of the two they take, so the check and the tool could differ.
        raise ValueError("a key stands twice")
    return value


class _ArgumentReader:
    def __init__(self) -> None:
        self.parts = 0
        self.size = 0

    def to_json_value(self, value: Any, depth: int) -> Any:
        self.parts += 1
        if depth > _MAX_DEPTH or self.parts > _MAX_PARTS:
            raise InputError("the arguments are nested too deep, or are too many")
        if isinstance(value, str):
            self.size += len(value)
            return value
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {
                self._check_key(key): self.to_json_value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.to_json_value(item, depth + 1) for item in value]
        raise InputTypeError.wrong_type("an argument", "a JSON value", value)

    def _check_key(self, key: object) -> str:
        if not isinstance(key, str):
            raise InputTypeError.wrong_type("a key", "a string", key)
        self.size += len(key)
        return key


def select_parts(value: Any, path: str) -> Iterator[ArgumentPart]:
    """Yield the parts at `path`: names and numbers joined by dots, `*` any one, `**` any depth."""
    return _select_steps(value, path.split("."), "")


def _select_steps(value: Any, steps: list[str], place: str) -> Iterator[ArgumentPart]:
    if not steps:
        yield ArgumentPart(place, value)
        return
    step, rest = steps[0], steps[1:]
    if step == "**":
        yield from _select_steps(value, rest, place)
    for name, item in _iter_children(value):
        if step == "**":
            yield from _select_steps(item, steps, _join_place(place, name))
        elif step in {"*", name}:
            yield from _select_steps(item, rest, _join_place(place, name))


def find_named(value: Any, names: Container[str], place: str = "") -> Iterator[ArgumentPart]:
    """Yield the parts at any depth whose own name is one of `names`."""
    for name, item in _iter_children(value):
        if name in names:
            yield ArgumentPart(_join_place(place, name), item)
        if isinstance(item, dict | list):
            yield from find_named(item, names, _join_place(place, name))


def find_texts(part: ArgumentPart) -> Iterator[ArgumentPart]:
    """Yield every text at or below `part`."""
    if isinstance(part.value, str):
        yield part
        return
    for name, item in _iter_children(part.value):
        # Most parts are texts, and need no recursion.
        if isinstance(item, str):
            yield ArgumentPart(_join_place(part.place, name), item)
        elif isinstance(item, dict | list):
            yield from find_texts(ArgumentPart(_join_place(part.place, name), item))


def _iter_children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))


def _join_place(place: str, name: str) -> str:
    return (f"{place}.{name}" if place else name)[:_MAX_PLACE]
