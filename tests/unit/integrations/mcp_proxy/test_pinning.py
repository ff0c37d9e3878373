from mcp_talk import ORDERS, tool

from demur.integrations.mcp_proxy.pinning import list_candidates, add_pins
from demur.integrations.mcp_proxy.pins import ToolPins


def test_each_tool_is_a_candidate_with_what_speaks_against_it() -> None:
    listed = [tool(), tool("notes", ORDERS), tool(), "odd", {"name": "bad", "inputSchema": 1}]

    found = list(list_candidates(listed, "toy"))

    assert [one.name for one in found] == ["echo", "notes", "echo", "?", "bad"]
    assert [one.is_poisoned for one in found] == [False, True, False, False, False]
    assert [bool(one.problem) for one in found] == [False, False, True, True, True]


def test_what_cannot_be_pinned_is_left_out() -> None:
    pins = add_pins(ToolPins(), "toy", list_candidates([tool(), "odd"], "toy"))

    assert [pin.name for pin in pins.tools_of("toy")] == ["echo"]
    assert pins.rest_of("toy", "echo") is not None
