"""One byte form for one value: RFC 8785 canonical JSON, and its digest.

`20` and `20.0` have the same bytes; NaN, infinities, integers that a double
cannot hold exactly (from 2**53) and lone surrogates have none and are refused.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import rfc8785

from demur.errors import InputError

MAX_DEPTH = 100

_SAFE = 2**53
_FINITE = 1.7976931348623157e308
# Below this the fast encoder writes an exponent, and the standard a decimal.
_MIN_PLAIN_NUMBER = 1e-5
# From here on the standard writes an exponent.
_FIRST_EXPONENT = 1e21
_MAX_PATH_PARTS = 8
_HELP = "use strings, finite numbers below 2**53, booleans, null, lists and objects"
# Canonical for values that are `is_fast_canonical`, and for records of texts and such numbers.
fast_encode = msgspec.json.Encoder(order="sorted").encode


class CanonicalJson(NamedTuple):
    """A copy of a value in plain JSON types, and its canonical bytes.

    `is_fast_canonical` says that the fast encoder writes it, and any part of it, canonically.
    """

    value: Any
    raw: bytes
    is_fast_canonical: bool


class _NotCanonicalError(Exception):
    """A value without canonical form; the path is collected while unwinding."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []


def canonicalise(value: object) -> CanonicalJson:
    """Return a copy of `value` in plain JSON types, and its canonical bytes.

    Raises:
        InputError: The value has no canonical form; `where` is the path to the part at fault.
    """
    exceptions: list[object] = []
    try:
        plain = _to_plain(value, exceptions, 0)
        # The fast encoder agrees with the standard on everything but the exceptions.
        raw = rfc8785.dumps(plain) if exceptions else fast_encode(plain)
    except _NotCanonicalError as error:
        raise _input_error(error) from None
    return CanonicalJson(plain, raw, not exceptions)


def is_fast_canonical_number(value: float | None) -> bool:
    """Return whether the fast encoder writes a number of a checked value canonically."""
    if value is None or value.__class__ is int:
        return True
    return _MIN_PLAIN_NUMBER <= value < _SAFE and not value.is_integer()


def require_readable(canonical: CanonicalJson) -> CanonicalJson:
    """Return the same object if its bytes decode to the same value.

    Raises:
        InputError: A number would be written as an integer that is too large to read back.
    """
    try:
        if not canonical.is_fast_canonical:
            _check_readable(canonical.value)
    except _NotCanonicalError as error:
        raise _input_error(error) from None
    return canonical


def _check_readable(value: Any) -> None:
    if isinstance(value, float):
        if value.is_integer() and _SAFE <= abs(value) < _FIRST_EXPONENT:
            raise _NotCanonicalError("the number is too large for an integer")
        return
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _check_readable(item)
            except _NotCanonicalError as error:
                error.path.append(str(key))
                raise


def _input_error(error: _NotCanonicalError) -> InputError:
    problem, path = f"this value has no canonical JSON form: {error.problem}", error.path
    # The path was collected from the inside out; a long one is cut.
    parts = path[: -_MAX_PATH_PARTS - 1 : -1] + ["…"] * (len(path) > _MAX_PATH_PARTS)
    return InputError(problem, where=".".join(parts) or None, help=_HELP)


def canonical_bytes(value: object) -> bytes:
    """Return the canonical JSON bytes of `value` (dicts with string keys, lists, scalars).

    Raises:
        InputError: The value has no canonical form.
    """
    return canonicalise(value).raw


def digest(value: object) -> str:
    """Return `sha256:` and the hex digest of the canonical bytes of `value`."""
    return digest_of_bytes(canonicalise(value).raw)


def digest_of_bytes(raw: bytes) -> str:
    """Return `sha256:` and the hex digest of canonical bytes."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _to_plain(value: Any, exceptions: list[object], depth: int) -> Any:
    kind = value.__class__
    if kind is dict:
        return _copy_mapping(value, exceptions, depth)
    if kind is float:
        return _check_number(value, exceptions)
    if value is None or kind is bool or (kind is str and value.isascii()):
        return value
    if kind is int:
        return _check_integer(value)
    if kind is list or isinstance(value, list | tuple):
        return _copy_list(value, exceptions, depth)
    return _convert_other(value, exceptions, depth)


def _check_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _NotCanonicalError("a lone surrogate is no character") from None
    return value


def _check_integer(value: int) -> int:
    if -_SAFE < value < _SAFE:
        return value
    raise _NotCanonicalError("the integer is too large for a double")


def _check_number(value: float, exceptions: list[object]) -> float:
    if not -_FINITE <= value <= _FINITE:
        raise _NotCanonicalError(f"{value} is no finite number")
    if value.is_integer():
        if -_SAFE < value < _SAFE:
            return int(value)
        exceptions.append(value)
    elif -_MIN_PLAIN_NUMBER < value < _MIN_PLAIN_NUMBER:
        exceptions.append(value)
    return value


def _copy_mapping(value: Mapping[Any, Any], exceptions: list[object], depth: int) -> dict[str, Any]:
    if depth >= MAX_DEPTH:
        raise _NotCanonicalError(f"nested deeper than {MAX_DEPTH}")
    copy: dict[str, Any] = {}
    for key, item in value.items():
        name = key if key.__class__ is str and key.isascii() else _check_key(key, exceptions)
        kind = item.__class__
        # The fast path for most values.
        if (kind is str and item.isascii()) or (kind is int and -_SAFE < item < _SAFE):
            copy[name] = item
            continue
        try:
            copy[name] = _to_plain(item, exceptions, depth + 1)
        except _NotCanonicalError as error:
            error.path.append(name)
            raise
    return copy


def _check_key(key: object, exceptions: list[object]) -> str:
    if not isinstance(key, str):
        raise _NotCanonicalError(f"a key must be a string, not `{type(key).__name__}`")
    name = key if key.__class__ is str else str.__str__(key)
    if not name.isascii():
        # Beyond the first Unicode plane, the standard's order differs from byte order.
        exceptions.append(_check_text(name))
    return name


def _copy_list(
    value: list[Any] | tuple[Any, ...], exceptions: list[object], depth: int
) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise _NotCanonicalError(f"nested deeper than {MAX_DEPTH}")
    copy: list[Any] = []
    for index, item in enumerate(value):
        try:
            copy.append(_to_plain(item, exceptions, depth + 1))
        except _NotCanonicalError as error:
            error.path.append(str(index))
            raise
    return copy


def _convert_other(value: Any, exceptions: list[object], depth: int) -> Any:
    """Return the plain form of mappings, other texts, and subclasses such as enums."""
    if isinstance(value, Mapping):
        return _copy_mapping(value, exceptions, depth)
    if isinstance(value, str):
        return _check_text(str.__str__(value))
    if isinstance(value, int):
        return _check_integer(int(value))
    if isinstance(value, float):
        return _check_number(float(value), exceptions)
    raise _NotCanonicalError(f"`{type(value).__name__}` is no JSON type")
