"""`demur normalize`: read the refusal in a provider's response, error or stream."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.options import add_registry_option
from demur.cli.request_files import STANDARD_INPUT
from demur.codes.default import default_registry
from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.providers.normalize import normalize

__all__ = ["configure_normalize", "run_normalize"]

REFUSED = 3
NOT_JUDGED = 6
_NORMALIZE_EPILOG = (
    "exit: 0 no refusal; 1 an error; 2 usage; 3 refused; 6 not judged, because a guard failed"
)


def configure_normalize(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _NORMALIZE_EPILOG
    parser.add_argument(
        "file",
        nargs="?",
        default=STANDARD_INPUT,
        metavar="FILE",
        help="a response, an error or a recorded stream, as JSON; `-` is standard input",
    )
    parser.add_argument(
        "--lines", action="store_true", help="each line is a separate response, not an event"
    )
    parser.add_argument(
        "--status", type=int, metavar="CODE", help="the HTTP status of the response"
    )
    add_registry_option(parser)
    parser.add_argument(
        "--json", action="store_true", help="the whole refusal as JSON, one per line"
    )


def run_normalize(args: argparse.Namespace) -> int:
    """Print the refusal line of each refusal."""
    registry = default_registry(*args.registry)
    found: list[Refusal] = []
    for given in _split_responses(_read_response(args.file), lines=args.lines):
        response = given if args.status is None else (args.status, given)
        refusal = normalize(response, registry=registry)
        if refusal is not None:
            found.append(refusal)
            print(_refusal_to_json(refusal) if args.json else refusal.line)
    if any(refusal.decided for refusal in found):
        return REFUSED
    return NOT_JUDGED if found else 0


def _split_responses(text: str, *, lines: bool) -> Iterator[Any]:
    if lines:
        yield from (line for line in text.splitlines() if line.strip())
    else:
        yield text


def _read_response(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the response: {reason}", where=name) from error
    text = raw.decode("utf-8", "replace")
    if not text.strip():
        where = "standard input" if name == STANDARD_INPUT else name
        raise InputError("the input holds no response", where=where, help="like {...}, or a stream")
    return text


def _refusal_to_json(refusal: Refusal) -> str:
    return json.dumps(msgspec.to_builtins(refusal), ensure_ascii=False)
