"""Whether a tool is the one that was pinned: its name, its server, its definition."""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.guards.tool_call.finding import short, tool_finding
from demur.guards.tool_call.manifest import Manifest, PinnedTool, ToolDefinition, plain_schema
from demur.guards.tool_call.name import look_alike
from demur.model.finding import Finding, Span

__all__ = ["pinned_tool", "strangeness"]


def pinned_tool(name: str, source: str, manifest: Manifest) -> PinnedTool | None:
    """Return the pin of the tool of this server, or None."""
    return next((tool for tool in manifest.named(name) if tool.source == source), None)


def strangeness(
    name: str, source: str, tool: ToolDefinition | None, manifest: Manifest
) -> Iterator[Finding]:
    """Yield a finding if the tool differs from its pin."""
    if pinned := pinned_tool(name, source, manifest):
        if tool is not None:
            yield from _changes(tool, pinned)
    elif others := manifest.named(name):
        detail = f"`{short(name)}` is offered by another server than the pinned one"
        sources = [each.source for each in others[:5]]
        facts = {"changed": ["source"], "expected_source": sources, "source": source[:100]}
        yield _unverified(name, "TOOL_SHADOWED", detail, facts)
    elif known := look_alike(name, (each.name for each in manifest.tools)):
        detail = f"`{short(name)}` passes for the pinned tool `{short(known)}`"
        pair = {"looks_like": known, "source": source[:100]}
        yield _unverified(name, "TOOL_LOOKALIKE", detail, pair)
    else:
        detail = f"`{short(name)}` was never pinned"
        yield _unverified(name, "TOOL_UNKNOWN", detail, {"source": source[:100]})


def _changes(tool: ToolDefinition, pinned: PinnedTool) -> Iterator[Finding]:
    actual = {
        "schema": digest(plain_schema(tool.schema)),
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
        detail = f"`{short(pinned.name)}` changed since it was pinned: {', '.join(changed)}"
        yield _unverified(pinned.name, "TOOL_CHANGED", detail, facts)


def _unverified(name: str, rule: str, detail: str, facts: Mapping[str, Any]) -> Finding:
    span = Span(start=0, end=len(name))
    return tool_finding(
        name, ReasonCode.UNVERIFIED_TOOL, rule=rule, detail=detail, facts=facts, span=span
    )
