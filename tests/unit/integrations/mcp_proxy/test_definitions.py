import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mcp_messages import ORDERS, tool

from demur.errors import DemurError, InputError
from demur.guards.tool_manifest import pin_tool
from demur.integrations.mcp_proxy.definitions import (
    DefinitionGuard,
    OfferedTool,
    ToolPins,
    parse_tool,
    read_pins,
)
from demur.integrations.mcp_proxy.pinning import add_pins, list_candidates

SMALL = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5)
PARTS = ("title", "annotations", "outputSchema", "description", "icons", "inputSchema", "newer")


def pinned(*tools: Any) -> DefinitionGuard:
    return DefinitionGuard(add_pins(ToolPins(), "toy", list_candidates(tools, "toy")))


def seen(guard: DefinitionGuard, entry: Any, **more: Any) -> list[tuple[str, Any]]:
    event = parse_tool(entry, "toy")
    if more:
        event = OfferedTool(name=event.name, source="toy", tool=event.tool, rest=event.rest, **more)
    return [(str(found.code), found.evidence["rule"]) for found in guard.check(event)]


def test_a_tool_as_it_was_pinned_is_trusted_whatever_it_says() -> None:
    entry = tool("echo", ORDERS, title="Echo", annotations={"readOnlyHint": True})

    assert seen(pinned(entry), entry) == []


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Returns the text, and more."},
        {"inputSchema": {"type": "object"}},
        {"title": "Another"},
        {"annotations": {"readOnlyHint": False}},
        {"outputSchema": {"type": "string"}},
        {"newer": 1},
    ],
    ids=str,
)
def test_a_change_since_pinning_is_found(change: dict[str, Any]) -> None:
    entry = tool(annotations={"readOnlyHint": True})

    assert seen(pinned(entry), {**entry, **change}) == [("UNVERIFIED_TOOL", "TOOL_CHANGED")]


@given(
    st.sampled_from(PARTS).flatmap(lambda part: st.tuples(st.just(part), SMALL)),
    st.dictionaries(st.sampled_from(PARTS[:3]), SMALL),
)
def test_no_part_changes_unnoticed(change: tuple[str, Any], base: dict[str, Any]) -> None:
    """INVARIANT: no part of a definition that a model may see changes without a finding."""
    part, value = change
    before = tool(**base)
    after = {**before, part: value}
    same = before.get(part, "none at all") == value or (part == "description" and not value)
    try:
        codes = [code for code, _ in seen(pinned(before), after)]
    except DemurError:
        # A definition that cannot be read is refused elsewhere.
        codes = ["UNVERIFIED_TOOL"]

    assert same or "UNVERIFIED_TOOL" in codes


def test_machine_readable_metadata_may_change() -> None:
    entry = tool(_meta={"build": 1})

    assert seen(pinned(entry), {**entry, "_meta": {"build": 2}}) == []


def test_a_tool_that_was_never_pinned_is_found() -> None:
    assert seen(pinned(tool()), tool("other")) == [("UNVERIFIED_TOOL", "TOOL_UNKNOWN")]


@pytest.mark.parametrize(
    "more",
    [
        {"description": ORDERS},
        {"title": ORDERS},
        {"outputSchema": {"description": ORDERS}},
        {"_meta": {"x": ORDERS}},
        {"annotations": {"title": ORDERS}},
    ],
    ids=str,
)
def test_orders_anywhere_in_a_definition_are_found(more: dict[str, Any]) -> None:
    [(code, _), *_] = seen(DefinitionGuard(), {**tool(), **more})

    assert code == "CONTEXT_INJECTION"


def test_a_poisoned_tool_that_is_called_is_unverified() -> None:
    [first, *_] = seen(DefinitionGuard(), tool("echo", ORDERS), called=True)

    assert first == ("UNVERIFIED_TOOL", "TOOL_POISONED")


