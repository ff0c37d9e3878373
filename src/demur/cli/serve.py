"""`demur serve`: serve decisions, guards, records and the dashboard over HTTP."""

import argparse
import json
from importlib import import_module
from typing import Any

from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, config_path, create_private_store, read_settings
from demur.errors import MissingExtraError
from demur.gate.config import Config
from demur.service.settings import read_settings as read_service

__all__ = ["configure_serve", "run_serve"]

_SERVE_EPILOG = (
    "exit: 0 stopped by a signal; 1 it cannot serve; 2 usage. "
    "SIGTERM finishes open requests first, a second SIGTERM stops at once"
)


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _SERVE_EPILOG
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="the address to listen on; all but loopback require API keys",
    )
    parser.add_argument("--port", type=int, metavar="N", help="the port; 0 picks a free port")
    parser.add_argument("--workers", type=int, metavar="N", help="the number of worker processes")
    parser.add_argument(
        "--sample",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="first store a day of sample decisions, under the tenant `sample`",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object when the service listens"
    )
    add_config_option(parser)


def run_serve(args: argparse.Namespace) -> int:
    """Serve until a signal stops the service."""
    path = config_path(args)
    config = read_settings(path)
    settings = read_service(config.service, host=args.host, port=args.port, workers=args.workers)
    running = _import_service()
    create_private_store(config)
    count = running.add_sample(config) if args.sample else 0

    def started(url: str) -> None:
        _announce_start(args, config, url, count)

    running.run_service(path, config, settings, started=started)
    return 0


def _import_service() -> Any:
    try:
        return import_module("demur.service.running")
    except ImportError as error:
        if (error.name or "").startswith("demur"):
            raise
        raise MissingExtraError(
            f"the service needs the `{error.name}` package", help="pip install 'demur[service]'"
        ) from error


def _announce_start(args: argparse.Namespace, config: Config, url: str, count: int) -> None:
    if args.json:
        print(json.dumps({"url": url, "store": config.store, "sample": count}), flush=True)
        return
    paint = Paint()
    if count:
        print(f"stored {count} sample decisions under the tenant `sample`")
    print(f"{paint('demur', 'bold')} listens on {paint(url, 'cyan')}")
    print(paint("  Ctrl-C stops it", "dim"), flush=True)
