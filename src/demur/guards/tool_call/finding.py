"""How findings about tools are put: the tool, the rule, and names that are safe to show."""

from collections.abc import Mapping
from typing import Any

from demur.codes.vocabulary import Surface
from demur.model.finding import Action, Finding, Span

__all__ = ["clip", "short", "tool_finding"]

_LONGEST_DETAIL = 120
_SHOWN = 40
_KEPT = 100


def tool_finding(
    tool: str,
    code: str,
    *,
    rule: str,
    detail: str,
    facts: Mapping[str, Any],
    action: Action = Action.BLOCK,
    span: Span | None = None,
) -> Finding:
    """Return a finding of the surface `tool_call` about `tool`."""
    return Finding(
        code=code,
        surface=Surface.TOOL_CALL,
        span=span,
        detail=detail[:_LONGEST_DETAIL],
        evidence={"rule": rule, "tool": clip(tool), **facts},
        action=action,
    )


def clip(text: str) -> str:
    """Return `text` cut to a length for evidence."""
    return text[:_KEPT]


def short(name: str) -> str:
    """Return `name` cut and made printable for one line."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:_SHOWN])
    return shown if len(name) <= _SHOWN else f"{shown[:-1]}…"
