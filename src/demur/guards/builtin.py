"""The built-in guards, one a surface, their events and settings, and `check()` in one call.

Guards are named, not imported: a program that guards its input does not load a shell parser.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import msgspec

from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.contract import Guard, installed_guards
from demur.model.finding import Finding
from demur.source.mismatch import describe_mismatch


class BuiltinGuard(NamedTuple):
    """Where a guard is and what it takes: its event, its config, and how a bare text is read.

    `text` names the field of the event that a bare text becomes, `items` the one that a bare
    list becomes.
    """

    surface: Surface
    module: str
    event: str
    config: str
    text: str | None = None
    items: str | None = None


def _describe(
    surface: Surface, event: str, config: str, *, package: bool = False, **bare: str
) -> BuiltinGuard:
    """Return a row for a guard in the module, or the package, named like its surface."""
    place = f"demur.guards.{surface}"
    guard, home = (f"{place}.guard", f"{place}.event") if package else (place, place)
    return BuiltinGuard(surface, guard, f"{home}:{event}", f"{home}:{config}", **bare)


BUILTIN = (
    _describe(Surface.INPUT, "InputText", "InputConfig", text="text"),
    _describe(Surface.OUTPUT, "OutputText", "OutputConfig", text="text"),
    _describe(Surface.TOOL_CALL, "ToolCall", "ToolConfig", text="name"),
    _describe(Surface.TOOL_LOOP, "CallHistory", "LoopConfig", items="calls"),
    _describe(Surface.TOOL_RESULT, "ToolResult", "ToolResultConfig", text="text"),
    _describe(Surface.RETRIEVAL, "RetrievedPassage", "RetrievalConfig", text="text"),
    _describe(Surface.SKILL, "Skill", "SkillConfig", package=True),
    _describe(Surface.COMPACTION, "Compaction", "CompactionConfig"),
    _describe(Surface.CODE_EXECUTION, "Command", "CommandConfig", package=True, text="text"),
    _describe(Surface.RATE, "RateUse", "RateConfig"),
)
# The smallest event of surfaces whose event is not a text.
EMPTY_EVENTS: dict[str, dict[str, Any]] = {
    Surface.TOOL_CALL: {"name": "none"},
    Surface.TOOL_LOOP: {"calls": []},
    Surface.SKILL: {"files": {}},
    Surface.COMPACTION: {"before": [], "after": []},
}
# The names of the setting for text rules, which differ between guards.
RULE_FIELDS = ("rules", "text_rules")
_BY_SURFACE: Mapping[str, BuiltinGuard] = {builtin.surface: builtin for builtin in BUILTIN}


def find_builtin(surface: Surface | str) -> BuiltinGuard:
    """Return the built-in guard of a surface, not loaded yet.

    Raises:
        InputError: There is none.
    """
    found = _BY_SURFACE.get(surface)
    if found is None:
        known = ", ".join(_BY_SURFACE)
        raise InputError(f"there is no guard for `{str(surface)[:40]}`", help=f"one of {known}")
    return found


@cache
def load_builtin(surface: Surface | str) -> Guard:
    """Return the built-in guard of a surface.

    Raises:
        InputError: There is none.
    """
    return cast("Guard", import_module(find_builtin(surface).module))


@cache
def event_type(surface: Surface | str) -> type[Any]:
    """Return the type of the events of a surface."""
    return _import_type(find_builtin(surface).event)


@cache
def config_type(surface: Surface | str) -> type[Any]:
    """Return the type of the settings of a surface's guard."""
    return _import_type(find_builtin(surface).config)


def _import_type(place: str) -> type[Any]:
    module, _, name = place.partition(":")
    return cast("type[Any]", getattr(import_module(module), name))


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
    expected = f"a `{kind.__name__}`" + ("" if builtin.text is None else ", or a text")
    raise InputTypeError.wrong_type(f"the event of `{surface}`", expected, value)


def read_config(surface: Surface | str, value: Any) -> Any:
    """Return `value` as the settings of the surface's guard; None means its defaults.

    Raises:
        InputError: It cannot be read as such; `where` is the path to the part at fault.
        InputTypeError: It is something else.
    """
    kind = config_type(surface)
    if value is None or isinstance(value, kind):
        return kind() if value is None else value
    if not isinstance(value, Mapping):
        raise InputTypeError.wrong_type("the config", f"a `{kind.__name__}`", value)
    return _convert_value(value, kind)


def find_rule_codes(config: Any) -> tuple[str, ...]:
    """Return the codes of the rules in the settings of a guard."""
    rules = (getattr(config, name, None) for name in RULE_FIELDS)
    codes = (code for one in rules for code in getattr(one, "codes", ()))
    return (*codes, *(rule.reason for rule in getattr(config, "argument_rules", ())))


def _convert_value(value: Mapping[str, Any], kind: type[Any]) -> Any:
    fields: tuple[str, ...] = getattr(kind, "__struct_fields__", None) or kind._fields
    if unknown := [str(name)[:80] for name in value if name not in fields]:
        help_text = f"one of {', '.join(fields)}"
        raise InputError(f"unknown field `{unknown[0]}`", where=unknown[0], help=help_text)
    try:
        # msgspec reads a NamedTuple by position, with defaults only from the right.
        values = dict(value) if hasattr(kind, "__struct_fields__") else _ordered_fields(value, kind)
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, kind)
        place = found.where or ""
        number, bracket, rest = place.removeprefix("[").partition("]")
        where = f"{fields[int(number)]}{rest}" if bracket and number.isdigit() else place or None
        raise InputError(found.problem, where=where, help=found.help) from error


def _ordered_fields(value: Mapping[str, Any], kind: type[Any]) -> list[Any]:
    filled = {**kind._field_defaults, **value}
    if missing := [name for name in kind._fields if name not in filled]:
        raise InputError(f"`{missing[0]}` is missing", where=missing[0])
    return [filled[name] for name in kind._fields]


def check(surface: Surface | str, event: Any, config: Any = None) -> list[Finding]:
    """Return the findings of a surface's guards in an event, built-in ones first.

    The event is the surface's own value, the same as plain JSON, or, where that suffices, a
    text; `config` is for the built-in guard. Guards do not decide: pass the findings to
    `Gate.decide`. A pipeline adds timeouts, shadow mode and monitoring, and `Enforcer.run_guards`
    the commands that a tool call runs.

    Raises:
        InputError: There is no such surface, or the event or the config is invalid.
        InputTypeError: One of them has the wrong type.
        GuardError: An installed guard is unusable.
    """
    guard = load_builtin(surface)
    value = parse_event(surface, event)
    found = list(guard.check(value, read_config(surface, config)))
    for other in installed_guards(surface):
        assert other.guard is not None
        found += other.guard.check(value, other.config)
    return found
