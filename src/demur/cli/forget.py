"""`demur forget`: forget what was learned; the labels it came from stay."""

import argparse
import json

from demur.cli.workspace import add_config, add_tenant, existing_store, settings
from demur.errors import InputError
from demur.gate.asking import DEFAULT_TENANT
from demur.gate.clock import system_clock, timestamp

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 forgotten; 1 there was nothing to forget, or an error; 2 usage"
    parser.add_argument(
        "ids", nargs="*", metavar="MEMORY_ID", help="what `demur learn` or `explain` named"
    )
    parser.add_argument("--expired", action="store_true", help="delete all that has expired")
    add_tenant(parser, f"whose memory; `{DEFAULT_TENANT}` if left out")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Forget, and say how many; 1 if a memory that was named is not there."""
    if bool(args.ids) == args.expired:
        raise InputError("name what to forget, or say --expired", help="one of the two")
    tenant = args.tenant or DEFAULT_TENANT
    now = timestamp(system_clock())
    with existing_store(settings(args)) as store:
        before = now if args.expired else None
        gone = store.forget(tenant, list(dict.fromkeys(args.ids)), before)
    if args.json:
        print(json.dumps({"tenant": tenant, "forgotten": gone}))
    else:
        print(f"forgot {gone} experience{'s' * (gone != 1)} of tenant {tenant}")
    missing = len(set(args.ids)) - gone
    if missing > 0:
        raise InputError(
            f"{missing} of these memories {'is' if missing == 1 else 'are'} not there",
            help=f"is --tenant right? This looked at `{tenant}`",
        )
    return 0
