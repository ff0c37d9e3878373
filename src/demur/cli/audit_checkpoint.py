"""`demur audit save_checkpoint`: store the current heads of the chains."""

import argparse
import json

from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import add_config_option, open_existing_store, load_settings
from demur.gate.clock import system_clock, format_timestamp

__all__ = ["configure_audit_checkpoint", "run_audit_checkpoint"]


def configure_audit_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")
    add_config_option(parser)


def run_audit_checkpoint(args: argparse.Namespace) -> int:
    """Store the heads, and print them."""
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        heads = store.save_checkpoint(now)
    if args.json:
        print(json.dumps([{**head._asdict(), "created_at": now} for head in heads], indent=2))
    elif not heads:
        print("no records yet: there are no heads to store")
    else:
        rows = ((head.tenant, str(head.seq), head.hash) for head in heads)
        print(format_table(rows, ("TENANT", "RECORDS", "HASH"), Paint()))
        print(f"stored at {now}; `demur audit verify` checks the chains against it from now on")
    return 0
