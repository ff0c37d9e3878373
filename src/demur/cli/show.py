"""`demur show`: print one decision, or list the newest ones."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from demur.audit.story import amount_text
from demur.cli.moments import moment
from demur.cli.records import (
    ID_HELP,
    as_json,
    describe_record,
    find_record,
    json_line,
    labelled,
)
from demur.cli.terminal import Paint, table
from demur.cli.workspace import add_config, add_tenant, existing_store, settings
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import Filter
from demur.store.store import Store

__all__ = ["configure", "run", "seen"]

_USUAL = 20
_FILTERS = ("verdict", "code", "action", "subject", "since", "until", "last")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", nargs="?", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--last",
        nargs="?",
        type=int,
        const=_USUAL,
        metavar="N",
        help=f"the newest N decisions; default: {_USUAL}",
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
    add_tenant(parser)
    parser.add_argument(
        "--json", action="store_true", help="the whole record as JSON; many records: one per line"
    )
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Print one decision, or the list."""
    given = [name for name in _FILTERS if getattr(args, name) is not None]
    if args.id is not None and given:
        raise InputError(f"--{given[0]} filters decisions, and cannot be combined with an ID")
    if args.last is not None and args.last < 1:
        raise InputError(f"--last must be above 0, not `{args.last}`")
    with existing_store(settings(args)) as store:
        if args.id is not None:
            record = find_record(store, args.id, args.tenant)
            print(as_json(record) if args.json else _shown(record, Paint()))
        else:
            _print_list(store, args, system_clock())
    return 0


def _shown(record: DecisionRecord, paint: Paint) -> str:
    place = "" if record.chain is None else f", number {record.chain.seq} of its chain"
    known_by = f"{record.decision_id} (tenant {record.tenant}{place})"
    return "\n".join([describe_record(record, paint, known_by), *labelled(seen(record), paint)])


def seen(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    """Yield the action, subject, time and policy of a decision."""
    personal = record.personal
    who = "erased" if personal is None else personal.requester or "nobody named"
    amount = amount_text(record)
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "who", f"{who}, request {record.request_id}" if record.request_id else who
    yield "when", record.created_at
    policy = record.policy
    yield "by", f"{policy.policy_id} {policy.policy_version} ({policy.mode})"
    if record.continues is not None:
        yield "from", f"{record.continues} ({_follows(record)})"


def _follows(record: DecisionRecord) -> str:
    return "resolved" if record.basis == "resolution" else f"attempt {record.attempt}"


def _print_list(store: Store, args: argparse.Namespace, now: datetime) -> None:
    wanted = Filter(
        tenant=args.tenant,
        verdict=args.verdict,
        reason_code=args.code,
        action_type=args.action,
        since=None if args.since is None else timestamp(moment(args.since, now)),
        until=None if args.until is None else timestamp(moment(args.until, now)),
        subject=args.subject,
    )
    limit = args.last or _USUAL
    # Fetch one more than shown, to know whether there are more.
    records = list(store.find(wanted, newest_first=True, limit=limit + 1))
    shown = records[:limit]
    if args.json:
        sys.stdout.writelines(f"{json_line(record)}\n" for record in shown)
        return
    print("\n".join(_listed(shown, Paint(), more=len(records) > limit)))


def _listed(records: Sequence[DecisionRecord], paint: Paint, *, more: bool) -> Iterator[str]:
    if not records:
        yield paint("no decisions", "dim")
        return
    rows = (
        (
            record.decision_id,
            f"{record.created_at[:10]} {record.created_at[11:19]}",
            record.tenant,
            record.verdict if record.enforced else f"{record.verdict} (advisory)",
            one_line(f"{record.action_type} {amount_text(record)}".rstrip()),
            ", ".join(record.reason_codes),
        )
        for record in records
    )
    yield table(rows, ("DECISION", "TIME (UTC)", "TENANT", "VERDICT", "ACTION", "CODES"), paint)
    count = f"{len(records)} decision{'s' * (len(records) != 1)}"
    yield paint(f"the newest {count}; --last shows more" if more else count, "dim")
