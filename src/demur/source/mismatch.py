"""Explain why a value is not of a type: where, what, and what would be right."""

import re
from typing import Any

import msgspec
import msgspec.inspect

from demur.errors import DemurError, Problem
from demur.source.item import did_you_mean

_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_INVALID_CHOICE = re.compile(r"[Ii]nvalid enum value '?([^']*)'?")
_EXPECTED = re.compile(r"[Ee]xpected `(\w+)")
_OUT_OF_RANGE = re.compile(r"[Ee]xpected `(?:int|float)` ([<>]=?) (\S+)")
_BOUNDS = {">": "above", ">=": "not below", "<": "below", "<=": "not above"}
_PATH_PART = re.compile(r"\w+|\[[^]]*\]")
_EXAMPLES = {
    "array": 'a list, like `["a", "b"]`',
    "bool": "`true` or `false`",
    "float": "a number, like 1.5",
    "int": "a whole number, like 5",
    "str": 'a text, like `"a"`',
}


def describe_mismatch(error: msgspec.ValidationError, kind: Any) -> Problem:
    """Return the problem that kept a value from being converted to the type `kind`."""
    problem, _, at = str(error).partition(" - at ")
    where = at.strip("`").removeprefix("$").lstrip(".") or None
    cause = error.__cause__
    if isinstance(cause, DemurError):
        places = dict.fromkeys(filter(None, (where, cause.where)))
        return Problem(".".join(places) or None, cause.problem, cause.help)
    if unknown := _UNKNOWN_FIELD.search(problem):
        problem = f"unknown field `{unknown[1][:80]}`"
    return Problem(where, problem[:1].lower() + problem[1:], _suggest_value(problem, where, kind))


def locate_unknown_field(found: Problem, kind: Any) -> Problem:
    """Return the problem of an unknown field with the field's own place and all known fields."""
    unknown = _UNKNOWN_FIELD.search(found.problem)
    if unknown is None:
        return found
    names = _field_names(_find_type(kind, found.where or ""))
    listed = f"the fields are {', '.join(names)}" if names else None
    meant = did_you_mean(unknown[1], names)
    place = f"{found.where}.{unknown[1]}" if found.where else unknown[1]
    return Problem(place, found.problem, "; ".join(filter(None, (meant, listed))) or None)


def _suggest_value(problem: str, where: str | None, kind: Any) -> str | None:
    """Return what would be right instead, as far as the type says it."""
    expected = _find_type(kind, where or "")
    if unknown := _UNKNOWN_FIELD.search(problem):
        return _suggest_name(unknown[1], _field_names(expected))
    if choice := _INVALID_CHOICE.search(problem):
        return _suggest_name(choice[1], _choices(expected))
    if "missing required field" in problem:
        return f"required: {', '.join(_field_names(expected, required=True))}"
    if bound := _OUT_OF_RANGE.match(problem):
        return f"a number {_BOUNDS[bound[1]]} {bound[2].removesuffix('.0')}"
    named = _EXPECTED.match(problem)
    if named and named[1] == "object":
        names = _field_names(expected)
        return f"an object with {', '.join(names)}" if names else "an object of names and values"
    return _EXAMPLES.get(named[1]) if named and "got" in problem else None


def _suggest_name(name: str, known: list[str]) -> str | None:
    return (did_you_mean(name, known) or f"one of {', '.join(known)}") if known else None


def _find_type(kind: Any, where: str) -> list[Any]:
    """Return what may stand at a place in a value of a type: the members of a union apart."""
    found = _union_members(msgspec.inspect.type_info(kind))
    for part in _PATH_PART.findall(where):
        found = [inner for outer in found for inner in _inner_types(outer, part)]
    return found


def _union_members(one: Any) -> list[Any]:
    return list(getattr(one, "types", (one,)))


def _inner_types(outer: Any, part: str) -> list[Any]:
    number = part.strip("[]")
    if part.startswith("[") and hasattr(outer, "fields"):
        # A named tuple is read by position.
        return _union_members(outer.fields[int(number)].type) if number.isdigit() else []
    if part.startswith("["):
        inner = getattr(outer, "item_type", None) or getattr(outer, "value_type", None)
        return [] if inner is None else _union_members(inner)
    fields = [field for field in getattr(outer, "fields", ()) if field.encode_name == part]
    return [inner for field in fields for inner in _union_members(field.type)]


def _field_names(types: list[Any], *, required: bool = False) -> list[str]:
    fields = [field for one in types for field in getattr(one, "fields", ())]
    return [field.encode_name for field in fields if field.required or not required]


def _choices(types: list[Any]) -> list[str]:
    enums = [one.cls for one in types if hasattr(one, "cls") and hasattr(one.cls, "__members__")]
    literals = [str(value) for one in types for value in getattr(one, "values", ())]
    return [str(member.value) for enum in enums for member in enum] + literals
