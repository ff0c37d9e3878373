"""`demur keys revoke`: revoke an API key of the service."""

import argparse
import json

from demur.cli.workspace import add_config_option, open_existing_store, load_settings
from demur.errors import InputError
from demur.gate.clock import system_clock, format_timestamp

__all__ = ["configure_keys_revoke", "run_keys_revoke"]


def configure_keys_revoke(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 revoked, 1 an error, 2 usage"
    parser.add_argument("key_id", metavar="KEY", help="the id: the middle part of the key")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_keys_revoke(args: argparse.Namespace) -> int:
    """Revoke a key."""
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        if not store.revoke_key(args.key_id, now):
            raise InputError(
                f"there is no key `{args.key_id}` to revoke", help="`demur keys list` lists them"
            )
    if args.json:
        print(json.dumps({"key_id": args.key_id, "revoked_at": now}))
    else:
        print(f"revoked {args.key_id}; a running service rejects it within seconds")
    return 0
