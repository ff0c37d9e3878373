import json
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_call.manifest import ToolManifest, PinnedTool, ToolDefinition, pin_tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**63 - 1}}}
PINNED = pin_tool("add", "Adds numbers.", SCHEMA, "calc")


def test_a_manifest_reads_back_as_it_was_written() -> None:
    manifest = ToolManifest(tools=(PINNED, pin_tool("sub", "", {}, "calc", keep_schema=False)))

    assert ToolManifest.from_json(manifest.to_json()) == manifest


def test_the_order_of_keys_in_a_schema_makes_no_difference() -> None:
    turned = {key: SCHEMA[key] for key in reversed(SCHEMA)}

    assert pin_tool("add", "", turned).schema_digest == pin_tool("add", "", SCHEMA).schema_digest


def test_a_pin_can_leave_the_schema_out() -> None:
    assert pin_tool("add", "", SCHEMA, keep_schema=False).schema is None


def test_one_name_may_come_from_two_servers() -> None:
    manifest = ToolManifest(tools=(PINNED, pin_tool("add", "", {}, "other")))

    assert [tool.source for tool in manifest.tools_named("add")] == ["calc", "other"]


def test_one_name_of_one_server_stands_once() -> None:
    with pytest.raises(InputError, match="twice"):
        ToolManifest(tools=(PINNED, PINNED))


def test_pinning_again_replaces_the_older_pin() -> None:
    newer = pin_tool("add", "Adds.", SCHEMA, "calc")

    assert ToolManifest(tools=(PINNED,)).with_tools([newer]).tools == (newer,)


def changed(**fields: Any) -> str:
    manifest = json.loads(ToolManifest(tools=(PINNED,)).to_json())
    manifest["tools"][0] |= fields
    return json.dumps(manifest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        b"\xff",
        changed(schema={}),
        changed(schema_digest="md5:1"),
        changed(name=""),
        changed(name="a\nb"),
        changed(source="x" * 300),
        changed(color="red"),
    ],
)
def test_what_is_no_sound_manifest_is_an_error(text: str | bytes) -> None:
    with pytest.raises(InputError):
        ToolManifest.from_json(text)


@pytest.mark.parametrize(
    ("name", "description", "schema", "source"),
    [
        ("", "", {}, ""),
        ("a", None, {}, ""),
        (1, "", {}, ""),
        ("a", "", [], ""),
        ("a", "", {}, None),
        ("a", "", {"x": object()}, ""),
        ("a", "", {"x": 10**400}, ""),
    ],
)
def test_what_cannot_be_pinned_is_an_error(
    name: Any, description: Any, schema: Any, source: Any
) -> None:
    with pytest.raises((InputError, TypeError)):
        pin_tool(name, description, schema, source)


def test_a_schema_nested_too_deep_is_an_error() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}

    with pytest.raises(InputError):
        pin_tool("a", "", deep)


def test_large_numbers_survive_inside_lists() -> None:
    pinned = pin_tool("a", "", {"enum": [2**63, True, None]})

    assert ToolManifest.from_json(ToolManifest(tools=(pinned,)).to_json()).tools == (pinned,)


def test_a_definition_has_an_empty_schema_by_default() -> None:
    assert ToolDefinition(name="a").schema == {}


def test_a_pin_made_by_hand_is_checked() -> None:
    with pytest.raises(InputError, match="no SHA-256 digest"):
        PinnedTool(name="a", source="", schema_digest="", description_digest="")
