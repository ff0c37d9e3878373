"""List the tools of a server without a client, and choose which of them can be pinned."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.errors import DemurError
from demur.guards.tool_manifest import PinnedTool, pin_tool
from demur.integrations.mcp_proxy.definitions import (
    DefinitionGuard,
    OfferedTool,
    ToolPins,
    parse_tool,
    rest_digest,
)
from demur.integrations.mcp_proxy.transport import Upstream
from demur.model.finding import Action, Finding
from demur.version import __version__


class PinCandidate(NamedTuple):
    """A tool to pin, with its findings; `problem` says why it cannot be pinned."""

    name: str
    tool: OfferedTool | None = None
    pin: PinnedTool | None = None
    rest: str = ""
    findings: tuple[Finding, ...] = ()
    problem: str = ""

    @property
    def is_poisoned(self) -> bool:
        """Whether its definition has findings beyond a warning."""
        return any(one.action is not Action.WARN for one in self.findings)


def list_candidates(tools: Iterable[Any], server: str) -> Iterator[PinCandidate]:
    """Yield each tool that a server lists, with its findings."""
    names: set[str] = set()
    for entry in tools:
        name = entry.get("name") if isinstance(entry, dict) else None
        name = name if isinstance(name, str) else "?"
        if name in names:
            yield PinCandidate(name, problem="another tool has the same name")
            continue
        names.add(name)
        try:
            tool = parse_tool(entry, server)
            assert tool.tool is not None
            pin = pin_tool(tool.name, tool.tool.description, tool.tool.schema, server)
            findings = tuple(DefinitionGuard().check(tool))
            yield PinCandidate(tool.name, tool, pin, rest_digest(tool), findings)
        except DemurError as error:
            yield PinCandidate(name, problem=error.problem)


def add_pins(pins: ToolPins, server: str, chosen: Iterable[PinCandidate]) -> ToolPins:
    """Return the pins with the chosen tools of a server in place of its earlier ones."""
    pinned = [(one.pin, one.rest) for one in chosen if one.pin is not None]
    tools = tuple(pin for pin, _ in pinned)
    return pins.with_server(server, tools, {pin.name: rest for pin, rest in pinned})


HANDSHAKE_TIMEOUT_S = 30.0
_VERSION = "2025-11-25"
_STATELESS_VERSION = "2026-07-28"
_CLIENT_INFO = {"name": "demur", "version": __version__}
# Newer servers have no handshake: each request carries the client's info.
_REQUEST_META = {
    "io.modelcontextprotocol/protocolVersion": _STATELESS_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT_INFO,
}
_MAX_PAGES = 1000


class HandshakeError(DemurError):
    """A server does not answer, or not as the protocol demands."""


async def list_tools(server: Upstream, *, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> list[Any]:
    """Return the definitions of all tools that a server offers.

    Raises:
        HandshakeError: It does not list them, or not in time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _Handshake(server).list_all_tools()
    except TimeoutError as error:
        raise HandshakeError(f"the server did not answer within {timeout_s:g} seconds") from error


class _Handshake:
    """One connection, with demur as the client."""

    def __init__(self, server: Upstream) -> None:
        self._server = server
        self._lines = server.lines()
        self._count = 0

    async def list_all_tools(self) -> list[Any]:
        hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": _CLIENT_INFO}
        greeting = await self._send_request("initialize", hello)
        more: dict[str, Any] = {"_meta": _REQUEST_META} if "error" in greeting else {}
        if not more:
            await self._send_message({"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools: list[Any] = []
        cursor = None
        for _ in range(_MAX_PAGES):
            page = {**more, **({} if cursor is None else {"cursor": cursor})}
            result = (await self._send_request("tools/list", page)).get("result")
            if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
                raise HandshakeError("the server does not list its tools")
            tools += result["tools"]
            cursor = result.get("nextCursor")
            if cursor is None:
                return tools
        raise HandshakeError("the list of tools does not end")

    async def _send_message(self, message: dict[str, Any]) -> None:
        await self._server.send(rpc.encode_message(message))

    async def _send_request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        question = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        await self._send_message(question)
        async for line in self._lines:
            if line is None:
                raise HandshakeError("an answer of the server is too long")
            try:
                message = rpc.parse_message(rpc.parse_json(line))
            except rpc.MessageError as error:
                lost = [one for one in rpc.salvage_messages(line) if isinstance(one, dict)]
                if any(one.get("id") == self._count for one in lost if "method" not in one):
                    raise HandshakeError(f"cannot read the answer: {error.problem}") from error
                continue
            if message.kind is rpc.MessageKind.RESPONSE and message.key == ("number", self._count):
                return message.value
            if message.kind is rpc.MessageKind.REQUEST and message.method == "ping":
                await self._send_message(rpc.result_response(message.value["id"], {}))
        raise HandshakeError("the server ended without an answer")
