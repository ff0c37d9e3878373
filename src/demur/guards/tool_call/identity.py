"""Whether a tool is the one that was pinned: its name, its server, its definition."""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.guards.tool_call.finding import shorten_name, tool_finding
from demur.guards.tool_call.manifest import (
    ToolManifest,
    PinnedTool,
    ToolDefinition,
    normalize_schema,
)
from demur.guards.tool_call.name import find_look_alike
from demur.model.finding import Finding, Span

__all__ = ["find_pinned", "check_identity"]


def find_pinned(name: str, source: str, manifest: ToolManifest) -> PinnedTool | None:
    """Return the pin of the tool of this server, or None."""
    return next((tool for tool in manifest.tools_named(name) if tool.source == source), None)


def check_identity(
    name: str, source: str, tool: ToolDefinition | None, manifest: ToolManifest
) -> Iterator[Finding]:
    """Yield a finding if the tool differs from its pin."""
    if pinned := find_pinned(name, source, manifest):
        if tool is not None:
            yield from _definition_changes(tool, pinned)
    elif others := manifest.tools_named(name):
        detail = f"`{shorten_name(name)}` is offered by another server than the pinned one"
        sources = [each.source for each in others[:5]]
        facts = {"changed": ["source"], "expected_source": sources, "source": source[:100]}
        yield _identity_finding(name, "TOOL_SHADOWED", detail, facts)
    elif known := find_look_alike(name, (each.name for each in manifest.tools)):
        detail = f"`{shorten_name(name)}` passes for the pinned tool `{shorten_name(known)}`"
        pair = {"looks_like": known, "source": source[:100]}
        yield _identity_finding(name, "TOOL_LOOKALIKE", detail, pair)
    else:
        detail = f"`{shorten_name(name)}` was never pinned"
        yield _identity_finding(name, "TOOL_UNKNOWN", detail, {"source": source[:100]})


def _definition_changes(tool: ToolDefinition, pinned: PinnedTool) -> Iterator[Finding]:
    actual = {
        "schema": digest(normalize_schema(tool.schema)),
        "description": digest(tool.description),
        "name": tool.name,
    }
    expected = {
        "schema": pinned.schema_digest,
        "description": pinned.description_digest,
        "name": pinned.name,
    }
    # INVARIANT: a definition that differs from the pinned one is never passed over.
    changed = [part for part in expected if expected[part] != actual[part]]
    if changed:
        facts = {
            "changed": changed,
            "expected_digest": {part: expected[part] for part in changed},
            "actual_digest": {part: actual[part][:100] for part in changed},
        }
        detail = f"`{shorten_name(pinned.name)}` changed since it was pinned: {', '.join(changed)}"
        yield _identity_finding(pinned.name, "TOOL_CHANGED", detail, facts)


def _identity_finding(name: str, rule: str, detail: str, facts: Mapping[str, Any]) -> Finding:
    span = Span(start=0, end=len(name))
    return tool_finding(
        name, ReasonCode.UNVERIFIED_TOOL, rule=rule, detail=detail, facts=facts, span=span
    )
