"""`demur mcp pin`: pin the current tools of an MCP server."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

from demur.cli.files import write
from demur.cli.mcp_server import add_server, chosen_name, open_server
from demur.cli.terminal import Paint, table
from demur.errors import one_line
from demur.integrations.mcp_proxy.handshake import list_tools
from demur.integrations.mcp_proxy.pinning import Candidate, candidates, pins_with
from demur.integrations.mcp_proxy.pins import Pins, read_pins

__all__ = ["configure", "run"]

_DEFAULT = Path("mcp_pins.json")
_REFUSED = 3
_SHOWN = 50
_DIGITS = 12


class _Row(NamedTuple):
    """A tool, its outcome, and the reason."""

    one: Candidate
    outcome: str
    why: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 all tools are pinned; 1 an error; 2 usage; 3 some tools were refused"
    parser.add_argument(
        "--pins",
        type=Path,
        default=_DEFAULT,
        metavar="FILE",
        help=f"the file of pins, for all servers (default: {_DEFAULT})",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also pin tools whose definitions contain instructions to the model",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Show the tools of the server, and write pins for them."""
    name = chosen_name(args)
    before = read_pins(args.pins) if args.pins.exists() else Pins()
    listed = asyncio.run(_listed(args))
    rows = [_row(one, before, name, force=args.force) for one in candidates(listed, name)]
    pinned = [row.one for row in rows if row.outcome != "refused"]
    gone = {tool.name for tool in before.of(name)} - {one.name for one in pinned}
    write(args.pins, pins_with(before, name, pinned).to_json())
    if args.json:
        print(json.dumps(_as_json(args, name, rows, gone), indent=2))
    else:
        _print(args.pins, name, rows, gone)
    return _REFUSED if len(pinned) < len(rows) else 0


async def _listed(args: argparse.Namespace) -> list[Any]:
    server = await open_server(args)
    try:
        return await list_tools(server)
    finally:
        await server.close()


def _row(one: Candidate, before: Pins, server: str, *, force: bool) -> _Row:
    if one.pin is None:
        return _Row(one, "refused", one.problem)
    seen = "; ".join(f"{found.code}: {found.detail}" for found in one.findings[:3])
    if one.poisoned and not force:
        return _Row(one, "refused", seen)
    old = next((tool for tool in before.of(server) if tool.name == one.name), None)
    if old is None:
        return _Row(one, "new", seen)
    same = old == one.pin and before.rest_of(server, one.name) == one.rest
    return _Row(one, "same" if same else "changed", seen)


def _print(path: Path, name: str, rows: list[_Row], gone: set[str]) -> None:
    paint = Paint()
    colours = {"refused": "red", "changed": "yellow", "new": "green"}
    lines = [(row.one.name, row.outcome, _digest(row), _description(row)) for row in rows]
    print(table(lines, ("tool", "outcome", "schema", "description"), paint))
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


def _digest(row: _Row) -> str:
    return "" if row.one.pin is None else row.one.pin.schema_digest[7 : 7 + _DIGITS]


def _description(row: _Row) -> str:
    tool = None if row.one.tool is None else row.one.tool.tool
    text = "" if tool is None else " ".join(tool.description.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _as_json(
    args: argparse.Namespace, name: str, rows: list[_Row], gone: set[str]
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
