"""Describe a tool call as a request: arguments as JSON, and texts as a model reads them.

A tool returns JSON and a model writes some. In JSON a line break is two other characters and a
letter may be six, so guards search the decoded texts, not their encoding.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec

from demur.errors import InputError, InputTypeError
from demur.guards.tool_arguments import UnreadableArgumentsError, read_arguments

# Returns the parts of a request for a tool's name and arguments.
DescribeCall = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]

_MAX_DEPTH = 100
_JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)


class OpaqueText(str):
    """The type name of a value that has no JSON form, recorded in its place."""

    __slots__ = ()


def describe_call(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request: an action named like the tool, with its arguments as evidence.

    The arguments `amount` and `currency` also become the amount of the action. An amount that is
    no number is passed on as it is: a policy that compares it reports that. A model may have
    written all of this; a host that knows facts for sure should pass its own `describe`.
    """
    action: dict[str, Any] = {"type": name}
    amount = arguments.get("amount")
    if amount is not None:
        if not isinstance(amount, Mapping) or "value" not in amount:
            amount = {"value": amount}
            if isinstance(arguments.get("currency"), str):
                amount["currency"] = arguments["currency"]
        action["amount"] = {**amount, "value": _parse_number(amount["value"])}
    return {"action": action, "evidence": arguments}


def _parse_number(value: Any) -> Any:
    """Return the number in a numeric text, because tools read such a text as a number."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def to_json_value(
    value: Any,
    *,
    opaque: Callable[[Any], str] = lambda value: OpaqueText(f"<{type(value).__name__}>"),
) -> Any:
    """Return a value in the types of JSON; `opaque` replaces a value without a JSON form.

    Raises:
        InputError: It is nested too deep, or two of its keys are equal in JSON.
    """
    return _JsonConverter(opaque).convert(value, 0)


class _JsonConverter:
    def __init__(self, opaque: Callable[[Any], str]) -> None:
        self._opaque = opaque

    def convert(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _JSON_SCALARS or kind is OpaqueText:
            return value
        if depth > _MAX_DEPTH:
            raise InputError("the value is nested too deep", where="arguments")
        if isinstance(value, Mapping):
            return self._convert_mapping(value, depth)
        if isinstance(value, list | tuple | AbstractSet):
            if hasattr(value, "_asdict"):
                return self._convert_mapping(value._asdict(), depth)
            return [self.convert(part, depth + 1) for part in value]
        return self._convert_other(value, depth)

    def _convert_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        parts = {
            key if isinstance(key, str) else str(key): self.convert(part, depth + 1)
            for key, part in value.items()
        }
        if len(parts) < len(value):
            raise InputError("two keys of an object are equal in JSON", where="arguments")
        return parts

    def _convert_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.convert(value.value, depth + 1)
        for kinds, convert in _SCALAR_CONVERTERS:
            if isinstance(value, kinds):
                return convert(value)
        fields = _object_fields(value)
        return self._opaque(value) if fields is None else self.convert(fields, depth + 1)


def _convert_decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return str(value)
    whole = value == value.to_integral_value() and abs(value) < 2**53
    return int(value) if whole else float(value)


def _decode_bytes(value: str | bytes | bytearray | memoryview) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


_SCALAR_CONVERTERS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((Decimal,), _convert_decimal),
    # Subclasses of texts and numbers.
    ((str,), str.__str__),
    ((int,), int),
    ((float,), float),
    ((bytes, bytearray, memoryview), _decode_bytes),
    ((os.PathLike,), lambda value: _decode_bytes(os.fspath(value))),
    ((date, time), lambda value: value.isoformat()),
    ((UUID,), str),
)


def _object_fields(value: Any) -> Any:
    """Return the fields of a struct, dataclass or model, or None."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return None
    try:
        return dump()
    except Exception as error:  # a foreign `model_dump` may raise anything
        raise InputError("a model cannot be read", where="arguments") from error


_MAX_PARTS = 200_000
_MAX_JSON_LENGTH = 4_000_000
# JSON within JSON is parsed to this depth and left as text below it.
_MAX_JSON_DEPTH = 3
_MAX_JSON_STARTS = 200
_DECODER = json.JSONDecoder()
_INSIDE = re.compile(r"""\{\s*"|\[\s*[\["{]""")
_BEGIN = re.compile(
    r"""\s*(?:"[^"]*\\|\{\s*"|\[\s*(?:[\["{]|(?:-?\d[\d.eE+-]*|true|false|null)\s*,))"""
)


def extract_texts(value: Any) -> str:
    """Return all texts in a value, one per line; a text without JSON is returned as it is.

    Raises:
        InputError: There are too many texts, or they are nested too deep.
    """
    if not isinstance(value, str):
        return "\n".join(_leaf_texts(to_json_value(value, opaque=str), _MAX_JSON_DEPTH))
    if "\\" not in value:
        return value
    held = _parse_json(value)
    found = list(_embedded_json(value)) if held is None else [held]
    # Keep the raw text too: fake chat turns are recognised only with the text around them.
    texts = (text for one in found for text in _leaf_texts(one, _MAX_JSON_DEPTH))
    return "\n".join([value, *texts])


def begins_json(text: str) -> bool:
    """Return whether a text, up to its first escape, may be the beginning of JSON."""
    return _BEGIN.match(text) is not None


def _embedded_json(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists within a text, such as in a code fence."""
    if len(text) > _MAX_JSON_LENGTH:
        return
    end = 0
    for found in islice(_INSIDE.finditer(text), _MAX_JSON_STARTS):
        if found.start() < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _leaf_texts(value: Any, depth: int) -> Iterator[str]:
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count + len(waiting) > _MAX_PARTS:
            raise InputError(f"the value has more than {_MAX_PARTS} parts")
        if isinstance(one, Mapping):
            # Reversed, so that the first is popped next.
            waiting += [part for pair in reversed([*one.items()]) for part in reversed(pair)]
        elif isinstance(one, list | tuple):
            waiting += reversed(one)
        elif isinstance(one, str):
            held = _parse_json(one) if depth else None
            if held is None:
                yield one
            else:
                yield from _leaf_texts(held, depth - 1)
        elif one is not None:
            yield str(one)


def _parse_json(text: str) -> Any:
    """Return the value of a text that is a JSON object, list or string, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _MAX_JSON_LENGTH or inside[0] + inside[-1] not in {"{}", "[]", '""'}:
        return None
    try:
        return json.loads(inside)
    except (ValueError, RecursionError):
        return None


def require_text(what: str, value: Any) -> str:
    """Return a value that must be a text; errors call it `what`."""
    if not isinstance(value, str):
        raise InputTypeError.wrong_type(what, "a text", value)
    return value


def parse_arguments(arguments: Any) -> Mapping[str, Any] | None:
    """Return JSON arguments as a mapping; None for a text that cannot be parsed."""
    if isinstance(arguments, Mapping):
        return arguments
    if not isinstance(arguments, str):
        raise InputTypeError.wrong_type("arguments", "an object, or the text of one", arguments)
    try:
        return read_arguments(arguments)
    except UnreadableArgumentsError:
        return None
