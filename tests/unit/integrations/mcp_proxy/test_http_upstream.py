import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mcp_messages import call, note, reply, request

from demur.errors import MissingExtraError
from demur.integrations.mcp_proxy.http_upstream import EventSplitter, HttpUpstream

JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream; charset=utf-8"}
META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
Site = Callable[[httpx.Request], Any]


def event(message: Any) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


async def talked(site: Site, *messages: Any, **more: Any) -> list[Any]:
    """Return all that a server says until its answers are there and it is closed."""

    async def handle(sent: httpx.Request) -> httpx.Response:
        answer = site(sent)
        response: httpx.Response = await answer if isinstance(answer, Awaitable) else answer
        return response

    server = HttpUpstream("http://mcp.test/mcp", transport=httpx.MockTransport(handle), **more)
    for message in messages:
        await server.send(json.dumps(message).encode())
        # What a request leads to comes before what is said next.
        await asyncio.sleep(0.01)
    assert await server.close() == 0
    return [None if line is None else json.loads(line) async for line in server.lines()]


def said(site: Site, *messages: Any, **more: Any) -> list[Any]:
    return asyncio.run(talked(site, *messages, **more))


def answering(*responses: Any) -> tuple[Site, list[httpx.Request]]:
    """Return a site that answers in turn, and what it was asked."""
    left = list(responses)
    seen: list[httpx.Request] = []

    def site(sent: httpx.Request) -> Any:
        seen.append(sent)
        return left.pop(0) if left else httpx.Response(405)

    return site, seen


def test_an_answer_may_be_json_over_many_lines() -> None:
    pretty = json.dumps(reply(1, {"a": "b"}), indent=2)
    site, _ = answering(httpx.Response(200, headers=JSON, text=pretty))

    assert said(site, request("ping")) == [reply(1, {"a": "b"})]


def test_an_answer_may_come_as_events_after_other_messages() -> None:
    progress = note("notifications/progress", progress=1)
    stream = event(progress) + event(reply(1, {})) + event(note("too/late"))
    site, _ = answering(httpx.Response(200, headers=SSE, content=stream))

    assert said(site, request("ping")) == [progress, reply(1, {})]


def test_session_and_version_go_with_all_that_follows() -> None:
    greeting = reply(1, {"protocolVersion": "2025-06-18"})
    hello = httpx.Response(200, headers={**JSON, "mcp-session-id": "s1"}, json=greeting)
    unasked = note("notifications/tools/list_changed")
    site, seen = answering(
        hello,
        httpx.Response(202),
        httpx.Response(200, headers=SSE, content=event(unasked)),
        httpx.Response(200, headers=JSON, json=reply(2, {})),
    )

    heard = said(
        site,
        request("initialize"),
        note("notifications/initialized"),
        request("ping", 2),
        headers={"authorization": "Bearer x"},
    )

    assert heard == [greeting, unasked, reply(2, {})]
    assert [sent.method for sent in seen] == ["POST", "POST", "GET", "POST", "DELETE"]
    first, *others = [sent.headers for sent in seen]
    assert "mcp-session-id" not in first
    assert "mcp-protocol-version" not in first
    assert {one["mcp-session-id"] for one in others} == {"s1"}
    assert {one["mcp-protocol-version"] for one in others} == {"2025-06-18"}
    assert {sent.headers["authorization"] for sent in seen} == {"Bearer x"}


def test_a_new_greeting_begins_a_new_session() -> None:
    hello = httpx.Response(200, headers={"mcp-session-id": "s1"}, json=reply(1, {}))
    site, seen = answering(hello, httpx.Response(404))

    said(site, request("initialize"), request("initialize", 2))

    assert "mcp-session-id" not in seen[1].headers


def test_a_greeting_that_is_turned_down_ends_no_session() -> None:
    hello = httpx.Response(200, headers={"mcp-session-id": "s1"}, json=reply(1, {}))
    no = httpx.Response(400)
    site, seen = answering(hello, no, httpx.Response(200, headers=JSON, json=reply(3, {})))

    said(site, request("initialize"), request("initialize", 2), request("ping", 3))

    assert seen[2].headers["mcp-session-id"] == "s1"


def test_a_greeting_that_is_taken_without_a_session_ends_the_one_before() -> None:
    hello = httpx.Response(200, headers={"mcp-session-id": "s1"}, json=reply(1, {}))
    again = httpx.Response(200, headers=JSON, json=reply(2, {}))
    site, seen = answering(hello, again, httpx.Response(200, headers=JSON, json=reply(3, {})))

    said(site, request("initialize"), request("initialize", 2), request("ping", 3))

    assert "mcp-session-id" not in seen[2].headers


