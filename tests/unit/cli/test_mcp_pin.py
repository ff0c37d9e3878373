import json
import sys
from pathlib import Path

import mcp_toy_server
import pytest
from commandline import Ran, demur

from demur.integrations.mcp_proxy.pins import read_pins

TOY = mcp_toy_server.__file__


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    return tmp_path / "pins.json"


def pin(pins: Path, *words: str) -> Ran:
    options = [word for word in words if word.startswith("--")]
    tricks = [word for word in words if not word.startswith("--")]
    return demur("mcp", "pin", "--pins", pins, *options, "--", sys.executable, TOY, *tricks)


def test_pins_are_shown_and_written(pins: Path) -> None:
    ran = pin(pins)

    assert (ran.status, ran.err) == (0, "")
    assert "echo        new" in ran.out
    assert "2 of 2 tools of `mcp_toy_server` pinned" in ran.out
    assert [tool.name for tool in read_pins(pins).tools_of("mcp_toy_server")] == [
        "echo",
        "delete_all",
    ]


def test_a_poisoned_tool_is_left_out_and_the_reason_told(pins: Path) -> None:
    ran = pin(pins, "poisoned")

    assert ran.status == 3
    assert "refused `notes`: CONTEXT_INJECTION" in ran.out
    assert "--force" in ran.out
    assert "notes" not in {tool.name for tool in read_pins(pins).tools_of("mcp_toy_server")}


def test_a_tool_that_cannot_be_read_is_left_out(pins: Path) -> None:
    ran = pin(pins, "broken", "--force")

    assert ran.status == 3
    assert "refused `broken`: " in ran.out


def test_a_poisoned_tool_is_pinned_by_force(pins: Path) -> None:
    ran = pin(pins, "poisoned", "--force")

    assert ran.status == 0
    assert "new `notes`: CONTEXT_INJECTION" in ran.out
    assert "notes" in {tool.name for tool in read_pins(pins).tools_of("mcp_toy_server")}


def test_what_is_new_changed_or_gone_is_said(pins: Path) -> None:
    pin(pins, "extra")

    ran = pin(pins, "changed")

    assert "echo        changed" in ran.out
    assert "delete_all  same" in ran.out
    assert "no longer pinned: `other`" in ran.out


def test_the_same_as_json(pins: Path) -> None:
    shown = json.loads(pin(pins, "poisoned", "--json").out)

    assert shown["server"] == "mcp_toy_server"
    outcomes = {tool["name"]: tool["outcome"] for tool in shown["tools"]}
    assert outcomes == {"echo": "new", "delete_all": "new", "notes": "refused"}
    assert shown["tools"][0]["schema_digest"].startswith("sha256:")


def test_pins_that_cannot_be_read_are_not_written_over(pins: Path) -> None:
    pins.write_text("{", encoding="utf-8")

    ran = pin(pins)

    assert (ran.status, pins.read_text(encoding="utf-8")) == (1, "{")


def test_a_server_that_cannot_start_is_an_error(pins: Path) -> None:
    ran = demur("mcp", "pin", "--pins", pins, "--", "/no/such/program")

    assert ran.status == 1
    assert "cannot start the server" in ran.err
    assert not pins.exists()
