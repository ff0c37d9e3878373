"""How findings about tools are put: the tool, the rule, and names that are safe to show."""

from collections.abc import Mapping
from typing import Any

from demur.codes.vocabulary import Surface
from demur.model.finding import Action, Finding, Span

__all__ = ["clip_evidence", "shorten_name", "tool_finding"]

_MAX_DETAIL = 120
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
        detail=detail[:_MAX_DETAIL],
        evidence={"rule": rule, "tool": clip_evidence(tool), **facts},
        action=action,
    )


def clip_evidence(text: str) -> str:
    """Return `text` cut to a length for evidence."""
    return text[:_KEPT]


def shorten_name(name: str) -> str:
    """Return `name` cut and made printable for one line."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:_SHOWN])
    return shown if len(name) <= _SHOWN else f"{shown[:-1]}…"
