"""Tool definitions of MCP servers, their pins, and the guard that compares them.

A pin holds description and argument schema. The digest of the rest (title, hints that a host
trusts, result schema) stands beside it. Only `_meta` is not pinned, because it changes: it is
checked each time.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.tool_call import CODES, ToolCall, ToolConfig, check_definition
from demur.guards.tool_manifest import (
    PinnedTool,
    ToolDefinition,
    ToolManifest,
    check_identity,
    find_pinned,
    normalize_schema,
    shorten_name,
    tool_finding,
)
from demur.integrations.mcp_proxy.content import readable_icons
from demur.model.finding import Finding


class ToolPins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pinned tools, of one server or several.

    `manifest` pins description and schema of each tool; `rest` is the digest of everything else
    in its definition, by server and tool.
    """

    manifest: ToolManifest = ToolManifest()
    rest: Mapping[str, Mapping[str, str]] = {}
    schema_version: Literal["mcp_pins.v1"] = "mcp_pins.v1"

    def rest_of(self, server: str, tool: str) -> str | None:
        """Return the digest of a definition's remaining members, or None."""
        return self.rest.get(server, {}).get(tool)

    def tools_of(self, server: str) -> tuple[PinnedTool, ...]:
        """Return the tools that are pinned for a server."""
        return tuple(tool for tool in self.manifest.tools if tool.source == server)

    def with_server(
        self, server: str, tools: tuple[PinnedTool, ...], rest: Mapping[str, str]
    ) -> "ToolPins":
        """Return the pins with these tools of a server in place of its earlier ones."""
        others = tuple(tool for tool in self.manifest.tools if tool.source != server)
        manifest = ToolManifest(tools=(*others, *tools))
        return ToolPins(manifest=manifest, rest={**self.rest, server: rest})

    def to_json(self) -> str:
        """Return the pins as JSON, for a file under version control."""
        raw = msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2)
        return raw.decode() + "\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return the pins written in `text`.

        Raises:
            InputError: They are invalid.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"not pins: {reason}", help="`demur mcp pin` writes them") from error


def read_pins(path: Path) -> ToolPins:
    """Return the pins in a file.

    Raises:
        InputError: It is unreadable or invalid.
    """
    try:
        return ToolPins.from_json(path.read_bytes())
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot read the pins: {reason}", where=str(path)) from error


_PINNED_BY_MANIFEST = frozenset({"name", "description", "inputSchema"})
_UNPINNED_MEMBERS = frozenset({"_meta"})
_CONFIG = ToolConfig()


class OfferedTool(ToolCall, frozen=True, kw_only=True):
    """A tool as its server offers it; without a definition if it is unreadable.

    `called` says that a model has called it already. `first` is the definition that the server
    offered first in this session, if this one is another.
    """

    rest: Mapping[str, Any] = {}
    called: bool = False
    first: "OfferedTool | None" = None


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

    def check(self, event: OfferedTool, config: ToolConfig | None = None) -> Iterator[Finding]:
        """Yield how the tool differs from its pin, and instructions to the model in it."""
        if event.tool is None:
            yield _unreadable_finding(event)
            return
        strange = [] if self._pins is None else list(self._pin_differences(event, self._pins))
        yield from strange
        if self._pins is None and event.first is not None:
            yield from _session_changes(event, event.first)
        agreed = self._pins is not None and not strange
        rest = event.rest
        if agreed:
            rest = {name: item for name, item in rest.items() if name in _UNPINNED_MEMBERS}
        else:
            yield from self._for_call(event, check_definition(event.tool, config or _CONFIG))
        yield from self._for_call(event, _find_poison(event, rest))

    @staticmethod
    def _for_call(event: OfferedTool, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings; for a call of the tool they mean that it is not verified."""
        for one in findings:
            if not event.called:
                yield one
                continue
            rule, code = one.evidence.get("rule"), str(one.code)
            facts = {"rule": "TOOL_POISONED", "seen": rule, "found": code}
            yield msgspec.structs.replace(
                one,
                code=ReasonCode.UNVERIFIED_TOOL,
                detail=f"the definition of `{shorten_name(event.name)}` speaks to the model",
                evidence={**one.evidence, **facts},
            )

    @staticmethod
    def _pin_differences(event: OfferedTool, pins: ToolPins) -> Iterator[Finding]:
        findings = list(check_identity(event.name, event.source, event.tool, pins.manifest))
        yield from findings
        if findings or find_pinned(event.name, event.source, pins.manifest) is None:
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


# INVARIANT: without pins, the first trusted definition of a session is the only one.
def _session_changes(event: OfferedTool, first: OfferedTool) -> Iterator[Finding]:
    """Yield a finding if a tool is not as the server offered it first in this session."""
    before, after = _part_digests(first), _part_digests(event)
    changed = [part for part in after if before.get(part) != after[part]]
    if changed:
        name = shorten_name(event.name)
        yield tool_finding(
            event.name,
            ReasonCode.UNVERIFIED_TOOL,
            rule="TOOL_CHANGED",
            detail=f"`{name}` changed within this session: {', '.join(changed)}",
            facts={
                "changed": changed,
                "expected_digest": {part: before.get(part) for part in changed},
                "actual_digest": {part: after[part] for part in changed},
            },
        )


def _part_digests(tool: OfferedTool) -> dict[str, str]:
    """Return the digests of a definition's parts; none of one that cannot be read."""
    if tool.tool is None:
        return {}
    return {
        "schema": digest(normalize_schema(tool.tool.schema)),
        "description": digest(tool.tool.description),
        "title or hints": rest_digest(tool),
    }


def _unreadable_finding(event: OfferedTool) -> Finding:
    return tool_finding(
        event.name,
        ReasonCode.UNVERIFIED_TOOL,
        rule="TOOL_UNREADABLE",
        detail=f"the definition of `{shorten_name(event.name)}` cannot be read",
        facts={"source": event.source[:100]},
    )


def _find_poison(event: OfferedTool, rest: Mapping[str, Any]) -> Iterator[Finding]:
    if rest:
        # Icons are data, not text.
        texts = {key: readable_icons(one) if key == "icons" else one for key, one in rest.items()}
        yield from check_definition(ToolDefinition(name=event.name, schema=texts), _CONFIG)
