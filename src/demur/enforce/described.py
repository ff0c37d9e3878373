"""Describe a tool call as a request that policies can read."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from demur.errors import InputError

__all__ = ["DescribeCall", "OpaqueText", "describe_call", "to_json_value"]

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
        action["amount"] = _describe_amount(amount, arguments.get("currency"))
    return {"action": action, "evidence": arguments}


def _describe_amount(value: Any, currency: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and "value" in value:
        return {**value, "value": _parse_number(value["value"])}
    beside = {"currency": currency} if isinstance(currency, str) else {}
    return {"value": _parse_number(value), **beside}


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
            return self._convert_list(value, depth)
        return self._convert_other(value, depth)

    def _convert_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made = {_key_text(key): self.convert(part, depth + 1) for key, part in value.items()}
        if len(made) < len(value):
            raise InputError("two keys of an object are equal in JSON", where="arguments")
        return made

    def _convert_list(self, value: Any, depth: int) -> Any:
        if hasattr(value, "_asdict"):
            return self._convert_mapping(value._asdict(), depth)
        return [self.convert(part, depth + 1) for part in value]

    def _convert_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.convert(value.value, depth + 1)
        if isinstance(value, Decimal):
            return _convert_decimal(value)
        simple = _convert_scalar(value)
        if simple is not None:
            return simple
        fields = _object_fields(value)
        return self._opaque(value) if fields is None else self.convert(fields, depth + 1)


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


def _convert_decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return str(value)
    whole = value == value.to_integral_value() and abs(value) < 2**53
    return int(value) if whole else float(value)


def _convert_scalar(value: Any) -> Any:
    """Return the text or number for a scalar value; None for other values."""
    for kinds, made in _SCALAR_CONVERTERS:
        if isinstance(value, kinds):
            return made(value)
    return None


def _decode_bytes(value: bytes | bytearray | memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")


def _path_text(value: os.PathLike[Any]) -> str:
    path = os.fspath(value)
    return path if isinstance(path, str) else _decode_bytes(path)


_SCALAR_CONVERTERS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    # Subclasses of texts and numbers.
    ((str,), str.__str__),
    ((int,), int),
    ((float,), float),
    ((bytes, bytearray, memoryview), _decode_bytes),
    ((os.PathLike,), _path_text),
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
