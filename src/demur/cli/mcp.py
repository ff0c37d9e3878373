"""`demur mcp proxy` and `demur mcp pin`: guard an MCP server without changing it."""

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from demur.cli.main import Arguments, UsageError
from demur.cli.options import write_file
from demur.cli.terminal import Paint, format_table
from demur.enforce.opening import list_own_files, resolve_links
from demur.errors import InputError, one_line
from demur.gate.config import CONFIG_NAME, load_config, open_gate
from demur.gate.gate import Gate
from demur.gate.guard_settings import GuardSettings
from demur.integrations.mcp_proxy.addressing import server_name
from demur.integrations.mcp_proxy.definitions import ToolPins, read_pins
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.http_app import Authenticate, HttpCallError, McpHttpApp
from demur.integrations.mcp_proxy.judge import Notify, ProxyJudge, ProxyRules, make_judge
from demur.integrations.mcp_proxy.pinning import PinCandidate, add_pins, list_candidates, list_tools
from demur.integrations.mcp_proxy.sessions import IDLE_S, MAX_SESSIONS, ProxySessions
from demur.integrations.mcp_proxy.transport import (
    ChildUpstream,
    StdioDownstream,
    Upstream,
    relay_messages,
)
from demur.listener import is_loopback
from demur.store.backend import StorageError
from demur.store.store import Store

_HEADER_NAME_PATTERN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def add_server_options(add: Arguments) -> None:
    """Add the arguments that describe a server."""
    add("--name SERVER", "its name in pins and records; default: the name of its program or host")
    add("--url URL", "a server over streamable HTTP instead of a command")
    add(
        "--header 'NAME: VALUE' ...",
        "a header for --url; ${VARIABLE} is expanded from the environment",
    )
    help_text = "the command that starts the server"
    add("command", help_text, nargs="*", metavar="-- CMD ARGS")


def require_server_name(args: Namespace) -> str:
    """Return the server's name.

    Raises:
        InputError: No server or two servers are named, or the name or URL is invalid.
    """
    if bool(args.command) == bool(args.url):
        raise UsageError(
            "give one server: a command after `--`, or --url", help="like `-- python server.py`"
        )
    if args.url:
        try:
            parts = urlsplit(args.url)
            fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise InputError(f"`{args.url}` is not an HTTP URL", where="--url")
    name: str = args.name or server_name(args.command, args.url)
    if len(name) > 100 or not name.isprintable():
        raise InputError("the name of a server is at most 100 printable characters", where="--name")
    return name


def make_opener(args: Namespace) -> Callable[[], Awaitable[Upstream]]:
    """Return a function that opens a new connection to the server, to be closed.

    Raises:
        InputError: A header is invalid.
        MissingExtraError: HTTP needs a package that is not installed.
    """
    if args.command:
        return partial(ChildUpstream.start, args.command)
    module: Any = import_module("demur.integrations.mcp_proxy.http_upstream")
    headers = dict(_parse_header(text, os.environ) for text in args.header)

    async def connect() -> Upstream:
        return cast("Upstream", module.HttpUpstream(args.url, headers=headers))

    return connect


async def open_server(args: Namespace) -> Upstream:
    """Return the server, to be closed.

    Raises:
        InputError: The server cannot be started, or a header is invalid.
        MissingExtraError: HTTP needs a package that is not installed.
    """
    return await make_opener(args)()


def _parse_header(text: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    try:
        filled = Template(value.strip()).substitute(environment)
    except (KeyError, ValueError) as error:
        problem = "a variable in the header is not set, or a `$` is not followed by a name"
        raise InputError(problem, where=f"--header {name}"[:60], help="`$$` is a `$`") from error
    written = filled.isascii() and filled.isprintable()
    if not colon or not _HEADER_NAME_PATTERN.fullmatch(name) or not written:
        raise InputError("a header is `NAME: VALUE`, in ASCII", where="--header")
    return name, filled


_ADDRESS_PATTERN = re.compile(
    r"(?:(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]\s]*)):)?(?P<port>\d{1,5})"
)
_HOST_PATTERN = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.-]*[0-9A-Za-z_])?")
_DEFAULT_HOST = "127.0.0.1"


class ListenAddress(NamedTuple):
    """The address to listen on, and further host names that clients use."""

    host: str
    port: int
    names: tuple[str, ...] = ()


def add_listen_options(add: Arguments) -> None:
    """Add the options for HTTP clients."""
    add(
        "--listen [HOST:]PORT",
        "serve clients over streamable HTTP at /mcp instead of stdio (default host: "
        f"{_DEFAULT_HOST}; port 0 picks a free port; all but loopback require API keys); each "
        "session gets its own server",
    )
    add(
        "--allow-host NAME ...",
        "also accept this host name, at any port, and require API keys; with --listen; repeatable",
    )
    add(
        "--max-sessions N",
        f"maximum number of concurrent clients, with --listen (default: {MAX_SESSIONS})",
        default=MAX_SESSIONS,
    )
    add(
        "--max-client-sessions N",
        "maximum number of concurrent sessions of one key or address, with --listen (default: "
        "three quarters of --max-sessions)",
        type=int,
    )
    add(
        "--idle SECONDS",
        f"end sessions that are idle for this time, with --listen (default: {IDLE_S:g})",
        default=IDLE_S,
    )


