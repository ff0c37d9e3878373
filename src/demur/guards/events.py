"""Events and settings of a surface, from what a caller has: a text, plain JSON, or the value."""

from collections.abc import Mapping
from typing import Any

import msgspec

from demur.codes.vocabulary import Surface
from demur.errors import DemurError, InputError, InputTypeError
from demur.guards.builtin import find_builtin, config_type, event_type

__all__ = ["read_config", "parse_event"]


def parse_event(surface: Surface | str, value: Any) -> Any:
    """Return `value` as the surface's event; an event comes back as it is.

    Raises:
        InputError: It cannot be read as one; `where` is the path to the part at fault.
        InputTypeError: The surface takes no bare text, or no list.
    """
    kind = event_type(surface)
    if isinstance(value, kind):
        return value
    builtin = find_builtin(surface)
    if isinstance(value, str) and builtin.text is not None:
        return kind(**{builtin.text: value})
    if isinstance(value, list | tuple) and builtin.items is not None:
        return _convert_value({builtin.items: list(value)}, kind)
    if isinstance(value, Mapping):
        return _convert_value(value, kind)
    wanted = f"a `{kind.__name__}`" + ("" if builtin.text is None else ", or a text")
    raise InputTypeError.wrong_type(f"the event of `{surface}`", wanted, value)


def read_config(surface: Surface | str, value: Any) -> Any:
    """Return `value` as the settings of the surface's guard; None means its defaults.

    Raises:
        InputError: It cannot be read as such; `where` is the path to the part at fault.
        InputTypeError: It is something else.
    """
    kind = config_type(surface)
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InputTypeError.wrong_type("the config", f"a `{kind.__name__}`", value)
    return _convert_value(value, kind)


def _convert_value(value: Mapping[str, Any], kind: type[Any]) -> Any:
    fields: tuple[str, ...] = getattr(kind, "__struct_fields__", None) or kind._fields
    unknown = [name for name in value if name not in fields]
    if unknown:
        known = ", ".join(fields)
        name = str(unknown[0])[:80]
        raise InputError(f"unknown field `{name}`", where=name, help=f"one of {known}")
    try:
        # msgspec reads a NamedTuple by position, with defaults only from the right.
        given = dict(value) if hasattr(kind, "__struct_fields__") else _ordered_fields(value, kind)
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at ")
        where = _field_path(path, fields)
        cause = error.__cause__
        if isinstance(cause, DemurError):
            raise InputError(cause.problem, where=where, help=cause.help) from error
        raise InputError(problem[:1].lower() + problem[1:], where=where) from error


def _ordered_fields(value: Mapping[str, Any], kind: type[Any]) -> list[Any]:
    filled = {**kind._field_defaults, **value}
    missing = [name for name in kind._fields if name not in filled]
    if missing:
        raise InputError(f"`{missing[0]}` is missing", where=missing[0])
    return [filled[name] for name in kind._fields]


def _field_path(path: str, fields: tuple[str, ...]) -> str | None:
    place = path.strip("`").removeprefix("$").lstrip(".")
    number, bracket, rest = place.removeprefix("[").partition("]")
    return f"{fields[int(number)]}{rest}" if bracket and number.isdigit() else place or None
