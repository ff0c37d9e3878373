"""`demur audit`: verify the hash chains, export their heads, erase and retire records."""

import json
from argparse import Namespace
from pathlib import Path

from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_time, write_file
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.errors import InputError, error_reason, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import open_configured_spool
from demur.gate.inputs import DEFAULT_TENANT
from demur.store.backend import RecordFilter
from demur.store.rows import ChainHead
from demur.store.verify import ChainVerification, heads_document, read_heads, verify_chain

NOTHING_TO_VERIFY = 6


def configure_audit_verify(add: Arguments) -> None:
    """Add the command's arguments."""
    add_tenant_option(add)
    add("--from SEQ", "the first record to verify", dest="first", default=1)
    add("--to SEQ", "the last record to verify", dest="last", type=int)
    add(
        "--heads FILE",
        "heads exported by `demur audit heads`: they reveal records cut off since then",
        type=Path,
    )
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_verify(args: Namespace) -> int:
    """Print whether the chains are valid; 1 if one is not."""
    if args.first < 1 or (args.last is not None and args.last < args.first):
        raise UsageError("records are numbered from 1, and --to must not be before --from")
    heads = [] if args.heads is None else _read_heads_file(args.heads)
    with open_existing_store(load_settings(args)) as store:
        if args.tenant is not None:
            # Reject an unknown tenant: a valid empty chain would prove nothing.
            tenant_names = sorted({*store.backend.list_tenants(), *(head.tenant for head in heads)})
            if args.tenant not in tenant_names:
                known = ", ".join(tenant_names) or "no records yet"
                raise InputError(f"there is no tenant `{args.tenant}`", help=f"there are {known}")
        found = verify_chain(
            store.backend, args.tenant, first=args.first, last=args.last, heads=heads
        )
    if args.json:
        breaks = [broken._asdict() for broken in found.breaks]
        document = {"holds": found.holds, **found._asdict(), "breaks": breaks}
        print(json.dumps(document, indent=2))
    else:
        _print_verification(found, exported=args.heads is not None)
    if found.holds and not found.records:
        return NOTHING_TO_VERIFY
    return int(not found.holds)


def _read_heads_file(path: Path) -> list[ChainHead]:
    try:
        return read_heads(json.loads(path.read_bytes()))
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except OSError as error:
        problem = f"cannot read the heads: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError("not exported heads: not JSON", where=str(path)) from error


def _print_verification(found: ChainVerification, *, exported: bool) -> None:
    paint = Paint()
    for broken in found.breaks:
        named = "" if broken.decision_id is None else f" ({broken.decision_id})"
        place = one_line(f"tenant {broken.tenant}, record {broken.seq}{named}: {broken.problem}")
        print(f"{paint('broken:', 'bold', 'red')} {place}")
    records = f"{found.records} record{'s' * (found.records != 1)}"
    tenants = f"{found.tenants} tenant{'s' * (found.tenants != 1)}"
    more = [
        f"{count} {word}"
        for count, word in ((found.erased, "erased"), (found.unconfirmed, "unconfirmed"))
        if count
    ]
    summary = f"{records} of {tenants}" + (f" ({', '.join(more)})" if more else "")
    if not found.holds:
        print(paint(f"{summary} read up to there", "dim"))
    elif not found.records:
        print("no records yet: nothing to verify")
    else:
        print(f"{paint('ok', 'green')} the chains are valid: {summary}")
        if not exported:
            hint = "--heads with an earlier export also reveals records that were cut off"
            print(paint(hint, "dim"))


def configure_audit_heads(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--out FILE", "write to this file; an existing file is never replaced", type=Path)
    add_config_option(add)


def run_audit_heads(args: Namespace) -> int:
    """Export the heads as JSON."""
    with open_existing_store(load_settings(args)) as store:
        heads = store.list_heads()
    document = json.dumps(heads_document(heads, format_timestamp(system_clock())), indent=2)
    if args.out is None:
        print(document)
        return 0
    write_file(args.out, document + "\n", new="earlier exports are evidence: choose another file")
    print(f"{args.out}: {len(heads)} head{'s' * (len(heads) != 1)}")
    print(
        "  keep it where the store's writers have no access; `demur audit verify --heads` reads it"
    )
    return 0


def configure_audit_checkpoint(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--json", "a list of JSON objects")
    add_config_option(add)


def run_audit_checkpoint(args: Namespace) -> int:
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


def configure_audit_erase(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--subject WHO", "the subject, like `agent:billing`", required=True)
    add_tenant_option(add, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    add("--yes", "erase; default: only print what would be erased")
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_erase(args: Namespace) -> int:
    """Erase, or print what would be erased."""
    config, tenant = load_settings(args), args.tenant or DEFAULT_TENANT
    with open_existing_store(config) as store:
        record_filter = RecordFilter(tenant=tenant, subject=args.subject)
        count = sum(1 for _ in store.find_records(record_filter))
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
        what = f"{count} record{'s' * (count != 1)} of {args.subject}, tenant {tenant}"
        if args.yes:
            print(f"erased the personal part of {what}")
            print("  the decisions and their reasons remain, and the chain stays valid")
        else:
            print(f"would erase the personal part of {what}, and the experiences learned from them")
            print("  nothing was erased; --yes erases, and cannot be undone")
        if left and spool is not None:
            print(f"note: {spool.path} holds decisions that were never stored; check it, too")
    return int(not args.yes)


def configure_audit_retire(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--before WHEN", "a day, a time, or an age like 365d", required=True)
    add_tenant_option(add, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    add("--yes", "delete; default: only print what would be deleted")
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_retire(args: Namespace) -> int:
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


def _print_retirement(args: Namespace, what: str) -> None:
    if args.yes:
        print(f"retired {what}")
        print("  the chain continues from the last of them; `demur audit verify` still verifies it")
    else:
        print(f"would delete {what}")
        print("  nothing was deleted; --yes deletes, and cannot be undone")
