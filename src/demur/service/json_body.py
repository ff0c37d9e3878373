"""JSON of bodies: decoded strictly as a type, and encoded."""

import json
from typing import Any, TypeVar

import msgspec

from demur.service.problem import invalid_call, replace_surrogates
from demur.source.mismatch import describe_mismatch, locate_unknown_field

T = TypeVar("T")
encode_json = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode_json(raw: bytes, kind: type[T], *, check_keys: bool = True) -> T:
    """Return JSON, decoded as a type; without `check_keys`, `require_unique_keys` has to follow.

    Raises:
        ProblemError: It is no JSON, not of that type, or an object has a key twice.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        # Bounded: there are only as many types as routes.
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    if not raw:
        raise invalid_call(400, "the body is empty", help="send a JSON object")
    try:
        value: T = decoder.decode(raw)
    except msgspec.ValidationError as error:
        found = locate_unknown_field(describe_mismatch(error, kind), kind)
        raise invalid_call(422, found.problem, found.where, found.help) from error
    except RecursionError as error:
        raise invalid_call(400, "the body is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise invalid_call(400, f"the body is not JSON: {error}") from error
    if check_keys:
        require_unique_keys(raw)
    return value


def require_unique_keys(raw: bytes) -> None:
    """Refuse JSON in which an object has a key twice: readers disagree on which value counts.

    Raises:
        ProblemError: A key occurs twice, or the text is nested too deeply.
    """
    try:
        _find_duplicates(raw.decode())
    except _DuplicateKeyError:
        where = _locate_duplicate(raw)
        raise invalid_call(422, "duplicate key", where, "send each key once") from None
    except RecursionError as error:
        raise invalid_call(400, "the body is nested too deeply") from error


class _DuplicateKeyError(Exception):
    """An object has a key twice."""


class _JsonObject(list[tuple[str, Any]]):
    """An object with all its keys, also duplicate ones."""


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _DuplicateKeyError


_find_duplicates = json.JSONDecoder(object_pairs_hook=_check_pairs, parse_int=len).decode


def _locate_duplicate(raw: bytes) -> str:
    """Return the path to the first key that an object has twice."""
    pending: list[tuple[str, Any]] = [("", json.loads(raw, object_pairs_hook=_JsonObject))]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _JsonObject):
            names: set[str] = set()
            for name, _ in value:
                if name in names:
                    return replace_surrogates(f"{path}.{name}".removeprefix(".")[:200])
                names.add(name)
            pending += [(f"{path}.{name}", part) for name, part in reversed(value)]
        elif isinstance(value, list):
            parts = list(enumerate(value))
            pending += [(f"{path}[{number}]", part) for number, part in reversed(parts)]
    return ""