def parse_listen_address(args: Namespace) -> ListenAddress | None:
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
    if args.max_client_sessions is not None and args.max_client_sessions < 1:
        raise InputError("must be at least 1", where="--max-client-sessions")
    if not 0 < args.idle < float("inf"):
        raise InputError("must be above 0 and finite", where="--idle")
    if args.command and shutil.which(args.command[0]) is None:
        raise InputError("cannot start the server: no such program", where=args.command[0])
    host = found["six"] or found["host"] or _DEFAULT_HOST
    return ListenAddress(host, int(found["port"]), tuple(args.allow_host))


def list_stop_signals() -> list[int]:
    """Return the signals that stop a proxy and its child processes cleanly."""
    stops: list[int] = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, "SIGHUP", None)
    # Under `nohup`, SIGHUP stays ignored.
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        stops.append(hangup)
    return stops


@contextlib.contextmanager
def open_authenticator(store: Store | None, address: ListenAddress) -> Iterator[Authenticate]:
    """Yield what authenticates clients: by the keys of the service, kept in the same store.

    Raises:
        InputError: Others can reach the address, and there is no valid key.
        StorageError: The store cannot be read.
    """
    keys: Any = import_module("demur.service.authentication")
    calls: Any = import_module("demur.service.calls")
    names = (address.host, *address.names)
    others = [name for name in names if not is_loopback(name)]
    if others and not keys.has_valid_key(store):
        raise InputError(
            "demur refuses to listen for this name: others can reach it, and there is no valid "
            "API key",
            where=f"{'--listen' if others[0] == address.host else '--allow-host'} {others[0]}",
            help="`demur keys create --tenant NAME --role decide` makes one in the store of "
            "--config; or listen on 127.0.0.1",
        )
    authenticator = keys.Authenticator(store, allow_local=not others)

    async def authenticate(headers: Mapping[str, str], client: str) -> str | None:
        is_local = is_loopback(client) and not calls.is_forwarded(headers)
        try:
            caller = await authenticator.authenticate(calls.read_token(headers), is_local=is_local)
        except keys.ProblemError as error:
            raise HttpCallError(error.status, error.problem, headers=error.headers) from error
        except StorageError as error:
            raise HttpCallError(503, "the store of keys is unavailable") from error
        if not caller.has_role(keys.Role.DECIDE):
            raise HttpCallError(403, f"this key has no role `{keys.Role.DECIDE}`")
        return None if caller is keys.LOCAL else caller.name

    with contextlib.closing(authenticator):
        yield authenticate


