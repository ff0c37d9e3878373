"""`demur.guards.check()` in one line: all guards of a surface on one event."""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.guards.builtin import load_builtin
from demur.guards.events import read_config, parse_event
from demur.guards.installed import installed_guards
from demur.model.finding import Finding

__all__ = ["check"]


def check(surface: Surface | str, event: Any, config: Any = None) -> list[Finding]:
    """Return the findings of a surface's guards in an event, built-in ones first.

    The event is the surface's own value, the same as plain JSON, or, where that suffices, a
    text; `config` is for the built-in guard. Guards do not decide: pass the findings to
    `Gate.decide`. A pipeline adds timeouts, shadow mode and monitoring.

    Raises:
        InputError: There is no such surface, or the event or the config cannot be used.
        InputTypeError: One of them has the wrong type.
        GuardError: An installed guard cannot be used.
    """
    guard = load_builtin(surface)
    value = parse_event(surface, event)
    found = list(guard.check(value, read_config(surface, config)))
    for other in installed_guards(surface):
        assert other.guard is not None
        found += other.guard.check(value, other.config)
    return found
