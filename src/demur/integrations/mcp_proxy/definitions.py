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
from demur.guards.tool_call.finding import short, tool_finding
from demur.guards.tool_call.guard import CODES, ToolCall, ToolConfig, check_definition
from demur.guards.tool_call.identity import pinned_tool, strangeness
from demur.guards.tool_call.manifest import ToolDefinition, plain_schema
from demur.integrations.mcp_proxy.pins import Pins
from demur.integrations.mcp_proxy.texts import readable_icons
from demur.model.finding import Finding

__all__ = ["DefinitionGuard", "Offered", "offered", "rest_digest"]

_KNOWN = frozenset({"name", "description", "inputSchema"})
_UNPINNED = frozenset({"_meta"})
_CONFIG = ToolConfig()


class Offered(ToolCall, frozen=True, kw_only=True):
    """A tool as its server offers it; without a definition if it is unreadable.

    `called` says that a model has called it already.
    """

    rest: Mapping[str, Any] = {}
    called: bool = False


def offered(value: Any, source: str) -> Offered:
    """Return the tool in an entry of `tools/list`.

    Raises:
        InputError: It is invalid.
        InputTypeError: A part has the wrong type.
    """
    if not isinstance(value, dict):
        raise InputTypeError.expected("a tool", "an object", value)
    schema = value.get("inputSchema")
    name: Any = value.get("name")
    tool = ToolDefinition(
        name=name,
        description=value.get("description") or "",
        schema={} if schema is None else schema,
    )
    rest = {name: item for name, item in value.items() if name not in _KNOWN}
    return Offered(name=tool.name, source=source, tool=tool, rest=rest)


def rest_digest(tool: Offered) -> str:
    """Return the digest of a definition without its description and argument schema.

    Raises:
        InputError: It has no canonical form.
    """
    rest = {name: item for name, item in tool.rest.items() if name not in _UNPINNED}
    return digest(plain_schema(rest))


class DefinitionGuard:
    """Checks the definition of an offered tool, before a model calls it.

    A pinned and unchanged definition is not checked again: a person has agreed to it. Parts that
    no pin covers always are.
    """

    SURFACE: Surface = Surface.TOOL_CALL
    CODES: tuple[str, ...] = CODES
    blocking = False

    def __init__(self, pins: Pins | None = None) -> None:
        self._pins = pins

    def check(self, event: Offered, _config: object = None) -> Iterator[Finding]:
        """Yield how the tool differs from its pin, and instructions to the model in it."""
        if event.tool is None:
            yield _unreadable(event)
            return
        strange = [] if self._pins is None else list(self._strange(event, self._pins))
        yield from strange
        agreed = self._pins is not None and not strange
        for found in _unpinned_poison(event) if agreed else _poison(event):
            yield _unverified(found, event) if event.called else found

    @staticmethod
    def _strange(event: Offered, pins: Pins) -> Iterator[Finding]:
        found = list(strangeness(event.name, event.source, event.tool, pins.manifest))
        yield from found
        if found or pinned_tool(event.name, event.source, pins.manifest) is None:
            return
        # INVARIANT: no part of a definition that a model may see changes without a finding.
        expected, actual = pins.rest_of(event.source, event.name), rest_digest(event)
        if expected != actual:
            yield tool_finding(
                event.name,
                ReasonCode.UNVERIFIED_TOOL,
                rule="TOOL_CHANGED",
                detail=f"`{short(event.name)}` changed since it was pinned: title or hints",
                facts={
                    "changed": ["rest"],
                    "expected_digest": {"rest": expected},
                    "actual_digest": {"rest": actual},
                },
            )


def _unreadable(event: Offered) -> Finding:
    return tool_finding(
        event.name,
        ReasonCode.UNVERIFIED_TOOL,
        rule="TOOL_UNREADABLE",
        detail=f"the definition of `{short(event.name)}` cannot be read",
        facts={"source": event.source[:100]},
    )


def _poison(event: Offered) -> Iterator[Finding]:
    assert event.tool is not None
    yield from check_definition(event.tool, _CONFIG)
    yield from _poison_in(event, event.rest)


def _unpinned_poison(event: Offered) -> Iterator[Finding]:
    rest = {name: item for name, item in event.rest.items() if name in _UNPINNED}
    yield from _poison_in(event, rest)


def _poison_in(event: Offered, rest: Mapping[str, Any]) -> Iterator[Finding]:
    if rest:
        # Icons are data, not text.
        texts = {
            name: readable_icons(one) if name == "icons" else one for name, one in rest.items()
        }
        yield from check_definition(ToolDefinition(name=event.name, schema=texts), _CONFIG)


def _unverified(found: Finding, event: Offered) -> Finding:
    """Return the finding for a call of the tool: the tool is not verified."""
    facts = {"rule": "TOOL_POISONED", "seen": found.evidence.get("rule"), "found": str(found.code)}
    return msgspec.structs.replace(
        found,
        code=ReasonCode.UNVERIFIED_TOOL,
        detail=f"the definition of `{short(event.name)}` speaks to the model",
        evidence={**found.evidence, **facts},
    )