def serve_over_http(
    args: Namespace,
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
    listening: Any = import_module("demur.integrations.mcp_proxy.http_listener")
    open_server = make_opener(args)
    gate = judge.calls.gate
    with (
        open_authenticator(None if gate is None else gate.store, address) as authenticate,
        contextlib.closing(listening.bind_listener(address.host, address.port)) as listener,
    ):

        async def serve() -> None:
            sessions = ProxySessions(
                open_server,
                lambda run: guard_for(judge._replace(run=run)),
                new_id=lambda: secrets.token_urlsafe(24),
                notify=note,
                max_sessions=args.max_sessions,
                max_client_sessions=args.max_client_sessions,
                idle_s=args.idle,
            )
            hosts = [address.host, *address.names]
            front = McpHttpApp(sessions, authenticate=authenticate, hosts=hosts)
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in list_stop_signals():
                # Systems without such handlers end the process as usual.
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(number, stopped.set)
            await asyncio.to_thread(judge.warm_up)
            note(f"listens on {listening.listener_url(listener)}")
            await listening.serve_clients(
                front, sessions, listener, stopped, max_sessions=args.max_sessions
            )

        asyncio.run(serve())
    return 0


def configure_mcp_proxy(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("the status of a server over stdio is its own, or 128 + signal if a signal ended it")
    add(
        "--config FILE",
        "the settings file; default: guards decide without a policy. `DEMUR_CONFIG` and a "
        f"{CONFIG_NAME} in the working directory are not used: an agent could set them",
        type=Path,
    )
    add(
        "--pins FILE",
        "the pins that `demur mcp pin` wrote; other tools are hidden and refused",
        type=Path,
    )
    add(
        "--allow PATTERN ...",
        "allow only tools with matching names, like `read_*`; repeatable",
        default=None,
    )
    add("--deny PATTERN ...", "deny tools with matching names; overrides --allow; repeatable")
    add("--hard-as-error", "answer hard blocks with a JSON-RPC error instead of a tool result")
    add("--no-loops", "do not check for tool loops")
    add_listen_options(add)
    add_server_options(add)


def run_mcp_proxy(args: Namespace) -> int:
    """Relay between clients and the server until one of them ends or a signal stops the proxy."""
    name = require_server_name(args)
    place = parse_listen_address(args)
    pins = None if args.pins is None else read_pins(args.pins)
    if pins is None:
        _note(f"no pins: the tools of `{name}` are not verified (see `demur mcp pin`)")
    elif not pins.tools_of(name):
        _note(f"no tools of `{name}` are pinned, so all of them are refused")
    rules = ProxyRules(pins, args.allow, args.deny, loops=not args.no_loops)
    # Only a named file counts: the environment and the working directory could be an agent's.
    with _open_proxy_gate(args.config) as (gate, guards, own_files):
        # Only a server on this machine sees the links of this machine.
        resolve = partial(resolve_links, folder=str(Path.cwd())) if args.command else None
        judge = make_judge(gate, name, rules, guards, protected=own_files, resolve_path=resolve)
        guard_for = partial(ConnectionGuard, notify=_note, hard_as_error=args.hard_as_error)
        if place is None:
            return asyncio.run(_serve_stdio(args, guard_for(judge), judge))
        return serve_over_http(args, place, judge, guard_for, _note)


async def _serve_stdio(args: Namespace, guard: ConnectionGuard, judge: ProxyJudge) -> int:
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


@contextlib.contextmanager
def _open_proxy_gate(
    path: Path | None,
) -> Iterator[tuple[Gate | None, GuardSettings, tuple[str, ...]]]:
    if path is None:
        _note("no settings: only guards decide, and nothing is stored (see `demur init --agent`)")
        if Path(CONFIG_NAME).exists():
            _note(
                f"the {CONFIG_NAME} here is not used, because an agent could write it; use --config"
            )
        if os.environ.get("DEMUR_CONFIG"):
            _note("DEMUR_CONFIG is not used, because an agent could set it; use --config")
        yield None, GuardSettings(), ()
        return
    config = load_config(path)
    with open_gate(config) as gate:
        yield gate, config.guards, list_own_files(config, path)


def _note(text: str) -> None:
    print(f"demur: {one_line(text)}", file=sys.stderr, flush=True)


_DEFAULT_PINS = Path("mcp_pins.json")
_REFUSED = 3
_MAX_DESCRIPTION = 50
_DIGEST_LENGTH = 12


class _PinRow(NamedTuple):
    """A tool, its outcome, and the reason."""

    one: PinCandidate
    outcome: str
    why: str = ""


def configure_mcp_pin(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "--pins FILE",
        f"the file of pins, for all servers (default: {_DEFAULT_PINS})",
        type=Path,
        default=_DEFAULT_PINS,
    )
    add("--force", "also pin tools whose definitions contain instructions to the model")
    add("--json", "one JSON object")
    add_server_options(add)


def run_mcp_pin(args: Namespace) -> int:
    """Show the tools of the server, and write pins for them."""
    name = require_server_name(args)
    before = read_pins(args.pins) if args.pins.exists() else ToolPins()
    listed = asyncio.run(_fetch_tools(args))
    rows = [_compare(one, before, name, force=args.force) for one in list_candidates(listed, name)]
    pinned = [row.one for row in rows if row.outcome != "refused"]
    gone = {tool.name for tool in before.tools_of(name)} - {one.name for one in pinned}
    write_file(args.pins, add_pins(before, name, pinned).to_json())
    if args.json:
        print(json.dumps(_pins_json(args, name, rows, gone), indent=2))
    else:
        _print_pins(args.pins, name, rows, gone)
    return _REFUSED if len(pinned) < len(rows) else 0


async def _fetch_tools(args: Namespace) -> list[Any]:
    server = await open_server(args)
    try:
        return await list_tools(server)
    finally:
        await server.close()


def _compare(one: PinCandidate, before: ToolPins, server: str, *, force: bool) -> _PinRow:
    if one.pin is None:
        return _PinRow(one, "refused", one.problem)
    summary = "; ".join(f"{found.code}: {found.detail}" for found in one.findings[:3])
    if one.is_poisoned and not force:
        return _PinRow(one, "refused", summary)
    old = next((tool for tool in before.tools_of(server) if tool.name == one.name), None)
    if old is None:
        return _PinRow(one, "new", summary)
    same = old == one.pin and before.rest_of(server, one.name) == one.rest
    return _PinRow(one, "same" if same else "changed", summary)


def _print_pins(path: Path, name: str, rows: list[_PinRow], gone: set[str]) -> None:
    paint = Paint()
    colours = {"refused": "red", "changed": "yellow", "new": "green"}
    lines = [(row.one.name, row.outcome, _digest(row), _short_description(row)) for row in rows]
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


def _digest(row: _PinRow) -> str:
    return "" if row.one.pin is None else row.one.pin.schema_digest[7 : 7 + _DIGEST_LENGTH]


def _short_description(row: _PinRow) -> str:
    tool = None if row.one.tool is None else row.one.tool.tool
    text = "" if tool is None else " ".join(tool.description.split())
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"


def _pins_json(args: Namespace, name: str, rows: list[_PinRow], gone: set[str]) -> dict[str, Any]:
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
