"""`demur list_keys list`: list the API keys of the service, without their secrets."""

import argparse
import json
from typing import Any

from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import one_line
from demur.gate.clock import system_clock, format_timestamp
from demur.store.rows import ApiKey

__all__ = ["configure_keys_list", "describe_key", "run_keys_list"]

_KEY_FIELDS = ("key_id", "tenant", "created_at", "expires_at", "revoked_at", "note")


def configure_keys_list(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 done, 1 an error, 2 usage"
    add_tenant_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per key")
    add_config_option(parser)


def run_keys_list(args: argparse.Namespace) -> int:
    """Print the keys."""
    with open_existing_store(load_settings(args)) as store:
        kept = store.list_keys()
    keys = [key for key in kept if args.tenant in {None, key.tenant}]
    if args.json:
        for key in keys:
            print(json.dumps(describe_key(key)))
        return 0
    paint = Paint()
    if not keys:
        print(paint("no keys; create one with `demur keys create`", "dim"))
        return 0
    now = format_timestamp(system_clock())
    head = ("KEY", "TENANT", "ROLES", "STATE", "NOTE")
    print(format_table((_key_row(key, now) for key in keys), head, paint))
    return 0


def describe_key(key: ApiKey) -> dict[str, Any]:
    """Return a key as JSON fields."""
    return {**{name: getattr(key, name) for name in _KEY_FIELDS}, "roles": key.roles.split()}


def _key_row(key: ApiKey, now: str) -> tuple[str, ...]:
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at[:10]}"
    elif key.expires_at is not None:
        state = f"{'expired' if key.expires_at <= now else 'until'} {key.expires_at[:10]}"
    else:
        state = "good"
    return (key.key_id, one_line(key.tenant or "(all)"), key.roles, state, one_line(key.note))
