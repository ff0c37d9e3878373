"""`demur respond`: render a refusal as text for a user, an agent or an operator."""

import argparse
import json
from collections.abc import Iterable, Mapping

from demur.cli.request_files import prefix_errors, read_requests
from demur.codes.default import default_registry
from demur.codes.names import is_code
from demur.codes.registry import Registry
from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.respond.audience import Audience
from demur.respond.case import ComposeSource
from demur.respond.compose import render
from demur.respond.loading import load_templates
from demur.respond.locales import FALLBACK_LOCALE
from demur.respond.sources import parse_compose_source
from demur.respond.views import view

__all__ = ["configure_respond", "run_respond"]


def configure_respond(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "refused",
        metavar="CODE|FILE",
        help="a reason code, or a record, decision or refusal as JSON; `-` is standard input",
    )
    parser.add_argument(
        "--locale",
        default=FALLBACK_LOCALE,
        help="the language, like `de-AT`, or the nearest available one",
    )
    parser.add_argument(
        "--audience",
        choices=[str(audience) for audience in Audience],
        default=str(Audience.END_USER),
        help="the reader",
    )
    parser.add_argument("--persona", metavar="NAME", help="the name of the assistant")
    parser.add_argument(
        "--slot",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="fill a slot of the template; repeatable",
    )
    parser.add_argument(
        "--templates",
        action="append",
        default=[],
        metavar="FILE",
        help="templates that override the built-in ones; repeatable",
    )
    parser.add_argument(
        "--json", action="store_true", help="the fields that the audience may see, as JSON"
    )


def run_respond(args: argparse.Namespace) -> int:
    """Print the text."""
    registry = default_registry()
    source = _load_source(args.refused, registry)
    settings = {
        "locale": args.locale,
        "audience": args.audience,
        "persona": args.persona,
        "slots": _parse_slots(args.slot),
        "templates": load_templates(*args.templates, registry=registry),
        "registry": registry,
    }
    if args.json:
        print(json.dumps(view(source, **settings), indent=2, ensure_ascii=False))
    else:
        print(render(source, **settings))
    return 0


def _load_source(name: str, registry: Registry) -> ComposeSource:
    if is_code(name):
        return Refusal.from_code(name, registry=registry)
    found = read_requests(name)
    if found.listed or not isinstance(found.requests[0].value, Mapping):
        help_text = "one decision at a time, as `demur show ID --json` prints it"
        raise InputError("not a decision", where=name, help=help_text)
    [one] = found.requests
    with prefix_errors(one.where):
        return parse_compose_source(one.value)


def _parse_slots(pairs: Iterable[str]) -> dict[str, str]:
    slots: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"`{pair}` is not NAME=TEXT", help="like --slot tool=search")
        slots[name] = text
    return slots
