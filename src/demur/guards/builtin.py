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

__all__ = ["BUILTIN", "Builtin", "builtin_guard", "builtin_of", "config_type", "event_type"]


class Builtin(NamedTuple):
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


BUILTIN: tuple[Builtin, ...] = (
    Builtin(
        Surface.INPUT,
        "demur.guards.input.guard",
        "demur.guards.input.guard:InputText",
        "demur.guards.input.guard:InputConfig",
        text="text",
    ),
    Builtin(
        Surface.OUTPUT,
        "demur.guards.output.guard",
        "demur.guards.output.guard:OutputText",
        "demur.guards.output.guard:OutputConfig",
        text="text",
    ),
    Builtin(
        Surface.TOOL_CALL,
        "demur.guards.tool_call.guard",
        "demur.guards.tool_call.guard:ToolCall",
        "demur.guards.tool_call.guard:ToolConfig",
        text="name",
    ),
    Builtin(
        Surface.TOOL_LOOP,
        "demur.guards.tool_loop.guard",
        "demur.guards.tool_loop.history:History",
        "demur.guards.tool_loop.guard:LoopConfig",
        items="calls",
    ),
    Builtin(
        Surface.TOOL_RESULT,
        "demur.guards.returned.tool_result",
        "demur.guards.returned.tool_result:ToolResult",
        "demur.guards.returned.tool_result:ToolResultConfig",
        text="text",
    ),
    Builtin(
        Surface.RETRIEVAL,
        "demur.guards.returned.retrieval",
        "demur.guards.returned.retrieval:Passage",
        "demur.guards.returned.retrieval:RetrievalConfig",
        text="text",
    ),
    Builtin(
        Surface.SKILL,
        "demur.guards.skill.guard",
        "demur.guards.skill.bundle:Skill",
        "demur.guards.skill.bundle:SkillConfig",
    ),
    Builtin(
        Surface.COMPACTION,
        "demur.guards.compaction.guard",
        "demur.guards.compaction.guard:Compaction",
        "demur.guards.compaction.guard:CompactionConfig",
    ),
    Builtin(
        Surface.CODE_EXECUTION,
        "demur.guards.code_execution.guard",
        "demur.guards.code_execution.event:Command",
        "demur.guards.code_execution.config:CommandConfig",
        text="text",
    ),
    Builtin(
        Surface.RATE,
        "demur.guards.rate.guard",
        "demur.guards.rate.guard:RateUse",
        "demur.guards.rate.guard:RateConfig",
    ),
)
_BY_SURFACE: Mapping[str, Builtin] = {builtin.surface: builtin for builtin in BUILTIN}


def builtin_of(surface: Surface | str) -> Builtin:
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
def builtin_guard(surface: Surface | str) -> Guard:
    """Return the built-in guard of a surface.

    Raises:
        InputError: There is none.
    """
    return cast("Guard", import_module(builtin_of(surface).module))


@cache
def event_type(surface: Surface | str) -> type[Any]:
    """Return the type of the events of a surface."""
    return _named(builtin_of(surface).event)


@cache
def config_type(surface: Surface | str) -> type[Any]:
    """Return the type of the settings of a surface's guard."""
    return _named(builtin_of(surface).config)


def _named(place: str) -> type[Any]:
    module, _, name = place.partition(":")
    return cast("type[Any]", getattr(import_module(module), name))
