from pathlib import Path

import pytest

from demur.errors import InputError
from demur.guards.tool_call.manifest import pin_tool
from demur.integrations.mcp_proxy.pins import ToolPins, read_pins

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
def test_what_are_no_pins_says_where(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pins.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match="not pins") as caught:
        read_pins(path)
    assert caught.value.where == str(path)


def test_a_schema_changed_by_hand_is_refused() -> None:
    forged = PINS.to_json().replace('"type": "object"', '"type": "array"')

    with pytest.raises(InputError, match="not the one pinned"):
        ToolPins.from_json(forged)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the pins"):
        read_pins(tmp_path / "none.json")
