"""The guards that demur ships: one a surface, and the values that each takes.

They are named, not imported: a program that guards its input does not load a shell parser.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.guards.guard import Guard

__all__ = ["BUILTIN", "BuiltinGuard", "load_builtin", "find_builtin", "config_type", "event_type"]


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


BUILTIN: tuple[BuiltinGuard, ...] = (
    BuiltinGuard(
        Surface.INPUT,
        "demur.guards.input.guard",
        "demur.guards.input.guard:InputText",
        "demur.guards.input.guard:InputConfig",
        text="text",
    ),
    BuiltinGuard(
        Surface.OUTPUT,
        "demur.guards.output.guard",
        "demur.guards.output.guard:OutputText",
        "demur.guards.output.guard:OutputConfig",
        text="text",
    ),
    BuiltinGuard(
        Surface.TOOL_CALL,
        "demur.guards.tool_call.guard",
        "demur.guards.tool_call.guard:ToolCall",
        "demur.guards.tool_call.guard:ToolConfig",
        text="name",
    ),
    BuiltinGuard(
        Surface.TOOL_LOOP,
        "demur.guards.tool_loop.guard",
        "demur.guards.tool_loop.history:CallHistory",
        "demur.guards.tool_loop.guard:LoopConfig",
        items="calls",
    ),
    BuiltinGuard(
        Surface.TOOL_RESULT,
        "demur.guards.returned.tool_result",
        "demur.guards.returned.tool_result:ToolResult",
        "demur.guards.returned.tool_result:ToolResultConfig",
        text="text",
    ),
    BuiltinGuard(
        Surface.RETRIEVAL,
        "demur.guards.returned.retrieval",
        "demur.guards.returned.retrieval:RetrievedPassage",
        "demur.guards.returned.retrieval:RetrievalConfig",
        text="text",
    ),
    BuiltinGuard(
        Surface.SKILL,
        "demur.guards.skill.guard",
        "demur.guards.skill.bundle:Skill",
        "demur.guards.skill.bundle:SkillConfig",
    ),
    BuiltinGuard(
        Surface.COMPACTION,
        "demur.guards.compaction.guard",
        "demur.guards.compaction.guard:Compaction",
        "demur.guards.compaction.guard:CompactionConfig",
    ),
    BuiltinGuard(
        Surface.CODE_EXECUTION,
        "demur.guards.code_execution.guard",
        "demur.guards.code_execution.event:Command",
        "demur.guards.code_execution.config:CommandConfig",
        text="text",
    ),
    BuiltinGuard(
        Surface.RATE,
        "demur.guards.rate.guard",
        "demur.guards.rate.guard:RateUse",
        "demur.guards.rate.guard:RateConfig",
    ),
)
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