LOST = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no such session"}}


@pytest.mark.parametrize("body", [{}, {"json": LOST}], ids=["bare", "told"])
def test_a_server_that_forgot_the_session_is_gone(body: dict[str, Any]) -> None:
    async def played() -> None:
        hello = httpx.Response(200, headers={"mcp-session-id": "s1"}, json=reply(1, {}))
        site, seen = answering(hello, httpx.Response(404, **body))
        server = HttpUpstream("http://mcp.test/mcp", transport=httpx.MockTransport(site))
        lines = server.lines()
        async with asyncio.timeout(60):
            await server.send(json.dumps(request("initialize")).encode())
            await anext(lines)
            await server.send(json.dumps(request("ping", 2)).encode())
            [answer] = [json.loads(line or b"") async for line in lines]
        await server.close()
        # Nobody is left to be told that it is over.
        assert [sent.method for sent in seen] == ["POST", "POST"]
        assert (answer["id"], "error" in answer) == (2, True)

    asyncio.run(played())


def test_a_404_without_a_session_does_not_end_the_connection() -> None:
    site, seen = answering(
        httpx.Response(404), httpx.Response(200, headers=JSON, json=reply(2, {}))
    )

    [lost, found] = said(site, request("ping"), request("ping", 2))

    assert ("error" in lost, found) == (True, reply(2, {}))
    assert len(seen) == 2


def test_a_server_that_talks_without_end_has_to_wait() -> None:
    stream = event(note("x")) * 200 + event(reply(1, {}))
    site, _ = answering(httpx.Response(200, headers=SSE, content=stream))

    assert len(said(site, request("ping"), grace_s=0.05)) == 64


@pytest.mark.parametrize(
    ("name", "header"), [("echo", "echo"), ("größe", "=?base64?Z3LDtsOfZQ==?="), (5, None)]
)
def test_a_newer_message_says_in_headers_what_it_is(name: Any, header: str | None) -> None:
    site, seen = answering(httpx.Response(200, headers=JSON, json=reply(1, {})))

    said(site, request("tools/call", 1, name=name, **META))

    assert seen[0].headers["mcp-protocol-version"] == "2026-07-28"
    assert seen[0].headers["mcp-method"] == "tools/call"
    assert seen[0].headers.get("mcp-name") == header


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (httpx.Response(500, text="oops"), "HTTP status 500"),
        (httpx.Response(307, headers={"location": "http://evil.test/"}), "HTTP status 307"),
        (httpx.Response(202), "gave no answer"),
        (httpx.Response(200, headers=SSE, content=b": bye\n\n"), "without an answer"),
        (httpx.Response(200, headers=JSON, content=b""), "without an answer"),
    ],
)
def test_every_request_is_answered_whatever_the_server_does(
    response: httpx.Response, problem: str
) -> None:
    site, seen = answering(response)

    [answer] = said(site, call("echo", "x"))

    assert answer["id"] == "x"
    assert problem in answer["error"]["message"]
    assert {sent.url.host for sent in seen} == {"mcp.test"}


def test_arguments_that_a_tool_declares_go_in_headers_too() -> None:
    schema = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tools = {"tools": [{"name": "near", "inputSchema": schema}]}
    site, seen = answering(
        httpx.Response(200, headers=JSON, json=reply(1, tools)),
        httpx.Response(200, headers=JSON, json=reply(2, {})),
    )
    asks = request("tools/call", 2, name="near", arguments={"region": "north"}, **META)

    said(site, request("tools/list", 1, **META), asks)

    assert seen[1].headers["mcp-param-region"] == "north"


def test_an_unreadable_body_is_handed_on_and_the_request_still_answered() -> None:
    site, _ = answering(httpx.Response(200, headers=JSON, content=b'{"a": 1}'))

    [odd, answer] = said(site, request("ping"))

    assert odd == {"a": 1}
    assert answer["id"] == 1


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, HttpUpstream.__module__)

    with pytest.raises(MissingExtraError) as caught:
        import_module(HttpUpstream.__module__)
    assert caught.value.help == "pip install 'demur[mcp-proxy]'"


def test_a_version_that_is_none_is_not_spread() -> None:
    site, seen = answering(
        httpx.Response(200, headers=JSON, json=reply(1, {"protocolVersion": "a\nb"})),
        httpx.Response(200, headers=JSON, json=reply(2, {})),
    )

    said(site, request("initialize"), request("ping", 2))

    assert "mcp-protocol-version" not in seen[1].headers


