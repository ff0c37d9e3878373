from typing import Any

import pytest
from support.mcp_messages import request

from demur.integrations.mcp_proxy.addressing import (
    DeclaredHeaders,
    check_place,
    message_headers,
    message_version,
    read_headers,
    server_name,
)
from demur.integrations.mcp_proxy.jsonrpc import parse_message
from demur.listener import is_loopback

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
def test_an_absent_value_has_no_header(given: Any) -> None:
    assert declared(given) == {}


def test_other_requests_have_no_such_headers() -> None:
    assert declared({"region": "x"}, "prompts/get") == {}


@pytest.mark.parametrize("result", [None, {}, {"tools": 5}])
def test_a_list_that_is_none_teaches_nothing(result: Any) -> None:
    headers = DeclaredHeaders()
    headers.learn_tools(result)

    assert headers.headers_for(parse_message(request("tools/call", 1, name="find"))) == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:80"},
        {"host": "LOCALHOST"},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
        {"host": "[::1]:8080", "origin": "http://[::1]:8080"},
        {"host": "192.168.0.7:80"},
        {"host": "mine.example"},
        {"host": "localhost", "sec-fetch-site": "same-origin"},
    ],
    ids=str,
)
def test_calls_for_us_are_taken(headers: dict[str, str]) -> None:
    assert check_place(headers, {"mine.example"}) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 421),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "[::1]evil.example"}, 421),
        ({"host": "127.0.0.1:80:80"}, 421),
        ({"host": "localhost", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:80", "origin": "http://localhost:81"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "origin": ""}, 403),
        ({"host": "localhost", "origin": "file://localhost"}, 403),
        ({"host": "localhost", "sec-fetch-site": "same-site"}, 403),
    ],
    ids=str,
)
def test_calls_in_other_names_or_from_other_sites_are_not(
    headers: dict[str, str], status: int
) -> None:
    wrong = check_place(headers, {"mine.example"})

    assert wrong is not None
    assert wrong[0] == status


def test_a_header_that_counts_may_not_come_twice() -> None:
    assert read_headers([(b"Host", b"a"), (b"x", b"1"), (b"x", b"2")]) == {"host": "a", "x": "2"}
    assert read_headers([(b"host", b"a"), (b"HOST", b"b")]) is None


@pytest.mark.parametrize(
    ("host", "near"),
    [("localhost", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("a", False)],  # noqa: S104 - a word
)
def test_this_machine_is_known(host: str, near: bool) -> None:
    assert is_loopback(host) is near


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("files-server", "files-server"),
        ("/usr/bin/python3.12 /srv/weather.py --token s3cret", "weather"),
        ("python -m mcp_server_git", "mcp_server_git"),
        ("npx -y @acme/server-files /data", "server-files"),
        ("uv run server.py", "server"),
        ("docker run -i --rm acme/db", "db"),
        ("python", "python"),
        ("--odd", "server"),
    ],
)
def test_a_server_is_named_by_its_program(command: str, name: str) -> None:
    assert server_name(command.split()) == name


def test_a_server_at_an_address_is_named_by_its_host() -> None:
    assert server_name([], "https://user:pass@mcp.example.com:8080/x?token=1") == "mcp.example.com"
    assert server_name([], "nonsense") == "server"


def test_a_name_is_plain() -> None:
    assert server_name(["a\nb c"]) == "a-b-c"
    assert server_name([]) == "server"