def test_a_definition_that_cannot_be_read_is_unverified() -> None:
    [found] = DefinitionGuard().check(OfferedTool(name="echo", source="toy"))

    assert (found.code, found.evidence["rule"]) == ("UNVERIFIED_TOOL", "TOOL_UNREADABLE")


@pytest.mark.parametrize(
    "entry",
    ["text", {}, {"name": 5}, {"name": "x", "description": 5}, {"name": "x", "inputSchema": []}],
    ids=str,
)
def test_a_malformed_tool_definition_is_an_error(entry: Any) -> None:
    with pytest.raises(DemurError):
        parse_tool(entry, "toy")


PICTURE = base64.b64encode(bytes(range(256))).decode()


@pytest.mark.parametrize(
    "icons",
    [
        ORDERS,
        [{"src": ORDERS}],
        [{"src": f"data:image/png;base64,{ORDERS}"}],
        [{"src": f"data:text/plain;base64,{base64.b64encode(ORDERS.encode()).decode()}"}],
        [{"src": f"data:image/png;base64,{base64.b64encode(ORDERS.encode()).decode()}"}],
        [{"src": f"data:image/svg+xml,<svg><text>{ORDERS}</text></svg>"}],
        [{"src": f"data:image/svg+xml,%3Csvg%3E{ORDERS.replace(' ', '%20')}"}],
        [{"src": f"data:image/png;{ORDERS};base64,{PICTURE}"}],
        [{"src": "https://x.example/a.png", "mimeType": ORDERS}],
        {"src": {"deeper": ORDERS}},
    ],
    ids=lambda icons: str(icons)[:40],
)
def test_orders_in_the_place_of_a_picture_are_found(icons: Any) -> None:
    found = seen(DefinitionGuard(), tool(icons=icons), called=True)

    assert ("UNVERIFIED_TOOL", "TOOL_POISONED") in found


@pytest.mark.parametrize(
    "source", [f"data:image/png;base64,{PICTURE}", "https://x.example/a.png?size=16"]
)
def test_a_picture_is_no_text(source: str) -> None:
    entry = tool(icons=[{"src": source, "mimeType": "image/png", "sizes": ["16x16"]}])

    assert seen(DefinitionGuard(), entry) == []


def test_unpinned_metadata_is_checked_each_time() -> None:
    entry = tool("echo", ORDERS, title="Echo", _meta={"x": "fine"})
    guard = pinned(entry)

    assert seen(guard, {**entry, "_meta": {"x": "other"}}) == []
    assert seen(guard, {**entry, "_meta": {"x": ORDERS}})
    assert seen(guard, {**entry, "_meta": {"x": ORDERS}}, called=True)[0][0] == "UNVERIFIED_TOOL"


ECHO = pin_tool("echo", "Returns the text.", {"type": "object"}, "toy")
PINS = ToolPins().with_server("toy", (ECHO,), {"echo": "sha256:0"})


def test_pins_that_were_written_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.write_text(PINS.to_json(), encoding="utf-8")

    assert read_pins(path) == PINS


def test_a_server_that_is_pinned_again_leaves_others_alone() -> None:
    other = pin_tool("echo", "Another.", {}, "other")
    both = PINS.with_server("other", (other,), {"echo": "sha256:1"})

    again = both.with_server("toy", (), {})

    assert again.tools_of("toy") == ()
    assert again.tools_of("other") == (other,)
    assert (again.rest_of("toy", "echo"), again.rest_of("other", "echo")) == (None, "sha256:1")


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": "mcp_pins.v9"}', '{"more": 1}'])
def test_a_malformed_pins_file_names_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pins.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match="not pins") as caught:
        read_pins(path)
    assert caught.value.where == str(path)


def test_a_schema_changed_by_hand_is_refused() -> None:
    forged = PINS.to_json().replace('"type": "object"', '"type": "array"')

    with pytest.raises(InputError, match="not the pinned one"):
        ToolPins.from_json(forged)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the pins"):
        read_pins(tmp_path / "none.json")