def test_an_error_in_the_body_of_a_failure_is_the_answer() -> None:
    error = {"code": -32602, "message": "no such tool"}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    site, _ = answering(httpx.Response(400, headers=JSON, json=body))

    assert said(site, request("ping", 4)) == [{"jsonrpc": "2.0", "id": 4, "error": error}]


def test_a_server_out_of_reach_is_an_answer() -> None:
    def site(_: httpx.Request) -> Any:
        raise httpx.ConnectError("refused")

    [answer] = said(site, request("ping"))

    assert "cannot be reached: ConnectError" in answer["error"]["message"]


def test_an_answer_that_is_too_long_is_an_error_for_that_request_alone() -> None:
    long = json.dumps(reply(1, "x" * 500))
    for response in (
        httpx.Response(200, headers=JSON, text=long),
        httpx.Response(200, headers=SSE, text=f"data: {long}\n\n"),
    ):
        site, _ = answering(response)
        [answer] = said(site, request("ping"), max_bytes=100)
        assert answer["id"] == 1
        assert "too long" in answer["error"]["message"]


def test_an_oversized_unsolicited_event_is_skipped() -> None:
    stream = event(note("x", text="y" * 500)) + event(note("z"))
    site, _ = answering(httpx.Response(202), httpx.Response(200, headers=SSE, content=stream))

    assert said(site, note("notifications/initialized"), max_bytes=100) == [note("z")]


def test_a_batch_is_one_post_and_each_request_in_it_is_answered() -> None:
    site, seen = answering(httpx.Response(200, headers=JSON, json=[reply(1, {})]))

    first, second = said(site, [request("ping", 1), request("ping", 2), note("x")])

    assert first == [reply(1, {})]
    assert second["id"] == 2
    assert len(seen) == 1


def test_notifications_need_no_answer() -> None:
    site, _ = answering(httpx.Response(202), httpx.Response(500))

    assert said(site, note("x"), note("y")) == []


def test_a_note_that_the_server_holds_holds_up_nobody() -> None:
    def site(sent: httpx.Request) -> Any:
        if sent.method != "POST" or "id" in json.loads(sent.content):
            return httpx.Response(200, headers=JSON, json=reply(1, {}))
        return _hang(sent)

    began = time.monotonic()
    heard = said(site, note("notifications/initialized"), note("x"), request("ping"), grace_s=0.05)

    assert heard == [reply(1, {})]
    assert time.monotonic() - began < 10


def test_notes_that_are_taken_at_once_keep_their_order() -> None:
    seen: list[Any] = []

    async def late(sent: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0 if "id" in json.loads(sent.content) else 0.05)
        seen.append(json.loads(sent.content)["method"])
        return httpx.Response(200, headers=JSON, json=reply(1, {}))

    said(late, note("a"), note("b"), request("ping"))

    assert seen == ["a", "b", "ping"]


def test_a_session_that_no_header_can_name_is_none() -> None:
    hello = httpx.Response(
        200, headers=[(b"mcp-session-id", b"caf\xe9")], content=json.dumps(reply(1, {}))
    )
    site, seen = answering(hello, httpx.Response(200, headers=JSON, json=reply(2, {})))

    assert said(site, request("initialize"), request("ping", 2)) == [reply(1, {}), reply(2, {})]
    assert "mcp-session-id" not in seen[1].headers


def test_a_request_that_cannot_be_sent_gets_an_error_response() -> None:
    def site(_: httpx.Request) -> Any:
        raise UnicodeEncodeError("ascii", "é", 0, 1, "odd")

    [answer] = said(site, request("ping"))

    assert "cannot be reached: UnicodeEncodeError" in answer["error"]["message"]


async def _hang(_: httpx.Request) -> httpx.Response:
    await asyncio.sleep(60)
    return httpx.Response(200)


def test_a_newer_request_is_cancelled_by_hanging_up() -> None:
    seen: list[Any] = []

    def site(sent: httpx.Request) -> Any:
        seen.append(json.loads(sent.content)["method"])
        return _hang(sent) if seen[-1] == "ping" else httpx.Response(202)

    cancel = note("notifications/cancelled", requestId=1)
    assert said(site, request("ping", 1, **META), cancel, cancel) == []
    assert seen == ["ping", "notifications/cancelled"]


def test_a_pending_request_is_abandoned_after_the_grace_period() -> None:
    assert said(_hang, request("ping"), grace_s=0.05) == []


def test_the_notification_stream_is_reopened_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("demur.integrations.mcp_proxy.http_upstream._RECONNECT_S", 0)
    gets: list[str] = []

    def site(sent: httpx.Request) -> Any:
        gets.append(sent.method)
        if sent.method != "GET":
            return httpx.Response(202)
        if len(gets) % 2:
            raise httpx.ReadError("torn")
        return httpx.Response(200, headers=SSE)

    said(site, note("notifications/initialized"), note("x"), note("y"))

    assert gets.count("GET") == 5


