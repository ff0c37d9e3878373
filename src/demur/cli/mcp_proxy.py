"""`demur mcp proxy`: guard an MCP server without changing it."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.mcp_listen import (
    add_listen_options,
    parse_listen_address,
    serve_over_http,
    list_stop_signals,
)
from demur.cli.mcp_server import add_server_options, require_server_name, open_server
from demur.cli.workspace import read_settings, open_workspace_gate
from demur.errors import one_line
from demur.gate.config import CONFIG_NAME
from demur.gate.gate import Gate
from demur.integrations.mcp_proxy.child import ChildUpstream
from demur.integrations.mcp_proxy.client import StdioDownstream
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import ProxyJudge, ProxyRules, make_judge
from demur.integrations.mcp_proxy.pins import read_pins
from demur.integrations.mcp_proxy.relay import relay_messages

if TYPE_CHECKING:
    from demur.integrations.mcp_proxy.upstream import Upstream

__all__ = ["configure_mcp_proxy", "run_mcp_proxy"]

_PROXY_EPILOG = (
    "exit: the status of the server (128 + signal, if a signal ended it); 0 for a server over HTTP,"
    " and with --listen after a stop signal; 1 it cannot start; 2 usage"
)


def configure_mcp_proxy(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _PROXY_EPILOG
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the settings file; default: `DEMUR_CONFIG`, or else guards decide without a policy. "
        f"A {CONFIG_NAME} in the working directory is not used: an agent could write it",
    )
    parser.add_argument(
        "--pins",
        type=Path,
        metavar="FILE",
        help="the pins that `demur mcp pin` wrote; other tools are hidden and refused",
    )
    parser.add_argument(
        "--allow",
        action="append",
        metavar="PATTERN",
        help="allow only tools with matching names, like `read_*`; repeatable",
    )
    parser.add_argument(
        "--deny",
        action="append",
        default=[],
        metavar="PATTERN",
        help="deny tools with matching names; overrides --allow; repeatable",
    )
    parser.add_argument(
        "--hard-as-error",
        action="store_true",
        help="answer hard blocks with a JSON-RPC error instead of a tool result",
    )
    parser.add_argument("--no-loops", action="store_true", help="do not check for tool loops")
    add_listen_options(parser)
    add_server_options(parser)


def run_mcp_proxy(args: argparse.Namespace) -> int:
    """Relay between clients and the server until one of them ends or a signal stops the proxy."""
    name = require_server_name(args)
    place = parse_listen_address(args)
    pins = None if args.pins is None else read_pins(args.pins)
    if pins is None:
        _print_note(f"no pins: the tools of `{name}` are not verified (see `demur mcp pin`)")
    elif not pins.tools_of(name):
        _print_note(f"no tools of `{name}` are pinned, so all of them are refused")
    rules = ProxyRules(pins, args.allow, args.deny, loops=not args.no_loops)
    with _open_proxy_gate(_named_config(args)) as gate:
        judge = make_judge(gate, name, rules)
        guard_for = partial(ConnectionGuard, notify=_print_note, hard_as_error=args.hard_as_error)
        if place is None:
            return asyncio.run(_serve_stdio(args, guard_for(judge), judge))
        return serve_over_http(args, place, judge, guard_for, _print_note)


async def _serve_stdio(args: argparse.Namespace, guard: ConnectionGuard, judge: ProxyJudge) -> int:
    stopped = asyncio.Event()
    caught: list[int] = []
    servers: list[Upstream] = []

    def stop(number: int) -> None:
        caught.append(number)
        for server in servers:
            if isinstance(server, ChildUpstream):
                server.send_signal(number)
        stopped.set()

    # Install the handlers before the server starts, so that a signal cannot orphan it.
    loop = asyncio.get_running_loop()
    for number in list_stop_signals():
        # Systems without such handlers end the process as usual.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop, number)
    servers.append(await open_server(args))
    # Warm up while client and server initialise.
    warming = asyncio.create_task(asyncio.to_thread(judge.warm_up))
    client = StdioDownstream(sys.stdin.fileno(), sys.stdout.fileno())
    status = await relay_messages(guard, client, servers[0], stopped)
    await warming
    return 128 + caught[0] if caught else status


def _named_config(args: argparse.Namespace) -> Path | None:
    """Return the named settings file. A file in the working directory could be an agent's."""
    named = args.config or os.environ.get("DEMUR_CONFIG")
    return Path(named) if named else None


@contextlib.contextmanager
def _open_proxy_gate(path: Path | None) -> Iterator[Gate | None]:
    if path is None:
        _print_note(
            "no settings: only guards decide, and nothing is stored (see `demur init --agent`)"
        )
        if Path(CONFIG_NAME).exists():
            _print_note(
                f"the {CONFIG_NAME} here is not used, because an agent could write it; use --config"
            )
        yield None
        return
    with open_workspace_gate(read_settings(path)) as gate:
        yield gate


def _print_note(text: str) -> None:
    print(f"demur: {one_line(text)}", file=sys.stderr, flush=True)
