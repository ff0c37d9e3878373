"""The arguments of a tool call as plain JSON, and their check against a JSON schema.

Models hand over arguments as a JSON text or as values. Both end here as one plain value, so
that every check sees what the tool would see. Numbers of any size are kept: ids are often
larger than a double can hold.

The schema check covers type, enum, const, properties, required, additionalProperties,
patternProperties, items, prefixItems, the limits of numbers, texts, lists and objects, pattern,
allOf, anyOf, oneOf, not, and references within the schema. Conditions (`if`), dependencies,
other references, and patterns that need look-around are reported as not judged. Annotations
such as `format` are ignored.
"""

import json
from collections.abc import Callable, Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from demur.errors import InputError, InputTypeError

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
        UnreadableArgumentsError: The text is no JSON object, or one of its keys appears twice.
        InputError: The arguments are no JSON, too many, or nested too deep.
    """
    if isinstance(arguments, str):
        arguments = _parse_json(arguments)
    if not isinstance(arguments, Mapping):
        raise InputTypeError.wrong_type("arguments", "an object", arguments)
    reader = _ArgumentReader()
    plain: dict[str, Any] = reader.to_json_value(arguments, 0)
    _check_length(reader.size)
    return plain


def _check_length(size: int) -> None:
    if size > MAX_ARGUMENTS_LENGTH:
        problem = f"arguments hold more than {MAX_ARGUMENTS_LENGTH} characters"
        raise InputError(problem, help="pass a reference")


def _parse_json(text: str) -> dict[str, Any]:
    _check_length(len(text))
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
        raise ValueError("a key appears twice")
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
            deeper = depth + 1
            return {self._check_key(k): self.to_json_value(v, deeper) for k, v in value.items()}
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


_MAX_STEPS = 20_000
_MAX_SCHEMA_DEPTH = 120
_SHOWN = 5
_NOT_JUDGED = (
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
)


class SchemaViolation(NamedTuple):
    """One way in which a value does not fit, or a keyword that could not be judged."""

    place: str
    keyword: str
    problem: str
    allowed: Any = None
    judged: bool = True


def find_violations(value: Any, schema: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """Yield violations and keywords that could not be judged, in the order of the schema."""
    return _SchemaChecker(schema).check(value, schema, "", 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == value // 1,
}
_LIMITS: dict[str, tuple[Callable[[Any], bool], Callable[[Any, Any], bool], str]] = {
    "minimum": (_is_number, lambda value, limit: value >= limit, "is too small"),
    "maximum": (_is_number, lambda value, limit: value <= limit, "is too large"),
    "exclusiveMinimum": (_is_number, lambda value, limit: value > limit, "is too small"),
    "exclusiveMaximum": (_is_number, lambda value, limit: value < limit, "is too large"),
    "minLength": (_TYPES["string"], lambda value, limit: len(value) >= limit, "is too short"),
    "maxLength": (_TYPES["string"], lambda value, limit: len(value) <= limit, "is too long"),
    "minItems": (_TYPES["array"], lambda value, limit: len(value) >= limit, "has too few items"),
    "maxItems": (_TYPES["array"], lambda value, limit: len(value) <= limit, "has too many items"),
    "minProperties": (_TYPES["object"], lambda value, limit: len(value) >= limit, "has too few"),
    "maxProperties": (_TYPES["object"], lambda value, limit: len(value) <= limit, "has too many"),
}


_Schema = Mapping[str, Any]
_Violations = Iterator[SchemaViolation]


class _SchemaChecker:
    def __init__(self, root: _Schema) -> None:
        self.root = root
        self.left = _MAX_STEPS

    def check(self, value: Any, schema: Any, place: str, depth: int) -> _Violations:
        self.left -= 1
        if self.left == 0 or depth > _MAX_SCHEMA_DEPTH:
            yield SchemaViolation(place, "$schema", "is too complex to check")
        if self.left <= 0 or depth > _MAX_SCHEMA_DEPTH or schema is True:
            return
        if schema is False:
            yield SchemaViolation(place, "false", "is not expected")
        if not isinstance(schema, Mapping):
            return
        yield from self._check_value(value, schema, place)
        yield from self._check_limits(value, schema, place)
        yield from self._check_combined(value, schema, place, depth)
        if isinstance(value, dict):
            yield from self._check_object(value, schema, place, depth)
        elif isinstance(value, list):
            yield from self._check_list(value, schema, place, depth)
        for keyword in _NOT_JUDGED:
            if keyword in schema:
                yield SchemaViolation(place, keyword, "is not judged", judged=False)

    def _check_value(self, value: Any, schema: _Schema, place: str) -> _Violations:
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            tests = [_TYPES.get(name) for name in names if isinstance(name, str)]
            if not any(test is not None and test(value) for test in tests):
                yield SchemaViolation(place, "type", "has the wrong type", names[:_SHOWN])
        choices = schema.get("enum")
        if isinstance(choices, list) and not any(_is_equal(value, one) for one in choices):
            yield SchemaViolation(place, "enum", "is none of the values", choices[:_SHOWN])
        if "const" in schema and not _is_equal(value, schema["const"]):
            yield SchemaViolation(place, "const", "is not the value", schema["const"])
        if "pattern" in schema and isinstance(value, str):
            pattern = _compile_pattern(schema["pattern"])
            if pattern is None:
                yield SchemaViolation(place, "pattern", "is not judged", judged=False)
            elif not _search_pattern(pattern, value):
                yield SchemaViolation(place, "pattern", "does not match", schema["pattern"])

    def _check_limits(self, value: Any, schema: _Schema, place: str) -> _Violations:
        for keyword in schema.keys() & _LIMITS.keys():
            applies, holds, problem = _LIMITS[keyword]
            limit = schema[keyword]
            # Written so that NaN violates every limit.
            if applies(value) and _is_number(limit) and not holds(value, limit):
                yield SchemaViolation(place, keyword, problem, limit)
        if schema.get("uniqueItems") is True and isinstance(value, list):
            self.left -= len(value)
            if len({_json_key(item) for item in value}) < len(value):
                yield SchemaViolation(place, "uniqueItems", "has an item twice")

    def _check_combined(self, value: Any, schema: _Schema, place: str, depth: int) -> _Violations:
        if "$ref" in schema:
            target = _resolve_reference(self.root, schema["$ref"])
            if target is None:
                yield SchemaViolation(place, "$ref", "is not judged", judged=False)
            else:
                yield from self.check(value, target, place, depth + 1)
        for part in _schema_list(schema, "allOf"):
            yield from self.check(value, part, place, depth + 1)
        options = _schema_list(schema, "anyOf")
        if "anyOf" in schema and not any(self._is_valid(value, one, depth) for one in options):
            yield SchemaViolation(place, "anyOf", "fits none of the forms")
        if "oneOf" in schema:
            fitting = [p for p in _schema_list(schema, "oneOf") if self._is_valid(value, p, depth)]
            if len(fitting) != 1:
                yield SchemaViolation(place, "oneOf", f"fits {len(fitting)} of the forms, not one")
        if "not" in schema and self._is_valid(value, schema["not"], depth):
            yield SchemaViolation(place, "not", "has a form that is ruled out")

    def _is_valid(self, value: Any, schema: Any, depth: int) -> bool:
        return not any(violation.judged for violation in self.check(value, schema, "", depth + 1))

    def _check_object(self, value: Any, schema: _Schema, place: str, depth: int) -> _Violations:
        names = _schema_list(schema, "required")
        missing = [name for name in names if isinstance(name, str) and name not in value]
        if missing:
            yield SchemaViolation(place, "required", "lacks what is required", missing)
        known = _schema_mapping(schema, "properties")
        by_pattern = _schema_mapping(schema, "patternProperties")
        if any(_compile_pattern(text) is None for text in by_pattern):
            yield SchemaViolation(place, "patternProperties", "is not judged", judged=False)
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            where = f"{place}.{name}"[-200:] if place else name[:200]
            matching = [part for text, part in by_pattern.items() if _matches_pattern(text, name)]
            if name in known:
                matching.append(known[name])
            if not matching and rest is False:
                names = list(known)[:_SHOWN]
                yield SchemaViolation(where, "additionalProperties", "is not expected", names)
                continue
            for part in matching or (rest,):
                yield from self.check(item, part, where, depth + 1)

    def _check_list(self, value: list[Any], schema: _Schema, place: str, depth: int) -> _Violations:
        heads, items = _schema_list(schema, "prefixItems"), schema.get("items", True)
        for index, item in enumerate(value):
            part = heads[index] if index < len(heads) else items
            if part is not True:
                yield from self.check(item, part, f"{place}.{index}".lstrip("."), depth + 1)


def _is_equal(one: Any, other: Any) -> bool:
    return bool(_json_key(one) == _json_key(other))


def _json_key(value: Any) -> Any:
    """Return a hashable stand-in: `1` and `1.0` are one value in JSON, `true` and `1` are not."""
    if isinstance(value, Mapping):
        return ("object", frozenset((name, _json_key(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(_json_key(item) for item in value))
    return (isinstance(value, bool), value)


def _schema_mapping(schema: _Schema, keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _schema_list(schema: _Schema, keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _matches_pattern(pattern: str, name: str) -> bool:
    compiled = _compile_pattern(pattern)
    return compiled is not None and _search_pattern(compiled, name)


def _search_pattern(pattern: Any, text: str) -> bool:
    # A lone surrogate cannot be encoded.
    return pattern.search(text.encode("utf-8", "replace")) is not None


def _resolve_reference(root: _Schema, reference: Any) -> Any:
    """Return the part of the schema that a local reference means, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


@lru_cache(maxsize=1024)
def _compile_cached(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeError):
        return None


def _compile_pattern(pattern: Any) -> Any:
    return _compile_cached(pattern) if isinstance(pattern, str) and len(pattern) <= 1000 else None
