import json

import pytest

from demur.errors import InputError
from demur.integrations.claude_code.hook import Hook, read_hook


def hook(**members: object) -> Hook:
    return read_hook(json.dumps({"hook_event_name": "PreToolUse", **members}))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"hook_event_name": 3}',
        b'{"hook_event_name": ""}',
        b'{"hook_event_name": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_what_names_no_event_cannot_be_read(raw: bytes) -> None:
    with pytest.raises(InputError):
        read_hook(raw)


def test_an_agent_of_a_session_has_a_run_of_its_own() -> None:
    assert hook(session_id="s").run == "s"
    assert hook(session_id="s", agent_id="a").run == "s/a"
    assert hook(agent_id="a").run is None
    assert hook(session_id=3).run is None


def test_a_tool_of_an_mcp_server_has_a_source() -> None:
    assert hook(tool_name="mcp__shop__refund").mcp_server() == "shop"
    assert hook(tool_name="Bash").mcp_server() == ""
    assert hook(tool_name=7).mcp_server() == ""


def test_only_tools_of_own_servers_go_by_their_bare_names() -> None:
    tool = hook(tool_name="mcp__shop__re__fund")

    assert tool.tool_name({"shop"}) == "re__fund"
    assert tool.tool_name(()) == "mcp__shop__re__fund"
    assert hook(tool_name="Bash").tool_name({"shop"}) == "Bash"


@pytest.mark.parametrize(
    ("server", "tool"),
    [
        ("my shop", "mcp__my_shop__refund"),
        ("my.shop", "mcp__my_shop__refund"),
        ("my__shop", "mcp__my__shop__refund"),
        ("my-shop", "mcp__my-shop__refund"),
    ],
)
def test_a_server_is_known_as_claude_code_writes_its_name(server: str, tool: str) -> None:
    called = hook(tool_name=tool)

    assert called.tool_name({server, "my"}) == "refund"
    assert f"mcp__{called.mcp_server({server, 'my'})}__refund" == tool
    assert called.tool_name({"other"}) == tool


def test_what_is_no_call_of_several_came_back_from_one() -> None:
    assert hook().for_call({"tool_name": "Bash"}).tool_name(()) == "Bash"
    assert hook().for_call("odd").members == {"tool_response": "odd"}


def test_the_occasion_names_framework_run_and_call() -> None:
    at = hook(session_id="s", tool_use_id="t").call_context("claude-code")

    assert at.trace == {"framework": "claude-code", "run": "s", "call_id": "t"}
