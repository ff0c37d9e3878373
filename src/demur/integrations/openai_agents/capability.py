"""Capabilities of a sandbox agent of the OpenAI Agents SDK: tools that are there only in a run."""

from collections.abc import Callable
from typing import Any, ClassVar

from agents import Tool
from agents.sandbox.capabilities import Capability

__all__ = ["guard_capability", "is_guarded_by"]

_GUARD = "demur_guard"


def guard_capability(
    capability: Capability, guard: object, guard_tool: Callable[[Tool], Tool]
) -> Capability:
    """Return a copy of a capability whose tools are guarded; `guard` identifies the guard.

    The SDK clones capabilities for each run and checks their type, so the copy gets a subclass
    of its own.
    """
    kind: Any = type(capability)

    class Guarded(kind):  # type: ignore[misc, unused-ignore]
        demur_guard: ClassVar[object] = guard

        def tools(self) -> list[Tool]:
            return [guard_tool(tool) for tool in super().tools()]

    Guarded.__name__, Guarded.__qualname__ = kind.__name__, kind.__qualname__
    copy = capability.clone()
    object.__setattr__(copy, "__class__", Guarded)
    return copy


def is_guarded_by(capability: Capability, guard: object) -> bool:
    """Return whether this guard guards the tools of a capability."""
    return getattr(type(capability), _GUARD, None) is guard
