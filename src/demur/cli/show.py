"""`demur show`: print one decision, or list the newest ones."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from demur.audit.story import format_amount
from demur.cli.moments import parse_time
from demur.cli.records import (
    ID_HELP,
    record_to_json,
    describe_record,
    find_record,
    record_to_json_line,
    label_lines,
)
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, format_timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.store import Store

__all__ = ["configure_show", "run_show", "describe_request"]

_DEFAULT_SHOWN = 20
_FILTER_OPTIONS = ("verdict", "code", "action", "subject", "since", "until", "last")


def configure_show(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", nargs="?", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--last",
        nargs="?",
        type=int,
        const=_DEFAULT_SHOWN,
        metavar="N",
        help=f"the newest N decisions; default: {_DEFAULT_SHOWN}",
    )
    parser.add_argument(
        "--verdict", choices=[str(word) for word in Verdict], help="only this verdict"
    )
    parser.add_argument("--code", metavar="CODE", help="only decisions with this reason code")
    parser.add_argument("--action", metavar="TYPE", help="only decisions on this type of action")
    parser.add_argument("--subject", metavar="WHO", help="only decisions for this subject")
    when = "a day, a time, or how long ago, like 7d"
    parser.add_argument("--since", metavar="WHEN", help=f"only from this time on: {when}")
    parser.add_argument("--until", metavar="WHEN", help="only before this time")
    add_tenant_option(parser)
    parser.add_argument(
        "--json", action="store_true", help="the whole record as JSON; many records: one per line"
    )
    add_config_option(parser)


def run_show(args: argparse.Namespace) -> int:
    """Print one decision, or the list."""
    given = [name for name in _FILTER_OPTIONS if getattr(args, name) is not None]
    if args.id is not None and given:
        raise InputError(f"--{given[0]} filters decisions, and cannot be combined with an ID")
    if args.last is not None and args.last < 1:
        raise InputError(f"--last must be above 0, not `{args.last}`")
    with open_existing_store(load_settings(args)) as store:
        if args.id is not None:
            record = find_record(store, args.id, args.tenant)
            print(record_to_json(record) if args.json else _describe_in_full(record, Paint()))
        else:
            _print_list(store, args, system_clock())
    return 0


def _describe_in_full(record: DecisionRecord, paint: Paint) -> str:
    place = "" if record.chain is None else f", number {record.chain.seq} of its chain"
    known_by = f"{record.decision_id} (tenant {record.tenant}{place})"
    return "\n".join(
        [describe_record(record, paint, known_by), *label_lines(describe_request(record), paint)]
    )


def describe_request(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    """Yield the action, subject, time and policy of a decision."""
    personal = record.personal
    who = "erased" if personal is None else personal.requester or "nobody named"
    amount = format_amount(record)
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "who", f"{who}, request {record.request_id}" if record.request_id else who
    yield "when", record.created_at
    policy = record.policy
    yield "by", f"{policy.policy_id} {policy.policy_version} ({policy.mode})"
    if record.continues is not None:
        yield "from", f"{record.continues} ({_describe_origin(record)})"


def _describe_origin(record: DecisionRecord) -> str:
    return "resolved" if record.basis == "resolution" else f"attempt {record.attempt}"


def _print_list(store: Store, args: argparse.Namespace, now: datetime) -> None:
    wanted = RecordFilter(
        tenant=args.tenant,
        verdict=args.verdict,
        reason_code=args.code,
        action_type=args.action,
        since=None if args.since is None else format_timestamp(parse_time(args.since, now)),
        until=None if args.until is None else format_timestamp(parse_time(args.until, now)),
        subject=args.subject,
    )
    limit = args.last or _DEFAULT_SHOWN
    # Fetch one more than shown, to know whether there are more.
    records = list(store.find_records(wanted, newest_first=True, limit=limit + 1))
    shown = records[:limit]
    if args.json:
        sys.stdout.writelines(f"{record_to_json_line(record)}\n" for record in shown)
        return
    print("\n".join(_list_records(shown, Paint(), more=len(records) > limit)))


def _list_records(records: Sequence[DecisionRecord], paint: Paint, *, more: bool) -> Iterator[str]:
    if not records:
        yield paint("no decisions", "dim")
        return
    rows = (
        (
            record.decision_id,
            f"{record.created_at[:10]} {record.created_at[11:19]}",
            record.tenant,
            record.verdict if record.enforced else f"{record.verdict} (advisory)",
            one_line(f"{record.action_type} {format_amount(record)}".rstrip()),
            ", ".join(record.reason_codes),
        )
        for record in records
    )
    yield format_table(
        rows, ("DECISION", "TIME (UTC)", "TENANT", "VERDICT", "ACTION", "CODES"), paint
    )
    count = f"{len(records)} decision{'s' * (len(records) != 1)}"
    yield paint(f"the newest {count}; --last shows more" if more else count, "dim")
