"""Tool definitions of an MCP server: how they are read, and what speaks against one.

A pin holds description and schema of the arguments. The rest of a definition (title, hints
that a host trusts, the schema of results) is part of what somebody agreed to as well; its
digest stands beside the pin. Only `_meta` is left out, because it changes: what it says is
looked at each time.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.tool_call.finding import shorten_name, tool_finding
from demur.guards.tool_call.guard import CODES, ToolCall, ToolConfig, check_definition
from demur.guards.tool_call.identity import find_pinned, check_identity
from demur.guards.tool_call.manifest import ToolDefinition, normalize_schema
from demur.integrations.mcp_proxy.pins import ToolPins
from demur.integrations.mcp_proxy.texts import readable_icons
from demur.model.finding import Finding

__all__ = ["DefinitionGuard", "OfferedTool", "parse_tool", "rest_digest"]

_PINNED_BY_MANIFEST = frozenset({"name", "description", "inputSchema"})
_UNPINNED_MEMBERS = frozenset({"_meta"})
_CONFIG = ToolConfig()


class OfferedTool(ToolCall, frozen=True, kw_only=True):
    """A tool as its server offers it; without a definition if it is unreadable.

    `called` says that a model has called it already.
    """

    rest: Mapping[str, Any] = {}
    called: bool = False


def parse_tool(value: Any, source: str) -> OfferedTool:
    """Return the tool in an entry of `tools/list`.

    Raises:
        InputError: It is invalid.
        InputTypeError: A part has the wrong type.
    """
    if not isinstance(value, dict):
        raise InputTypeError.wrong_type("a tool", "an object", value)
    schema = value.get("inputSchema")
    name: Any = value.get("name")
    tool = ToolDefinition(
        name=name,
        description=value.get("description") or "",
        schema={} if schema is None else schema,
    )
    rest = {name: item for name, item in value.items() if name not in _PINNED_BY_MANIFEST}
    return OfferedTool(name=tool.name, source=source, tool=tool, rest=rest)


def rest_digest(tool: OfferedTool) -> str:
    """Return the digest of a definition without its description and argument schema.

    Raises:
        InputError: It has no canonical form.
    """
    rest = {name: item for name, item in tool.rest.items() if name not in _UNPINNED_MEMBERS}
    return digest(normalize_schema(rest))


class DefinitionGuard:
    """Checks the definition of an offered tool, before a model calls it.

    A pinned and unchanged definition is not checked again: a person has agreed to it. Parts that
    no pin covers always are.
    """

    SURFACE: Surface = Surface.TOOL_CALL
    CODES: tuple[str, ...] = CODES
    blocking = False

    def __init__(self, pins: ToolPins | None = None) -> None:
        self._pins = pins

    def check(self, event: OfferedTool, _config: object = None) -> Iterator[Finding]:
        """Yield how the tool differs from its pin, and instructions to the model in it."""
        if event.tool is None:
            yield _unreadable_finding(event)
            return
        strange = [] if self._pins is None else list(self._pin_differences(event, self._pins))
        yield from strange
        agreed = self._pins is not None and not strange
        for found in _find_unpinned_poison(event) if agreed else _find_poison(event):
            yield _as_unverified(found, event) if event.called else found

    @staticmethod
    def _pin_differences(event: OfferedTool, pins: ToolPins) -> Iterator[Finding]:
        found = list(check_identity(event.name, event.source, event.tool, pins.manifest))
        yield from found
        if found or find_pinned(event.name, event.source, pins.manifest) is None:
            return
        # INVARIANT: no part of a definition that a model may see changes without a finding.
        expected, actual = pins.rest_of(event.source, event.name), rest_digest(event)
        if expected != actual:
            yield tool_finding(
                event.name,
                ReasonCode.UNVERIFIED_TOOL,
                rule="TOOL_CHANGED",
                detail=f"`{shorten_name(event.name)}` changed since it was pinned: title or hints",
                facts={
                    "changed": ["rest"],
                    "expected_digest": {"rest": expected},
                    "actual_digest": {"rest": actual},
                },
            )


def _unreadable_finding(event: OfferedTool) -> Finding:
    return tool_finding(
        event.name,
        ReasonCode.UNVERIFIED_TOOL,
        rule="TOOL_UNREADABLE",
        detail=f"the definition of `{shorten_name(event.name)}` cannot be read",
        facts={"source": event.source[:100]},
    )


def _find_poison(event: OfferedTool) -> Iterator[Finding]:
    assert event.tool is not None
    yield from check_definition(event.tool, _CONFIG)
    yield from _find_poison_in(event, event.rest)


def _find_unpinned_poison(event: OfferedTool) -> Iterator[Finding]:
    rest = {name: item for name, item in event.rest.items() if name in _UNPINNED_MEMBERS}
    yield from _find_poison_in(event, rest)


def _find_poison_in(event: OfferedTool, rest: Mapping[str, Any]) -> Iterator[Finding]:
    if rest:
        # Icons are data, not text.
        texts = {
            name: readable_icons(one) if name == "icons" else one for name, one in rest.items()
        }
        yield from check_definition(ToolDefinition(name=event.name, schema=texts), _CONFIG)


def _as_unverified(found: Finding, event: OfferedTool) -> Finding:
    """Return the finding for a call of the tool: the tool is not verified."""
    facts = {"rule": "TOOL_POISONED", "seen": found.evidence.get("rule"), "found": str(found.code)}
    return msgspec.structs.replace(
        found,
        code=ReasonCode.UNVERIFIED_TOOL,
        detail=f"the definition of `{shorten_name(event.name)}` speaks to the model",
        evidence={**found.evidence, **facts},
    )
