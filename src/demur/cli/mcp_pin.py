"""`demur mcp pin`: pin the current tools of an MCP server."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

from demur.cli.files import write_file
from demur.cli.mcp_server import add_server_options, require_server_name, open_server
from demur.cli.terminal import Paint, format_table
from demur.errors import one_line
from demur.integrations.mcp_proxy.handshake import list_tools
from demur.integrations.mcp_proxy.pinning import PinCandidate, list_candidates, add_pins
from demur.integrations.mcp_proxy.pins import ToolPins, read_pins

__all__ = ["configure_mcp_pin", "run_mcp_pin"]

_DEFAULT_PINS = Path("mcp_pins.json")
_REFUSED = 3
_MAX_DESCRIPTION = 50
_DIGEST_LENGTH = 12


class _PinRow(NamedTuple):
    """A tool, its outcome, and the reason."""

    one: PinCandidate
    outcome: str
    why: str = ""


def configure_mcp_pin(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 all tools are pinned; 1 an error; 2 usage; 3 some tools were refused"
    parser.add_argument(
        "--pins",
        type=Path,
        default=_DEFAULT_PINS,
        metavar="FILE",
        help=f"the file of pins, for all servers (default: {_DEFAULT_PINS})",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also pin tools whose definitions contain instructions to the model",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_server_options(parser)


def run_mcp_pin(args: argparse.Namespace) -> int:
    """Show the tools of the server, and write pins for them."""
    name = require_server_name(args)
    before = read_pins(args.pins) if args.pins.exists() else ToolPins()
    listed = asyncio.run(_fetch_tools(args))
    rows = [
        _compare_pin(one, before, name, force=args.force) for one in list_candidates(listed, name)
    ]
    pinned = [row.one for row in rows if row.outcome != "refused"]
    gone = {tool.name for tool in before.tools_of(name)} - {one.name for one in pinned}
    write_file(args.pins, add_pins(before, name, pinned).to_json())
    if args.json:
        print(json.dumps(_pins_to_json(args, name, rows, gone), indent=2))
    else:
        _print_pins(args.pins, name, rows, gone)
    return _REFUSED if len(pinned) < len(rows) else 0


async def _fetch_tools(args: argparse.Namespace) -> list[Any]:
    server = await open_server(args)
    try:
        return await list_tools(server)
    finally:
        await server.close()


def _compare_pin(one: PinCandidate, before: ToolPins, server: str, *, force: bool) -> _PinRow:
    if one.pin is None:
        return _PinRow(one, "refused", one.problem)
    seen = "; ".join(f"{found.code}: {found.detail}" for found in one.findings[:3])
    if one.is_poisoned and not force:
        return _PinRow(one, "refused", seen)
    old = next((tool for tool in before.tools_of(server) if tool.name == one.name), None)
    if old is None:
        return _PinRow(one, "new", seen)
    same = old == one.pin and before.rest_of(server, one.name) == one.rest
    return _PinRow(one, "same" if same else "changed", seen)


def _print_pins(path: Path, name: str, rows: list[_PinRow], gone: set[str]) -> None:
    paint = Paint()
    colours = {"refused": "red", "changed": "yellow", "new": "green"}
    lines = [
        (row.one.name, row.outcome, _short_digest(row), _short_description(row)) for row in rows
    ]
    print(format_table(lines, ("tool", "outcome", "schema", "description"), paint))
    for row in rows:
        if row.why:
            word = paint(row.outcome, colours.get(row.outcome, "dim"))
            print(f"{word} `{one_line(row.one.name)}`: {one_line(row.why)}")
    for tool in sorted(gone):
        print(f"no longer pinned: `{one_line(tool)}`")
    count = sum(row.outcome != "refused" for row in rows)
    print(f"{path}: {count} of {len(rows)} tools of `{one_line(name)}` pinned")
    if count < len(rows):
        print("--force also pins tools whose definitions contain instructions; read them first")


def _short_digest(row: _PinRow) -> str:
    return "" if row.one.pin is None else row.one.pin.schema_digest[7 : 7 + _DIGEST_LENGTH]


def _short_description(row: _PinRow) -> str:
    tool = None if row.one.tool is None else row.one.tool.tool
    text = "" if tool is None else " ".join(tool.description.split())
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"


def _pins_to_json(
    args: argparse.Namespace, name: str, rows: list[_PinRow], gone: set[str]
) -> dict[str, Any]:
    return {
        "pins": str(args.pins),
        "server": name,
        "tools": [
            {
                "name": row.one.name,
                "outcome": row.outcome,
                "why": row.why,
                "schema_digest": None if row.one.pin is None else row.one.pin.schema_digest,
                "description_digest": None
                if row.one.pin is None
                else row.one.pin.description_digest,
                "rest_digest": row.one.rest or None,
            }
            for row in rows
        ],
        "gone": sorted(gone),
    }
