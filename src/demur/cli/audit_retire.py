"""`demur audit retire_records`: delete a tenant's oldest records; the rest of the chain stays valid."""

import argparse
import json

from demur.cli.moments import parse_time
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import InputError
from demur.gate.asking import DEFAULT_TENANT
from demur.gate.clock import system_clock, format_timestamp
from demur.store.backend import RecordFilter

__all__ = ["configure_audit_retire", "run_audit_retire"]


def configure_audit_retire(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 retired; 1 nothing retired, or an error; 2 usage"
    parser.add_argument(
        "--before", required=True, metavar="WHEN", help="a day, a time, or an age like 365d"
    )
    add_tenant_option(parser, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    parser.add_argument(
        "--yes", action="store_true", help="delete; default: only print what would be deleted"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_audit_retire(args: argparse.Namespace) -> int:
    """Delete, or print what would be deleted."""
    tenant = args.tenant or DEFAULT_TENANT
    before = format_timestamp(parse_time(args.before, system_clock()))
    with open_existing_store(load_settings(args)) as store:
        count = sum(1 for _ in store.find_records(RecordFilter(tenant=tenant, until=before)))
        if count and args.yes:
            count = store.retire_records(tenant, before)
    if not count:
        raise InputError(f"tenant `{tenant}` has no records from before {before}")
    if args.json:
        fields = {"tenant": tenant, "before": before, "records": count, "retired": bool(args.yes)}
        print(json.dumps(fields))
    else:
        _print_retirement(
            args, f"{count} record{'s' * (count != 1)} of tenant {tenant} from before {before}"
        )
    return int(not args.yes)


def _print_retirement(args: argparse.Namespace, what: str) -> None:
    if args.yes:
        print(f"retired {what}")
        print("  the chain continues from the last of them; `demur audit verify` still verifies it")
    else:
        print(f"would delete {what}")
        print("  nothing was deleted; --yes deletes, and cannot be undone")
