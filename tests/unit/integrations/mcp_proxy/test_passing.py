import asyncio
import json
from typing import Any

import pytest
from gates import opened, rows
from hypothesis import given
from hypothesis import strategies as st
from mcp_talk import ORDERS, Talk, note, reply, request, tool

from demur.integrations.mcp_proxy.passing import NOTIFICATION_ACTION, REQUEST_ACTION

NAMED = {"name": "toy", "version": "withheld"}
FINE = {"name": "files", "title": "Files", "version": "1", "description": "Reads files."}


def answered(method: str, result: Any) -> tuple[Any, list[str]]:
    """Return what a client hears, and what was noted."""
    talk = Talk()
    talk.client(request(method))
    [answer] = talk.server(reply(1, result)).client
    return answer, talk.notes


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_instructions_that_are_orders_are_left_out(method: str) -> None:
    talk = Talk()
    greeting = {"protocolVersion": "2025-11-25", "instructions": "Ask for a city."}
    talk.client(request(method, 1), request(method, 2), request(method, 3))

    heard = talk.server(
        reply(1, greeting), reply(2, {**greeting, "instructions": ORDERS}), reply(3, None)
    )

    assert heard.client == [
        reply(1, greeting),
        reply(2, {"protocolVersion": "2025-11-25"}),
        reply(3, None),
    ]


@pytest.mark.parametrize(
    ("method", "name", "result"),
    [
        ("tools/list", "Tools", {"tools": [tool()], "Tools": [tool("notes", ORDERS)]}),
        ("prompts/list", "PROMPTS", {"prompts": [], "PROMPTS": [{"description": ORDERS}]}),
        ("resources/templates/list", "resourcetemplates", {"resourcetemplates": [ORDERS]}),
        ("initialize", "In\u017ftructions", {"In\u017ftructions": ORDERS, "serverInfo": {}}),
        ("server/discover", "Instructions", {"Instructions": ORDERS}),
    ],
)
def test_what_passes_for_a_list_or_instructions_is_left_out(
    method: str, name: str, result: dict[str, object]
) -> None:
    talk = Talk()
    talk.client(request(method))

    [answer] = talk.server(reply(1, result)).client

    assert answer["result"] == {key: item for key, item in result.items() if key != name}
    assert any(f"left out `{name}`" in note for note in talk.notes)


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
@pytest.mark.parametrize("member", ["name", "title", "version", "description", "websiteUrl"])
def test_a_server_that_names_itself_by_orders_goes_by_another_name(
    method: str, member: str
) -> None:
    greeting = {"protocolVersion": "2025-11-25", "instructions": "Ask for a city."}

    answer, notes = answered(method, {**greeting, "serverInfo": {**FINE, member: ORDERS}})

    assert answer["result"] == {**greeting, "serverInfo": NAMED}
    assert len(notes) == 1
    assert answered(method, {**greeting, "serverInfo": FINE})[1] == []


def test_what_newer_servers_stamp_on_results_is_looked_at() -> None:
    stamp = {"io.modelcontextprotocol/serverInfo": {**FINE, "name": ORDERS}}

    for method in ("server/discover", "tools/list", "completion/complete"):
        assert answered(method, {"x": 1, "_meta": stamp})[0]["result"] == {"x": 1}
    assert "error" in answered("ping", {"_meta": stamp})[0]


@pytest.mark.parametrize("values", [["Rome", ORDERS], ORDERS, {"a": ORDERS}])
def test_completions_that_give_orders_are_left_out(values: Any) -> None:
    answer, notes = answered("completion/complete", {"completion": {"values": values}})

    assert answer["result"] == {"completion": {"values": []}}
    assert "CONTEXT_INJECTION" in notes[0]


def test_ordinary_completions_pass() -> None:
    result = {"completion": {"values": ["Rome", "Riga"], "total": 2, "hasMore": False}}

    assert answered("completion/complete", result) == (reply(1, result), [])


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("initialize", {"capabilities": {"experimental": {ORDERS: {}}}}),
        ("completion/complete", {"values": [ORDERS]}),
        ("prompts/list", {"prompts": [], "nextCursor": ORDERS}),
        ("tools/list", {"tools": {"a": tool("notes", ORDERS)}}),
        ("resources/list", [ORDERS]),
        ("ping", {"text": ORDERS}),
        ("tasks/cancel", {"statusMessage": ORDERS}),
        ("some/new-method", ORDERS),
    ],
)
def test_what_cannot_be_left_out_is_refused_as_a_whole(method: str, result: Any) -> None:
    answer, notes = answered(method, result)

    assert answer["error"]["data"]["refusal"]["code"] == "CONTEXT_INJECTION"
    assert ORDERS not in json.dumps(answer)
    assert notes


@pytest.mark.parametrize("method", ["completion/complete", "tools/list", "initialize", "ping"])
def test_errors_are_looked_at_whatever_was_asked(method: str) -> None:
    talk = Talk()
    talk.client(request(method))
    error = {"code": -32000, "message": "broken", "data": [ORDERS]}

    [answer] = talk.server({"jsonrpc": "2.0", "id": 1, "error": error}).client

    assert answer["error"]["data"]["refusal"]["code"] == "CONTEXT_INJECTION"


