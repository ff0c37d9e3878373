"""`demur audit report`: what was decided, approved, overridden and let go in a period."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from demur.audit.anchors import AnchorLine
from demur.audit.period_report import (
    ChainProof,
    PeriodReport,
    build_period_report,
    describe_chains,
    describe_period,
    report_csv,
    report_html,
    report_to_json,
)
from demur.cli.audit import read_anchors_option
from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_time, write_file
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.errors import InputError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.service.sample import SAMPLE_TENANT
from demur.store.store import Store
from demur.store.verify import verify_chain


def configure_audit_report(add: Arguments) -> None:
    """Add the command's arguments."""
    when = "a day, a time, `today`, `yesterday`, or how long ago: 2h, 7d"
    add("--from WHEN", f"the beginning of the period: {when}", dest="since", required=True)
    add("--to WHEN", "its end, which does not belong to it; default: now", dest="until")
    add_tenant_option(add, "only this tenant's; default: all but made-up decisions")
    form = add.either()
    form("--html FILE", "write a page for printing; an existing file is replaced", type=Path)
    form("--csv FILE", "write CSV; an existing file is replaced", type=Path)
    form("--json", "one JSON object")
    add("--anchors FILE", "check the chains against anchors of `demur audit anchor`", type=Path)
    add(
        "--keys FILE ...",
        "the trusted keys that signed the anchors; repeatable; default: those of the settings",
        type=Path,
        default=None,
    )
    add_config_option(add)


def run_audit_report(args: Namespace) -> int:
    """Write the report; 1 if a chain is broken."""
    now = system_clock()
    since = format_timestamp(parse_time(args.since, now))
    until = format_timestamp(now if args.until is None else parse_time(args.until, now))
    if since >= until:
        raise UsageError("--from is not before --to", help="swap them")
    if args.keys is not None and args.anchors is None:
        raise UsageError("--keys are those of anchors", help="add --anchors")
    config = load_settings(args)
    anchors = () if args.anchors is None else read_anchors_option(args, config)
    with open_existing_store(config) as store:
        tenants = _choose_tenants(store, args.tenant)
        proof = _verify_tenants(store, args.tenant, anchors)
        report = build_period_report(store, tenants, since, until, proof=proof)
    if args.json:
        print(json.dumps(report_to_json(report), indent=2))
    elif args.html is not None:
        write_file(args.html, report_html(report))
        print(f"{args.html}: {describe_period(report)}")
    elif args.csv is not None:
        write_file(args.csv, report_csv(report))
        print(f"{args.csv}: {describe_period(report)}")
    else:
        _print_report(report)
    return int(not report.chains_hold)


def _choose_tenants(store: Store, tenant: str | None) -> list[str]:
    known = store.backend.list_tenants()
    if tenant is None:
        return [name for name in known if name != SAMPLE_TENANT]
    if tenant not in known:
        names = ", ".join(known) or "no records yet"
        raise InputError(f"there is no tenant `{tenant}`", help=f"there are {names}")
    return [tenant]


def _verify_tenants(store: Store, tenant: str | None, anchors: Sequence[AnchorLine]) -> ChainProof:
    ends = [end for line in anchors for end in line.anchor.checkpoints]
    return ChainProof(verify_chain(store.backend, tenant, anchored=ends), anchors)


def _print_report(report: PeriodReport) -> None:
    paint = Paint()
    print(paint(describe_period(report), "bold"))
    print(describe_chains(report))
    for table in report.tables:
        if not table.rows:
            continue
        print(f"\n{paint(table.title, 'bold')}")
        if table.note:
            print(paint(table.note, "dim"))
        columns = tuple(name.replace("_", " ").upper() for name in table.columns)
        rows = (tuple(one_line(str(cell)) for cell in row) for row in table.rows)
        print(format_table(rows, columns, paint))
