"""Serve the MCP proxy over HTTP."""

import argparse
import asyncio
import contextlib
import re
import secrets
import shutil
import signal
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from demur.cli.mcp_server import make_opener
from demur.errors import InputError
from demur.integrations.mcp_proxy.front import McpHttpApp
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import ProxyJudge
from demur.integrations.mcp_proxy.listing import Notify
from demur.integrations.mcp_proxy.place import is_loopback
from demur.integrations.mcp_proxy.sessions import IDLE_S, MAX_SESSIONS, ProxySessions

__all__ = [
    "ListenAddress",
    "add_listen_options",
    "parse_listen_address",
    "serve_over_http",
    "list_stop_signals",
]

_ADDRESS_PATTERN = re.compile(
    r"(?:(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]\s]*)):)?(?P<port>\d{1,5})"
)
_HOST_PATTERN = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.-]*[0-9A-Za-z_])?")
_DEFAULT_HOST = "127.0.0.1"


class ListenAddress(NamedTuple):
    """The address to listen on."""

    host: str
    port: int


def add_listen_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for HTTP clients."""
    parser.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        help=f"serve clients over streamable HTTP at /mcp instead of stdio (default host: {_DEFAULT_HOST};"
        " port 0 picks a free port); each client gets its own server",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="also accept this host name, at any port, with --listen; repeatable",
    )
    parser.add_argument(
        "--max-sessions",
        type=int,
        default=MAX_SESSIONS,
        metavar="N",
        help=f"maximum number of concurrent clients, with --listen (default: {MAX_SESSIONS})",
    )
    parser.add_argument(
        "--idle",
        type=float,
        default=IDLE_S,
        metavar="SECONDS",
        help=f"end sessions that are idle for this time, with --listen (default: {IDLE_S:g})",
    )


def parse_listen_address(args: argparse.Namespace) -> ListenAddress | None:
    """Return the address to listen on, or None for a client on standard input.

    Raises:
        InputError: The address, a host name or a limit is invalid.
    """
    if args.listen is None:
        return None
    found = _ADDRESS_PATTERN.fullmatch(args.listen)
    if found is None or int(found["port"]) > 65_535:
        problem = f"`{args.listen}` is not an address to listen on"
        raise InputError(problem, where="--listen", help="like `8080` or `127.0.0.1:8080`")
    for name in args.allow_host:
        if not _HOST_PATTERN.fullmatch(name):
            problem = f"`{name}` is not a bare host name"
            raise InputError(problem, where="--allow-host", help="like `proxy.example`, no port")
    if args.max_sessions < 1:
        raise InputError("must be at least 1", where="--max-sessions")
    if not 0 < args.idle < float("inf"):
        raise InputError("must be above 0 and finite", where="--idle")
    if args.command and shutil.which(args.command[0]) is None:
        raise InputError("cannot start the server: no such program", where=args.command[0])
    return ListenAddress(found["six"] or found["host"] or _DEFAULT_HOST, int(found["port"]))


def list_stop_signals() -> list[int]:
    """Return the signals that stop a proxy and its child processes cleanly."""
    stops: list[int] = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, "SIGHUP", None)
    # Under `nohup`, SIGHUP stays ignored.
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        stops.append(hangup)
    return stops


def serve_over_http(
    args: argparse.Namespace,
    address: ListenAddress,
    judge: ProxyJudge,
    guard_for: Callable[[ProxyJudge], ConnectionGuard],
    note: Notify,
) -> int:
    """Serve clients until a signal stops the proxy.

    Raises:
        InputError: The address cannot be used.
        MissingExtraError: HTTP needs a package that is not installed.
    """
    listening: Any = import_module("demur.integrations.mcp_proxy.listening")
    open_server = make_opener(args)
    with contextlib.closing(listening.bind_listener(*address)) as listener:
        if not is_loopback(address.host):
            note(f"everyone who can reach {address.host} can use the server: no key is required")

        async def serve() -> None:
            sessions = ProxySessions(
                open_server,
                lambda run: guard_for(judge._replace(run=run)),
                new_id=lambda: secrets.token_urlsafe(24),
                notify=note,
                max_sessions=args.max_sessions,
                idle_s=args.idle,
            )
            front = McpHttpApp(sessions, hosts=[address.host, *args.allow_host])
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in list_stop_signals():
                # Systems without such handlers end the process as usual.
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(number, stopped.set)
            await asyncio.to_thread(judge.warm_up)
            note(f"listens on {listening.url_of(listener)}")
            await listening.listen(
                front, sessions, listener, stopped, most_sessions=args.max_sessions
            )

        asyncio.run(serve())
    return 0
