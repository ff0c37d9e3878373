"""The MCP server of a command: its name, and how to open it."""

import argparse
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from string import Template
from typing import Any, cast
from urllib.parse import urlsplit

from demur.errors import InputError
from demur.integrations.mcp_proxy.child import ChildUpstream
from demur.integrations.mcp_proxy.naming import server_name
from demur.integrations.mcp_proxy.upstream import Upstream

__all__ = ["add_server_options", "require_server_name", "open_server", "make_opener"]

_HEADER_NAME_PATTERN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a server."""
    parser.add_argument(
        "--name",
        metavar="SERVER",
        help="its name in pins and records; default: the name of its program or host",
    )
    parser.add_argument(
        "--url", metavar="URL", help="a server over streamable HTTP instead of a command"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header for --url; ${VARIABLE} is expanded from the environment",
    )
    parser.add_argument(
        "command", nargs="*", metavar="-- CMD ARGS", help="the command that starts the server"
    )


def require_server_name(args: argparse.Namespace) -> str:
    """Return the server's name.

    Raises:
        InputError: No server or two servers are named, or the name or URL is invalid.
    """
    if bool(args.command) == bool(args.url):
        raise InputError(
            "give one server: a command after `--`, or --url",
            help="like `-- python server.py`",
        )
    if args.url:
        _check_address(args.url)
    name: str = args.name or server_name(args.command, args.url)
    if len(name) > 100 or not name.isprintable():
        raise InputError("the name of a server is at most 100 printable characters", where="--name")
    return name


def make_opener(args: argparse.Namespace) -> Callable[[], Awaitable[Upstream]]:
    """Return a function that opens a new connection to the server, to be closed.

    Raises:
        InputError: A header is invalid.
        MissingExtraError: HTTP needs a package that is not installed.
    """
    if args.command:
        return partial(ChildUpstream.start, args.command)
    module: Any = import_module("demur.integrations.mcp_proxy.http_server")
    headers = dict(_parse_header(text, os.environ) for text in args.header)

    async def reached() -> Upstream:
        return cast("Upstream", module.HttpServer(args.url, headers=headers))

    return reached


async def open_server(args: argparse.Namespace) -> Upstream:
    """Return the server, to be closed.

    Raises:
        InputError: The server cannot be started, or a header is invalid.
        MissingExtraError: HTTP needs a package that is not installed.
    """
    return await make_opener(args)()


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise InputError(f"`{url}` is not an HTTP URL", where="--url")


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