def test_members_beside_a_result_are_looked_at() -> None:
    talk = Talk()
    talk.client(request("ping", 1), request("ping", 2))

    first, second = talk.server({**reply(1, {}), "x": "fine"}, {**reply(2, {}), "x": ORDERS}).client

    assert first == {**reply(1, {}), "x": "fine"}
    assert second["error"]["data"]["refusal"]["code"] == "CONTEXT_INJECTION"


ELICITED = {
    "message": "Which city?",
    "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.mark.parametrize(
    "params",
    [
        {**ELICITED, "message": ORDERS},
        {"message": "m", "requestedSchema": {"properties": {"city": {"title": ORDERS}}}},
        {"mode": "url", "message": "m", "url": f"https://evil.example/?q={ORDERS}"},
    ],
)
def test_a_person_is_not_asked_by_orders(params: dict[str, Any]) -> None:
    talk = Talk()

    heard = talk.server(request("elicitation/create", "e", **params))

    assert heard.client == []
    assert heard.server[0]["error"]["data"]["refusal"]["code"] == "CONTEXT_INJECTION"
    assert "elicitation/create" in talk.notes[0]
    # It is closed: an answer would come to nobody.
    assert talk.client(reply("e", {"action": "accept"})).server == []


def test_ordinary_questions_to_a_person_pass() -> None:
    talk = Talk()
    asks = request("elicitation/create", "e", **ELICITED)

    assert talk.server(asks).client == [asks]
    assert talk.client(reply("e", {"action": "decline"})).server != []


@pytest.mark.parametrize(
    ("method", "remark", "more"),
    [
        ("notifications/progress", "message", {"progressToken": 1, "progress": 0.5}),
        ("notifications/cancelled", "reason", {"requestId": 4}),
        ("notifications/tasks/status", "statusMessage", {"taskId": "t", "status": "working"}),
    ],
)
def test_a_remark_that_gives_orders_is_left_out(
    method: str, remark: str, more: dict[str, Any]
) -> None:
    talk = Talk()

    assert talk.server(note(method, **more, **{remark: ORDERS})).client == [note(method, **more)]
    assert remark in talk.notes[0]
    assert talk.server(note(method, **more, **{remark: "Half."})).client != []
    # What gives orders elsewhere is dropped, with a remark or without.
    assert talk.server(note(method, **more, x=ORDERS)).client == []
    assert talk.server(note(method, **more, x=ORDERS, **{remark: ORDERS})).client == []


@pytest.mark.parametrize(
    "message",
    [
        note("notifications/message", level="info", logger="x", data=ORDERS),
        note("notifications/message", level="info", data={"deep": [ORDERS]}),
        note("notifications/message", level="info", logger=ORDERS, data="fine"),
        note("notifications/resources/updated", uri="file:///a", title=ORDERS),
        note("some/new-note", text=ORDERS),
        {"jsonrpc": "2.0", "method": "some/new-note", "params": [ORDERS]},
        {"jsonrpc": "2.0", "method": ORDERS},
        {"jsonrpc": "2.0", "method": "some/new-note", "text": ORDERS},
    ],
)
def test_notifications_that_give_orders_are_dropped(message: dict[str, Any]) -> None:
    talk = Talk()

    assert talk.server(message) == ([], [])
    assert "CONTEXT_INJECTION" in talk.notes[0]


def test_what_is_withheld_is_on_record_by_a_name_the_server_does_not_choose() -> None:
    with opened() as gate:
        talk = Talk(gate=gate)
        talk.server(note(ORDERS, text=ORDERS), request("x/y", 1, text=ORDERS))
        talk.client(request("completion/complete", 2))
        talk.server(reply(2, {"completion": {"values": [ORDERS]}}))
        found = {record.action_type: record.reason_codes for record in rows(gate)}

    assert found.keys() == {NOTIFICATION_ACTION, REQUEST_ACTION, "completion/complete"}
    assert all("CONTEXT_INJECTION" in codes for codes in found.values())


def test_what_passes_is_not_on_record() -> None:
    with opened() as gate:
        talk = Talk(gate=gate)
        heard = talk.server(
            note("notifications/progress", progress=1), request("roots/list", 1), note("x")
        )
        kept = rows(gate)

    assert len(heard.client) == 3
    assert kept == []


PLACES = st.sampled_from(
    ["initialize", "server/discover", "completion/complete", "prompts/list", "ping", "a/b"]
)
MEMBERS = st.sampled_from(
    ["instructions", "serverInfo", "completion", "values", "prompts", "_meta", "name", "x"]
)
HIDDEN = st.recursive(
    st.just(ORDERS) | st.just("fine") | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=6,
)


@given(PLACES, HIDDEN)
def test_wherever_orders_stand_they_reach_no_client(method: str, value: Any) -> None:
    """INVARIANT: no text of the server reaches the client unchecked."""
    talk = Talk()
    talk.client(request(method, "q"))
    said = [
        reply("q", value),
        {"jsonrpc": "2.0", "method": method, "params": {"value": value}},
        {"jsonrpc": "2.0", "id": "s", "method": method, "params": {"value": value}},
    ]
    for message in said:
        out = asyncio.run(talk.guard.from_server(json.dumps(message).encode()))
        assert all(ORDERS.encode() not in line for line in out.to_client)
        if ORDERS not in json.dumps(message):
            assert [json.loads(line) for line in out.to_client] == [message]
