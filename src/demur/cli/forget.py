"""`demur forget_experiences`: delete learned experiences; the labels they came from stay."""

import argparse
import json

from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import InputError
from demur.gate.asking import DEFAULT_TENANT
from demur.gate.clock import system_clock, format_timestamp

__all__ = ["configure_forget", "run_forget"]


def configure_forget(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 deleted; 1 nothing to delete, or an error; 2 usage"
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="MEMORY_ID",
        help="an id that `demur learn` or `demur explain` printed",
    )
    parser.add_argument("--expired", action="store_true", help="delete all expired experiences")
    add_tenant_option(parser, f"the tenant of the memory; default: `{DEFAULT_TENANT}`")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_forget(args: argparse.Namespace) -> int:
    """Delete, and print how many; raise if a given id does not exist."""
    if bool(args.ids) == args.expired:
        raise InputError("give memory ids or --expired, not both")
    tenant = args.tenant or DEFAULT_TENANT
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        before = now if args.expired else None
        gone = store.forget_experiences(tenant, list(dict.fromkeys(args.ids)), before)
    if args.json:
        print(json.dumps({"tenant": tenant, "forgotten": gone}))
    else:
        print(f"forgot {gone} experience{'s' * (gone != 1)} of tenant {tenant}")
    missing = len(set(args.ids)) - gone
    if missing > 0:
        raise InputError(
            f"{missing} of these memories {'does' if missing == 1 else 'do'} not exist",
            help=f"is --tenant right? The tenant was `{tenant}`",
        )
    return 0