def heard(*pieces: bytes, longest: int = 1000) -> list[bytes | None]:
    events = EventSplitter(longest)
    return [data for piece in pieces for data in events.feed(piece)]


STREAM = b'event: message\r\ndata: {"a":\r\ndata:1}\r\n\r\n: ping\n\nid: 7\ndata:\n\ndata: 2\r\r'


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_events_are_the_same_however_the_stream_is_torn(places: list[int]) -> None:
    ends = [0, *sorted(places), len(STREAM)]

    pieces = [STREAM[a:b] for a, b in pairwise(ends)]

    assert heard(*pieces) == [b'{"a": 1}', b"2"]


def test_events_of_another_name_are_passed_over() -> None:
    assert heard(b"event: endpoint\ndata: /x\n\ndata: 1\n\n") == [b"1"]


def test_an_event_without_an_end_is_none() -> None:
    assert heard(b"data: 1\n") == []


def test_an_oversized_event_is_reported_and_the_next_one_is_intact() -> None:
    long = b"data: " + b"x" * 50
    assert heard(long, long + b"\n\n", b"data: 1\n\n", longest=60) == [None, b"1"]
    assert heard(b"data: " + b"x" * 30 + b"\n", long + b"\n\ndata: 1\n\n", longest=60) == [
        None,
        b"1",
    ]


def with_id(identity: str, *messages: Any) -> bytes:
    """Return a priming event that tells the client to return at once, and messages."""
    return b"id: " + identity.encode() + b"\nretry: 0\ndata:\n\n" + b"".join(map(event, messages))


def streamed(data: bytes) -> httpx.Response:
    return httpx.Response(200, headers=SSE, content=data)


def test_a_stream_that_ends_before_the_answer_is_resumed() -> None:
    logged = note("notifications/message", data="one")
    site, seen = answering(
        streamed(with_id("e1", logged)),
        streamed(b"id: e2\ndata: \n\n"),
        streamed(event(reply(1, {"done": True}))),
    )

    assert said(site, request("tools/call")) == [logged, reply(1, {"done": True})]
    assert [(one.method, one.headers.get("last-event-id")) for one in seen] == [
        ("POST", None),
        ("GET", "e1"),
        ("GET", "e2"),
    ]


def test_a_stream_that_is_torn_is_resumed() -> None:
    async def torn() -> Any:
        yield with_id("e1")
        raise httpx.ReadError("torn")

    site, seen = answering(
        httpx.Response(200, headers=SSE, content=torn()), streamed(event(reply(1, {})))
    )

    assert said(site, request("tools/call")) == [reply(1, {})]
    assert len(seen) == 2


@pytest.mark.parametrize("later", ["no stream", "empty", "json"])
def test_a_stream_that_cannot_be_resumed_is_an_error(later: str) -> None:
    responses = {
        "no stream": [httpx.Response(405)],
        "empty": [streamed(b"") for _ in range(9)],
        "json": [httpx.Response(200, json=reply(1, {}))],
    }
    site, seen = answering(streamed(with_id("e1")), *responses[later])

    [answer] = said(site, request("tools/call"))
    assert answer["error"]["code"] == -32000
    assert len(seen) <= 6


def test_a_stream_without_ids_is_not_resumed() -> None:
    site, seen = answering(streamed(event(note("notifications/message", data="one"))))

    assert said(site, request("tools/call"))[-1]["error"]["code"] == -32000
    assert len(seen) == 1


def test_it_says_which_requests_wait_while_the_stream_is_closed() -> None:
    site, _ = answering(streamed(with_id("e1")), streamed(event(reply(7, {}))))
    paused: list[Any] = []

    async def play() -> None:
        server = HttpUpstream("http://mcp.test/mcp", transport=httpx.MockTransport(site))
        server.on_pause = paused.append
        await server.send(json.dumps(request("tools/call", 7)).encode())
        await server.close()

    asyncio.run(play())
    assert paused == [("number", 7)]


def test_a_newer_request_names_no_session() -> None:
    hello = httpx.Response(200, headers={"mcp-session-id": "s1"}, json=reply(1, {}))
    site, seen = answering(hello, httpx.Response(200, json=reply(2, {})))

    said(site, request("initialize"), request("initialize", 2, **META))

    assert "mcp-session-id" not in seen[1].headers
    assert seen[1].headers["mcp-protocol-version"] == "2026-07-28"
    assert seen[1].headers["mcp-method"] == "initialize"
