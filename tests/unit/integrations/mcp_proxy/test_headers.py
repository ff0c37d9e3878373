from typing import Any

import pytest
from mcp_talk import request

from demur.integrations.mcp_proxy.headers import DeclaredHeaders, message_headers, message_version
from demur.integrations.mcp_proxy.message import parse_message

META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SCHEMA = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "where": {"properties": {"live": {"type": "boolean", "x-mcp-header": "Live"}}},
        "odd": {"x-mcp-header": "not a token"},
        "count": {"x-mcp-header": "Count"},
        "plain": {"type": "string"},
        "broken": 5,
    },
    "x-mcp-header": "Root",
}


def declared(arguments: Any, method: str = "tools/call") -> dict[str, str]:
    headers = DeclaredHeaders()
    headers.learn_tools({"tools": [{"name": "find", "inputSchema": SCHEMA}, "odd", {"name": 5}]})
    return headers.headers_for(parse_message(request(method, 1, name="find", arguments=arguments)))


def test_an_older_message_needs_no_headers() -> None:
    message = parse_message(request("tools/call", 1, name="find"))

    assert (message_version(message), message_headers(message)) == (None, {})


@pytest.mark.parametrize(
    ("name", "header"),
    [("find", "find"), (" a", "=?base64?IGE=?="), ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?=")],
)
def test_a_newer_message_says_what_it_is(name: str, header: str) -> None:
    message = parse_message(request("tools/call", 1, name=name, **META))

    assert message_version(message) == "2026-07-28"
    assert message_headers(message) == {"mcp-method": "tools/call", "mcp-name": header}


def test_arguments_that_a_schema_declares_stand_in_headers() -> None:
    given = {"region": "größe", "where": {"live": True}, "odd": "x", "count": 3, "plain": "x"}

    assert declared(given) == {
        "mcp-param-Region": "=?base64?Z3LDtsOfZQ==?=",
        "mcp-param-Live": "true",
        "mcp-param-Count": "3",
    }


@pytest.mark.parametrize("given", [None, {}, {"region": None, "where": 5}, {"region": []}])
def test_what_is_not_given_stands_nowhere(given: Any) -> None:
    assert declared(given) == {}


def test_other_requests_have_no_such_headers() -> None:
    assert declared({"region": "x"}, "prompts/get") == {}


@pytest.mark.parametrize("result", [None, {}, {"tools": 5}])
def test_a_list_that_is_none_teaches_nothing(result: Any) -> None:
    headers = DeclaredHeaders()
    headers.learn_tools(result)

    assert headers.headers_for(parse_message(request("tools/call", 1, name="find"))) == {}
