"""`demur audit checkpoint`: store the current heads of the chains."""

import argparse
import json

from demur.cli.terminal import Paint, table
from demur.cli.workspace import add_config, existing_store, settings
from demur.gate.clock import system_clock, timestamp

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Store the heads, and print them."""
    now = timestamp(system_clock())
    with existing_store(settings(args)) as store:
        heads = store.checkpoint(now)
    if args.json:
        print(json.dumps([{**head._asdict(), "created_at": now} for head in heads], indent=2))
    elif not heads:
        print("no records yet: there are no heads to store")
    else:
        rows = ((head.tenant, str(head.seq), head.hash) for head in heads)
        print(table(rows, ("TENANT", "RECORDS", "HASH"), Paint()))
        print(f"stored at {now}; `demur audit verify` checks the chains against it from now on")
    return 0
