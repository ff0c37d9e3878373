"""`demur keys create`: create an API key. It is shown once; only its digest is stored."""

import argparse
import json

from demur.cli.keys_list import describe_key
from demur.cli.moments import parse_period
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, create_private_store, load_settings
from demur.errors import InputError
from demur.gate.config import CONFIG_NAME, open_configured_store
from demur.service.access import Role, make_key

__all__ = ["configure_keys_create", "run_keys_create"]


def configure_keys_create(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 created, 1 an error, 2 usage"
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--tenant", metavar="TENANT", help="the tenant of the key")
    whose.add_argument("--all-tenants", action="store_true", help="a key for every tenant")
    parser.add_argument(
        "--role",
        action="append",
        required=True,
        choices=[str(role) for role in Role],
        metavar="ROLE",
        help="decide, read, label, or admin, which includes the others",
    )
    parser.add_argument("--expires", metavar="PERIOD", help="validity, like 90d")
    parser.add_argument("--note", default="", metavar="TEXT", help="a note on the key")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_keys_create(args: argparse.Namespace) -> int:
    """Create a key and print it."""
    if args.tenant == "":
        raise InputError(
            "--tenant must not be empty", help="--all-tenants creates a key for every tenant"
        )
    config = load_settings(args)
    lifetime = None if args.expires is None else parse_period(args.expires)
    made = make_key(args.tenant or "", args.role, note=args.note, lifetime=lifetime)
    create_private_store(config)
    store = open_configured_store(config)
    if store is None:
        raise InputError(
            "the settings name no store to keep keys in",
            help=f'set `store = "demur.db"` in {CONFIG_NAME}',
        )
    with store:
        store.add_key(made.key)
    if args.json:
        print(json.dumps({"token": made.token, **describe_key(made.key)}))
        return 0
    paint = Paint()
    whose = f"tenant {made.key.tenant}" if made.key.tenant else "all tenants"
    until = made.key.expires_at or "it is revoked"
    print(paint(made.token, "bold"))
    print(f"  key {made.key.key_id} for {whose}: {made.key.roles}; good until {until}")
    print(paint("  the key is shown once: only its digest is stored", "dim"))
    return 0
