"""`demur audit erase_subject`: erase the personal data in a subject's records; the chain stays valid."""

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
from demur.gate.config import open_configured_spool
from demur.store.backend import RecordFilter

__all__ = ["configure_audit_erase", "run_audit_erase"]


def configure_audit_erase(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 erased; 1 nothing erased, or an error; 2 usage"
    parser.add_argument(
        "--subject", required=True, metavar="WHO", help="the subject, like `agent:billing`"
    )
    add_tenant_option(parser, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    parser.add_argument(
        "--yes", action="store_true", help="erase; default: only print what would be erased"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_audit_erase(args: argparse.Namespace) -> int:
    """Erase, or print what would be erased."""
    config, tenant = load_settings(args), args.tenant or DEFAULT_TENANT
    with open_existing_store(config) as store:
        wanted = RecordFilter(tenant=tenant, subject=args.subject)
        count = sum(1 for _ in store.find_records(wanted))
        if count and args.yes:
            count = store.erase_subject(tenant, args.subject)
    if not count:
        raise InputError(
            f"tenant `{tenant}` has no records of `{args.subject}`",
            help="write the subject as in the requests, like `agent:billing`",
        )
    spool = open_configured_spool(config)
    left = spool is not None and spool.path.exists()
    if args.json:
        print(json.dumps({"tenant": tenant, "records": count, "erased": bool(args.yes)}))
    else:
        _print_erasure(args, tenant, count)
        if left and spool is not None:
            print(f"note: {spool.path} holds decisions that were never stored; check it, too")
    return int(not args.yes)


def _print_erasure(args: argparse.Namespace, tenant: str, count: int) -> None:
    what = f"{count} record{'s' * (count != 1)} of {args.subject}, tenant {tenant}"
    if args.yes:
        print(f"erased the personal part of {what}")
        print("  the decisions and their reasons remain, and the chain stays valid")
    else:
        print(f"would erase the personal part of {what}, and the experiences learned from them")
        print("  nothing was erased; --yes erases, and cannot be undone")
