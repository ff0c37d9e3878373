import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.mcp_messages import ORDERS, reply, request, tool

from demur.integrations.mcp_proxy.definitions import ToolPins
from demur.integrations.mcp_proxy.pinning import (
    HandshakeError,
    add_pins,
    list_candidates,
    list_tools,
)


def test_each_tool_is_a_candidate_with_what_speaks_against_it() -> None:
    listed = [tool(), tool("notes", ORDERS), tool(), "odd", {"name": "bad", "inputSchema": 1}]

    found = list(list_candidates(listed, "toy"))

    assert [one.name for one in found] == ["echo", "notes", "echo", "?", "bad"]
    assert [one.is_poisoned for one in found] == [False, True, False, False, False]
    assert [bool(one.problem) for one in found] == [False, False, True, True, True]


def test_a_malformed_tool_is_not_pinned() -> None:
    pins = add_pins(ToolPins(), "toy", list_candidates([tool(), "odd"], "toy"))

    assert [pin.name for pin in pins.tools_of("toy")] == ["echo"]
    assert pins.rest_of("toy", "echo") is not None


Answer = Callable[[dict[str, Any]], Any]


class _Server:
    """Answers by a function; what is no JSON is said as it stands."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._says: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.heard: list[dict[str, Any]] = []

    async def send(self, line: bytes) -> None:
        message = json.loads(line)
        self.heard.append(message)
        for said in self._answer(message) or ():
            raw = said if isinstance(said, bytes | None) else json.dumps(said).encode()
            self._says.put_nowait(raw)

    async def lines(self) -> Any:
        while (line := await self._says.get()) != b"END":
            yield line

    async def close(self) -> int:
        return 0


def listed(answer: Answer, patience_s: float = 5) -> tuple[list[Any], list[dict[str, Any]]]:
    async def run() -> tuple[list[Any], list[dict[str, Any]]]:
        server = _Server(answer)
        return await list_tools(server, timeout_s=patience_s), server.heard

    return asyncio.run(run())


def paged(message: dict[str, Any]) -> Any:
    if message.get("method") == "initialize":
        ping = request("ping", "p")
        return [
            b"noise",
            b'{"id":9,"result":NaN}',
            ping,
            {"jsonrpc": "2.0", "method": "x"},
            reply(1, {}),
        ]
    if message.get("method") != "tools/list":
        return None
    first = "cursor" not in message["params"]
    page = {"tools": [tool("a")], "nextCursor": "2"} if first else {"tools": [tool("b")]}
    return [reply(message["id"], page)]


def test_all_pages_are_listed_and_pings_answered() -> None:
    tools, heard = listed(paged)

    assert [one["name"] for one in tools] == ["a", "b"]
    said = [one.get("method", "answer") for one in heard]
    assert said == ["initialize", "answer", "notifications/initialized", "tools/list", "tools/list"]


def test_a_server_without_a_handshake_is_queried_with_the_newer_protocol() -> None:
    def newer(message: dict[str, Any]) -> Any:
        if message["method"] == "initialize":
            return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601}}]
        assert "io.modelcontextprotocol/protocolVersion" in message["params"]["_meta"]
        return [reply(message["id"], {"tools": []})]

    assert listed(newer)[0] == []


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        (lambda _: [b"END"], "ended without an answer"),
        (lambda m: [reply(m["id"], {"tools": 5})] if "id" in m else None, "does not list"),
        (lambda m: [reply(m["id"], None)] if "id" in m else None, "does not list"),
        (
            lambda m: [reply(m["id"], {"tools": [], "nextCursor": "x"})] if "id" in m else None,
            "does not end",
        ),
        (lambda _: None, "did not answer within"),
        (lambda _: [None], "too long"),
        (lambda _: [b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}'], "the answer: `NaN`"),
    ],
)
def test_a_server_that_does_not_say_is_an_error(says: Answer, problem: str) -> None:
    with pytest.raises(HandshakeError, match=problem):
        listed(says, patience_s=0.3 if "within" in problem else 20)
